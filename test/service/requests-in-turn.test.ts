import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { TaskService } from "@trunkline/proto/task";
import { Health } from "@trunkline/proto/health";
import { RunService } from "@trunkline/proto/run";
import { describe, expect, onTestFinished, test } from "vitest";
import { LIMITS } from "../../server/src/core/limits.js";
import { listen, type Listener, type ListenerOptions } from "../../server/src/service/listener.js";
import type { RequestHandler } from "../../server/src/service/listener-handler.js";
import { until } from "../support/until.js";
import { useNode } from "./node.js";

const it = useNode();

/** A client of HTTP/1.1 that asks without waiting for answers, and reads none. */
async function client(url: string): Promise<Socket> {
  const socket = connect({ port: Number(new URL(url).port), host: "127.0.0.1" });
  socket.on("error", () => undefined);
  onTestFinished(() => void socket.destroy());
  await once(socket, "connect");
  return socket;
}

function post(path: string, type: string, body: Buffer): Buffer {
  const head = `POST ${path} HTTP/1.1\r\nhost: x\r\ncontent-type: ${type}\r\ncontent-length: ${body.length}\r\n\r\n`;
  return Buffer.concat([Buffer.from(head), body]);
}

const WATCH_HEALTH = post(`/${Health.typeName}/Watch`, "application/connect+json", enveloped({}));

function enveloped(message: object): Buffer {
  const bytes = Buffer.from(JSON.stringify(message));
  const head = Buffer.alloc(5);
  head.writeUInt32BE(bytes.length, 1);
  return Buffer.concat([head, bytes]);
}

describe("requests that wait their turn on a connection of HTTP/1.1", () => {
  const GET = "GET / HTTP/1.1\r\nhost: x\r\n\r\n";

  test("are over when it goes, and so is what they wrote", async () => {
    const waiting: Parameters<RequestHandler>[1][] = [];
    let over = 0;
    const listener = await open((_request, response) => {
      waiting.push(response);
      response.once("close", () => over++);
    });
    const socket = await client(listener.url);
    socket.write(GET.repeat(3));
    await until("all of them are asked", () => waiting.length === 3);
    const written = waiting.slice(1).map((response) => once(response, "drain"));
    for (const response of waiting.slice(1)) response.write(Buffer.alloc(1_000_000));
    socket.destroy();
    for (const each of written) await expect(each).rejects.toThrow("the client went away");
    await until("all of them are over", () => over === 3);
  });

  test("are over some time after it has gone, where so much waits that the server does not read", async () => {
    let [asked, over] = [0, 0];
    const listener = await open(
      (_request, response) => {
        response.once("close", () => over++);
        if (asked++ > 0) response.write(Buffer.alloc(1_000_000));
      },
      { stalledMs: 60 },
    );
    const socket = await client(listener.url);
    socket.write(GET.repeat(3));
    await until("all of them are asked", () => asked === 3);
    socket.destroy();
    await until("all of them are over", () => over === 3);
  });

  test("are not counted any more when it goes, among those without a credential", async () => {
    const ask = post(`/${TaskService.typeName}/GetTask`, "application/json", Buffer.from("{}"));
    const check = () =>
      fetch(`${it.node.url}/${TaskService.typeName}/GetTask`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: "{}",
      });
    const usual = (await check()).status;
    for (let connections = 0; connections < 4; connections++) {
      const socket = await client(it.node.url);
      // The first is not over while the connection lasts.
      socket.write(WATCH_HEALTH);
      const asked = Array.from({ length: LIMITS.anonymousRequests / 4 }, () => ask);
      await new Promise((resolve) => socket.write(Buffer.concat(asked), resolve));
      await until("its stream is open", () => it.node.deps.streams.size > 0);
      socket.resetAndDestroy();
      await until("its stream is over", () => it.node.deps.streams.size === 0);
    }
    await until("there is room again", async () => (await check()).status === usual);
    expect(it.node.faults).toEqual([]);
  });

  test("are ended when it goes, streams that nobody read among them", async () => {
    const runId = await it.node.newRun();
    await it.node.openIn(runId, { tool: "ask", inputJson: JSON.stringify("x".repeat(200_000)) });
    const watch = post(`/${RunService.typeName}/WatchRun`, "application/connect+json", enveloped({ runId }));
    const socket = await client(it.node.url);
    socket.write(Buffer.concat([WATCH_HEALTH, watch, watch, WATCH_HEALTH]));
    await until("all streams are open", () => it.node.deps.streams.size === 4);
    socket.destroy();
    await until("all streams are over", () => it.node.deps.streams.size === 0);
    expect(it.node.faults).toEqual([]);
  });
});

async function open(handler: RequestHandler, timeouts: ListenerOptions["timeouts"] = {}): Promise<Listener> {
  const listener = await listen({ host: "127.0.0.1", port: 0, handler, timeouts });
  onTestFinished(() => listener.close({ graceMs: 0 }));
  return listener;
}
