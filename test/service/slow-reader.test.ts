import { once } from "node:events";
import { connect, type IncomingHttpHeaders } from "node:http2";
import { expect, onTestFinished, test } from "vitest";
import { TcpProxy } from "../support/tcp-proxy.js";
import { until } from "../support/until.js";
import { useNode } from "./node.js";

const it = useNode({ rootKey: "root-key-of-the-test" });

test("a refusal reaches a client that reads it only after seconds, though its request was not read", async () => {
  await using proxy = await TcpProxy.start(it.node.port);
  const client = connect(proxy.url);
  onTestFinished(() => client.destroy());
  await once(client, "remoteSettings");
  const stream = client.request({
    ":method": "POST",
    ":path": "/trunkline.v1.RunService/ListRuns",
    "content-type": "application/grpc",
    te: "trailers",
  });
  let trailers: IncomingHttpHeaders = {};
  stream.on("trailers", (given) => (trailers = given));
  stream.resume();
  proxy.hold("down");
  stream.end(Buffer.alloc(5));
  const since = performance.now();
  await until("more time has passed than a stream lingers", () => performance.now() - since > 1_500);
  proxy.release();
  await once(stream, "close");
  expect(trailers["grpc-status"]).toBe("16");
});
