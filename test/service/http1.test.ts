import { Agent, request as httpRequest, type IncomingMessage } from "node:http";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { describe, expect, test } from "vitest";
import { postJson } from "../support/connect-json.js";
import { lasting } from "../support/until.js";
import { useNode } from "./node.js";

/** Node cuts a request after 5 min, and headers after 1 min, where nothing is said; here it would in a moment. */
const QUICK = { silenceMs: 100, headersMs: 100, stalledMs: 100, keepAliveMs: 100 };

const serving = useNode({ timeouts: QUICK });

describe("over HTTP/1.1", () => {
  test("calls are opened, waited for far longer than any timeout, and settled (B22 d, S24)", async () => {
    const { url } = serving.node;
    const post = async (rpc: string, body: object) => {
      const answer = await postJson(url, rpc, body);
      expect(answer.status, JSON.stringify(answer.body)).toBe(200);
      return answer.body;
    };
    const { run } = await post("RunService/CreateRun", { spec: {} });
    const opened = await post("CallService/OpenCalls", {
      runId: run.id,
      calls: [
        { tool: "nobody", inputJson: "1" },
        { tool: "nobody", inputJson: "2" },
      ],
    });
    const [first, second] = [opened.results[0].opened, opened.results[1].opened];
    const wait = (callId: string) => post("CallService/WaitCalls", { calls: [{ callId }], timeout: "1.5s" });
    const waits = [wait(first.callId), wait(second.callId)];
    await lasting(1_000);
    const items = [{ call: { callId: first.callId }, settlement: { resultJson: "3" } }];
    expect(await post("CallService/SettleCalls", { items })).toEqual({ results: [expect.any(Object)] });
    expect(await Promise.all(waits)).toMatchObject([
      { settled: true, outcomes: [{ callId: first.callId, resultJson: "3" }] },
      { open: [{ callId: second.callId }] },
    ]);
    expect(serving.node.faults).toEqual([]);
  });

  test.each(["WorkerService/Work", "CallService/Drive"])(
    "%s is refused at once with a word about HTTP/2, although its client goes on sending (S04)",
    async (rpc) => {
      const agent = new Agent({ keepAlive: true });
      const request = httpRequest(`${serving.node.url}/trunkline.v1.${rpc}`, {
        method: "POST",
        agent,
        headers: { "content-type": "application/connect+proto" },
      });
      const sentAt = performance.now();
      request.on("error", () => undefined);
      request.write(Buffer.alloc(5));
      const [response] = (await once(request, "response")) as [IncomingMessage];
      expect(response.statusCode).toBe(505);
      expect(response.headers.connection).toBe("close");
      expect(await text(response)).toContain(
        `/trunkline.v1.${rpc} is a stream in both directions: it needs HTTP/2`,
      );
      expect(performance.now() - sentAt).toBeLessThan(1_000);
      agent.destroy();
    },
  );
});
