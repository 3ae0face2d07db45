import { request as httpRequest, type IncomingMessage } from "node:http";
import * as http2 from "node:http2";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { beforeAll, describe, expect, test } from "vitest";
import { CallState, Executor, FailureKind } from "@trunkline/proto/model";
import { randomUUID } from "node:crypto";
import type { JsonMessage } from "../support/connect-json.js";
import { useNode } from "./node.js";

const it = useNode();

interface Answered {
  readonly status: number;
  readonly body: JsonMessage;
  readonly headers: Headers;
}

/** Posts a settlement, as an object or as the text or bytes that are sent. */
async function settle(
  runId: string,
  body: object | string | Uint8Array<ArrayBuffer>,
  init: RequestInit = {},
): Promise<Answered> {
  const response = await fetch(`${it.node.url}/api/machine/sessions/${runId}/calls/settle`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: typeof body === "string" || body instanceof Uint8Array ? body : JSON.stringify(body),
    ...init,
  });
  const type = response.headers.get("content-type");
  expect(type).toBe("application/json");
  return { status: response.status, body: await response.json(), headers: response.headers };
}

/** A run with one open call of this key. */
async function open(key = "toolu_1"): Promise<{ runId: string; callId: string }> {
  const runId = await it.node.newRun();
  const [callId = ""] = await it.node.openIn(runId, { tool: "nobody", key });
  return { runId, callId };
}

/** The reason of the problem with which a settlement is refused, its status, and the field that is wrong. */
async function refusal(runId: string, body: Parameters<typeof settle>[1], init?: RequestInit) {
  const { status, body: answer } = await settle(runId, body, init);
  const { reason, metadata } = answer.problem ?? {};
  return [status, String(reason).replace("REASON_", ""), metadata?.field];
}

describe("a settlement over plain HTTP", () => {
  test("ends a call by its key, the model's tool-call id, with the result digit for digit", async () => {
    const { runId, callId } = await open();
    const result = '{ "n" : 12345678901234567890.10,\n"e": 1e400, "n": [-0.0, "\\u0000\\ud83d"] }';
    const sent = `{ "result" :\t${result}\r\n, "id":"toolu_1", "\\u0074ype": "tool.result"}`;
    expect(await settle(runId, sent)).toMatchObject({
      status: 200,
      body: { callId, state: "CALL_STATE_SUCCEEDED" },
    });
    expect(await it.node.call(callId)).toMatchObject({ state: CallState.SUCCEEDED, resultJson: result });
  });

  test("ends a call by its id", async () => {
    const { runId, callId } = await open();
    expect(
      await settle(runId, { type: "tool.result", id: callId, result: "https://reports/42.pdf" }),
    ).toMatchObject({
      status: 200,
      body: { callId, state: "CALL_STATE_SUCCEEDED" },
    });
    expect((await it.node.call(callId)).resultJson).toBe('"https://reports/42.pdf"');
  });

  test("without a result ends the call with null", async () => {
    const { runId, callId } = await open();
    await settle(runId, { type: "tool.result", id: callId });
    expect(await it.node.call(callId)).toMatchObject({ state: CallState.SUCCEEDED, resultJson: "null" });
  });

  test("with an error fails the call, with its message and data", async () => {
    const { runId, callId } = await open();
    const sent = `{"type":"tool.error","id":"toolu_1","error":{"message":"on fire \\u2764","data":{"n":1.0}},"retryable":false}`;
    expect(await settle(runId, sent)).toMatchObject({ status: 200, body: { state: "CALL_STATE_FAILED" } });
    expect((await it.node.call(callId)).failure).toMatchObject({
      kind: FailureKind.TOOL,
      message: "on fire ❤",
      dataJson: '{"n":1.0}',
      retryable: false,
      outcomeUnknown: false,
    });
  });

  test("with a retryable error lets a client tool's call go on with its next attempt, which is then fenced", async () => {
    await it.node.toolsets.putToolset({
      id: "browser",
      tools: [{ name: "confirm", executor: Executor.CLIENT }],
    });
    const runId = await it.node.newRun({ toolset: "browser" });
    const [callId = ""] = await it.node.openIn(runId, { tool: "confirm", key: "k" });
    const error = { type: "tool.error", id: "k", error: "no answer", retryable: true, attempt: 1 };
    expect(await settle(runId, error)).toMatchObject({ status: 200, body: { state: "CALL_STATE_DEFERRED" } });
    const stale = await settle(runId, { type: "tool.result", id: "k", result: 1, attempt: 1 });
    expect(stale).toMatchObject({
      status: 409,
      body: { callId, state: "CALL_STATE_DEFERRED", problem: { reason: "REASON_STALE_ATTEMPT" } },
    });
    expect((await it.node.call(callId)).attempt).toBe(2);
    expect((await settle(runId, { type: "tool.result", id: "k", result: 1, attempt: 2 })).status).toBe(200);
  });

  test("may be sent again, but not with another outcome (I1)", async () => {
    const { runId, callId } = await open();
    const body = { type: "tool.result", id: "toolu_1", result: 1 };
    for (let time = 1; time <= 2; time++) expect((await settle(runId, body)).status).toBe(200);
    expect(await settle(runId, { ...body, result: 2 })).toMatchObject({
      status: 409,
      body: { callId, state: "CALL_STATE_SUCCEEDED", problem: { code: 9, reason: "REASON_CALL_ENDED" } },
    });
    expect((await it.node.call(callId)).resultJson).toBe("1");
  });

  test("works over HTTP/2 as well", async () => {
    const { runId, callId } = await open();
    const session = http2.connect(it.node.url);
    const stream = session.request({
      ":method": "POST",
      ":path": `/api/machine/sessions/${runId}/calls/settle`,
      "content-type": "application/json; charset=utf-8",
    });
    stream.end('{"type":"tool.result","id":"toolu_1","result":7}');
    expect(JSON.parse(await text(stream))).toEqual({ callId, state: "CALL_STATE_SUCCEEDED" });
    session.close();
    await once(session, "close");
  });
});

describe("a settlement over plain HTTP is refused", () => {
  const RESULT = { type: "tool.result", id: "toolu_1" };
  const ERROR = { type: "tool.error", id: "toolu_1", error: "x" };

  let runId: string;
  let callId: string;
  beforeAll(async () => {
    ({ runId, callId } = await open());
  });

  test.each([
    ["that is empty", "", "INVALID_JSON", "body"],
    ["that is cut", '{"type":"tool.result","id":', "INVALID_JSON", "body"],
    ["with something behind it", `${JSON.stringify(RESULT)} 1`, "INVALID_JSON", "body"],
    ["with half of a surrogate pair", new Uint8Array([0x22, 0xed, 0xa0, 0xbd, 0x22]), "INVALID_JSON", "body"],
    ["that is a list", [RESULT], "INVALID_FIELD", "body"],
    ["that is a string", '"tool.result"', "INVALID_FIELD", "body"],
    [
      "with a member twice",
      '{"type":"tool.result","id":"toolu_1","result":1,"result":2}',
      "INVALID_FIELD",
      "body",
    ],
    [
      "with a member twice, once escaped",
      '{"type":"tool.result","id":"toolu_1","i\\u0064":"toolu_2"}',
      "INVALID_FIELD",
      "body",
    ],
    ["with a member that does not belong there", { ...RESULT, atempt: 1 }, "INVALID_FIELD", "body"],
    ["with an error beside the result", { ...RESULT, result: 1, error: "x" }, "INVALID_FIELD", "body"],
    ["without a type", { id: "toolu_1" }, "INVALID_FIELD", "type"],
    ["with another type", { ...RESULT, type: "tool.execute" }, "INVALID_FIELD", "type"],
    ["without an id", { type: "tool.result", result: 1 }, "INVALID_FIELD", "id"],
    ["with an empty id", { ...RESULT, id: "" }, "INVALID_FIELD", "id"],
    ["with a number for an id", { ...RESULT, id: 1 }, "INVALID_FIELD", "id"],
    ["with an attempt that is a text", { ...RESULT, attempt: "1" }, "INVALID_FIELD", "attempt"],
    ["with half an attempt", { ...RESULT, attempt: 1.5 }, "INVALID_FIELD", "attempt"],
    ["with an attempt below 0", { ...RESULT, attempt: -1 }, "INVALID_FIELD", "attempt"],
    [
      "with an attempt too large",
      `{"type":"tool.result","id":"toolu_1","attempt":1e400}`,
      "INVALID_FIELD",
      "attempt",
    ],
    ["without an error", { type: "tool.error", id: "toolu_1" }, "INVALID_FIELD", "error"],
    ["with a number for an error", { ...ERROR, error: 5 }, "INVALID_FIELD", "error"],
    ["with an error without a message", { ...ERROR, error: {} }, "INVALID_FIELD", "error.message"],
    [
      "with an unknown part of an error",
      { ...ERROR, error: { message: "x", more: 1 } },
      "INVALID_FIELD",
      "body",
    ],
    [
      "with half a surrogate pair in its message",
      { ...ERROR, error: "\ud83d" },
      "INVALID_FIELD",
      "error.message",
    ],
    ["with a retryable that is none", { ...ERROR, retryable: "yes" }, "INVALID_FIELD", "retryable"],
    [
      "with a result too deep",
      `{"type":"tool.result","id":"toolu_1","result":${"[".repeat(257)}${"]".repeat(257)}}`,
      "LIMIT_EXCEEDED",
      "body",
    ],
  ] as const)("for a body %s", async (_, body, reason, field) => {
    expect(await refusal(runId, body as object)).toEqual([400, reason, field]);
    expect((await it.node.call(callId)).state).toBe(CallState.QUEUED);
  });

  test("for a result above its limit with 413, and so is a body that no frame would hold", async () => {
    const most = "x".repeat(1024 * 1024 - 2);
    const body = (id: string, letters: string) => `{"type":"tool.result","id":"${id}","result":"${letters}"}`;
    for (const [sent, field] of [
      [body("toolu_1", `${most}x`), "result"],
      [body("toolu_1", most.repeat(4) + most), "body"],
      [{ ...ERROR, error: "x".repeat(9 * 1024) }, "error.message"],
    ] as const) {
      expect(await refusal(runId, sent)).toEqual([413, "LIMIT_EXCEEDED", field]);
    }
    expect((await it.node.call(callId)).state).toBe(CallState.QUEUED);
    await it.node.openIn(runId, { tool: "nobody", key: "toolu_2" });
    expect((await settle(runId, body("toolu_2", most))).status).toBe(200);
  });

  test("for a result that its tool's schema does not allow", async () => {
    await it.node.toolsets.putToolset({
      id: "typed",
      tools: [{ name: "t", outputSchemaJson: '{"type":"integer"}' }],
    });
    const runId = await it.node.newRun({ toolset: "typed" });
    await it.node.openIn(runId, { tool: "t", key: "k" });
    const refused = await refusal(runId, { type: "tool.result", id: "k", result: "x" });
    expect(refused).toEqual([400, "SCHEMA_VIOLATION", "result"]);
  });

  test("for a call that is not there, or not in this run", async () => {
    const other = await open("toolu_other");
    for (const [run, id] of [
      [runId, "toolu_9"],
      [runId, `${runId}/99`],
      [runId, other.callId],
      [runId, "toolu_other"],
      [randomUUID(), "toolu_1"],
      ["not-a-run", "toolu_1"],
      ["%ff", "toolu_1"],
    ] as const) {
      expect([id, ...(await refusal(run, { type: "tool.result", id }))].slice(1, 3)).toEqual([
        404,
        "NOT_FOUND",
      ]);
    }
    expect((await it.node.call(other.callId)).state).toBe(CallState.QUEUED);
  });

  test("for any method but POST, and any type but JSON, which a page of another origin could send", async () => {
    const body = JSON.stringify(RESULT);
    const got = await settle(runId, body, { method: "PUT" });
    expect([got.status, got.headers.get("allow")]).toEqual([405, "POST"]);
    for (const type of ["text/plain", "application/x-www-form-urlencoded", "application/jsonp"]) {
      expect((await settle(runId, body, { headers: { "content-type": type } })).status).toBe(415);
    }
    const packed = { "content-type": "application/json", "content-encoding": "gzip" };
    expect((await settle(runId, body, { headers: packed })).status).toBe(415);
    expect((await it.node.call(callId)).state).toBe(CallState.QUEUED);
  });

  test("for a body of a client that goes away in the middle of it, without a fault", async () => {
    const request = httpRequest(`${it.node.url}/api/machine/sessions/${runId}/calls/settle`, {
      method: "POST",
      headers: { "content-type": "application/json", "content-length": "1000" },
    });
    request.on("error", () => undefined);
    request.write('{"type":');
    await once(request, "socket");
    const closed = new Promise((resolve) => request.once("close", resolve));
    request.destroy();
    await closed;
    expect((await it.node.call(callId)).state).toBe(CallState.QUEUED);
  });

  test("at once where its client goes on sending, and the connection ends with it", async () => {
    const request = httpRequest(`${it.node.url}/api/machine/sessions/${runId}/calls/settle`, {
      method: "POST",
      headers: { "content-type": "text/plain", "transfer-encoding": "chunked" },
    });
    request.on("error", () => undefined);
    request.write("{");
    const [response] = (await once(request, "response")) as [IncomingMessage];
    expect([response.statusCode, response.headers.connection]).toEqual([415, "close"]);
    expect(JSON.parse(await text(response))).toMatchObject({ problem: { reason: "REASON_INVALID_FIELD" } });
    request.destroy();
  });
});

describe("a settlement over plain HTTP, where the server has a key,", () => {
  const keyed = useNode({ rootKey: "tl_root_0123456789" });

  test("needs it as everything else does, and repeats nothing of what was sent", async () => {
    const url = `${keyed.node.url}/api/machine/sessions/${randomUUID()}/calls/settle`;
    const ask = (key?: string) =>
      fetch(url, {
        method: "POST",
        headers: { "content-type": "application/json", ...(key && { authorization: `Bearer ${key}` }) },
        body: '{"type":"tool.result","id":"k"}',
      });
    for (const key of [undefined, "wrong", "tl_root_012345678"]) {
      const response = await ask(key);
      expect([response.status, response.headers.get("www-authenticate")]).toEqual([401, "Bearer"]);
      const body = await response.text();
      expect(JSON.parse(body)).toMatchObject({ problem: { code: 16, reason: "REASON_UNAUTHENTICATED" } });
      if (key !== undefined) expect(body).not.toContain(key);
    }
    expect((await ask("tl_root_0123456789")).status).toBe(404);
  });
});

test("no request of this file was a fault of the server", () => {
  expect(it.node.faults).toEqual([]);
});
