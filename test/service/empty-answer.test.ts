import { connect, constants } from "node:http2";
import { expect, test } from "vitest";
import { useNode } from "./node.js";

const it = useNode();
const LIST_RUNS = "/trunkline.v1.RunService/ListRuns";

test.each([
  ["another Content-Type", 415, LIST_RUNS, { method: "POST", body: "{}" }, "application/json"],
  ["no Content-Type", 415, LIST_RUNS, { method: "POST" }, "application/json"],
  ["another method", 405, LIST_RUNS, {}, "POST"],
  ["a path without an RPC", 404, "/trunkline.v1.RunService/Nope", { method: "POST" }, LIST_RUNS],
  ["the root", 404, "/", {}, LIST_RUNS],
])("%s is refused with a line that says what to do", async (_, status, path, init, hint) => {
  const response = await fetch(it.node.url + path, init);
  expect([response.status, response.headers.get("content-type")]).toEqual([
    status,
    "text/plain; charset=utf-8",
  ]);
  const text = await response.text();
  expect(text).toMatch(/^.+\n$/);
  expect(text).toContain(hint);
});

test("a gRPC client that asks for an RPC which is not there is told 404, its word for UNIMPLEMENTED", async () => {
  const session = connect(it.node.url);
  const stream = session.request({
    ":path": "/trunkline.v1.RunService/Nope",
    ":method": "POST",
    "content-type": "application/grpc",
  });
  stream.end();
  const status = await new Promise((resolve) =>
    stream.once("response", (headers) => resolve(headers[":status"])),
  );
  stream.close(constants.NGHTTP2_CANCEL);
  session.destroy();
  expect(status).toBe(404);
});
