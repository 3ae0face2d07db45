import { once } from "node:events";
import * as http from "node:http";
import * as http2 from "node:http2";
import type { Duplex } from "node:stream";
import { buffer } from "node:stream/consumers";
import { onTestFinished } from "vitest";
import { within } from "../support/until.js";

/** What came back of a request, whose trailers count as headers. */
export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly body: Buffer;
}

/** What is asked. */
export interface Asking {
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly method?: string;
  /** Undefined: nothing of the body is ever sent, nor its end. */
  readonly body?: Buffer;
}

/** A connection of HTTP/2, until the test is over. */
export function session(url: string): http2.ClientHttp2Session {
  const client = http2.connect(url);
  client.on("error", () => undefined);
  onTestFinished(() => client.destroy());
  return client;
}

/** Asks by HTTP/2, on a connection of its own unless one is given. */
export async function askHttp2(
  at: string | http2.ClientHttp2Session,
  { path, headers, method = "POST", body }: Asking,
): Promise<Answer> {
  const client = typeof at === "string" ? session(at) : at;
  const stream = client.request({ ":method": method, ":path": path, ...headers });
  stream.on("error", () => undefined);
  const trailers: http2.IncomingHttpHeaders = {};
  stream.on("trailers", (more: http2.IncomingHttpHeaders) => Object.assign(trailers, more));
  if (body !== undefined && stream.writable) stream.end(body);
  const [head] = (await within(`an answer of ${path}`, once(stream, "response"))) as [
    http2.IncomingHttpHeaders,
  ];
  const answer = await buffer(stream);
  return { status: Number(head[":status"]), headers: { ...head, ...trailers }, body: answer };
}

/** Asks by HTTP/1.1, on a connection of its own. */
export async function askHttp1(
  url: string,
  { path, headers, method = "POST", body }: Asking,
): Promise<Answer> {
  const request = http.request(`${url}${path}`, { method, headers, agent: false });
  request.on("error", () => undefined);
  onTestFinished(() => void request.destroy());
  if (body === undefined) request.flushHeaders();
  else request.end(body);
  const [response] = (await within(`an answer of ${path}`, once(request, "response"))) as [
    http.IncomingMessage,
  ];
  const answer = await buffer(response);
  return {
    status: response.statusCode ?? 0,
    headers: { ...response.headers, ...response.trailers },
    body: answer,
  };
}

/** Writes a little again and again, until the other side has had enough. */
export async function dripUntilCut(stream: Duplex, piece: string): Promise<void> {
  const drip = setInterval(() => stream.writable && stream.write(piece), 10);
  const closed = new Promise((resolve) => stream.once("close", resolve));
  await within("the end of what drips", closed, 5_000).finally(() => clearInterval(drip));
}
