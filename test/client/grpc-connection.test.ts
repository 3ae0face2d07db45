import { once } from "node:events";
import { createServer, type Http2Server, type ServerHttp2Stream } from "node:http2";
import type { AddressInfo } from "node:net";
import { create, toBinary } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { WorkerService, WorkRequestSchema, WorkResponseSchema } from "@trunkline/proto/worker";
import { afterEach, describe, expect, test } from "vitest";
import { GrpcConnection } from "../../client/src/grpc-connection.js";
import { FrameWriter } from "../../client/src/frame-writer.js";

const HEAD = { ":status": 200, "content-type": "application/grpc+proto" };

let server: Http2Server | undefined;
afterEach(() => server?.close());

/** What a stream comes to against a server that does this with it. */
async function ending(serve: (stream: ServerHttp2Stream) => void): Promise<unknown> {
  server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  server.on("stream", (stream) => {
    stream.on("error", () => undefined);
    serve(stream);
  });
  const { port } = server.address() as AddressInfo;
  const connection = new GrpcConnection({
    url: `http://127.0.0.1:${port}`,
    authorization: undefined,
    tls: undefined,
  });
  const frames = new FrameWriter(() => create(WorkRequestSchema));
  frames.end();
  const seen: unknown[] = [];
  try {
    await connection.stream(WorkerService.method.work, frames, (frame) => seen.push(frame.$typeName));
    return seen;
  } catch (error) {
    return error;
  } finally {
    connection.abort();
  }
}

function message(flags: number): Buffer {
  const bytes = toBinary(WorkResponseSchema, create(WorkResponseSchema));
  const head = Buffer.alloc(5);
  head.writeUInt8(flags, 0);
  head.writeUInt32BE(bytes.length, 1);
  return Buffer.concat([head, bytes]);
}

function answer(stream: ServerHttp2Stream, body: Buffer, trailers: Record<string, string>): void {
  stream.respond(HEAD, { waitForTrailers: true });
  stream.once("wantTrailers", () => stream.sendTrailers(trailers));
  stream.end(body);
}

describe("a stream of plain gRPC", () => {
  test("that the server ends in order resolves after its last message", async () => {
    const seen = await ending((stream) =>
      answer(stream, Buffer.concat([message(0), message(0)]), { "grpc-status": "0" }),
    );
    expect(seen).toEqual(["trunkline.v1.WorkResponse", "trunkline.v1.WorkResponse"]);
  });

  test.each<readonly [string, Code, string, (stream: ServerHttp2Stream) => void]>([
    [
      "ends with a status in its trailers",
      Code.PermissionDenied,
      "no entry",
      (stream) => answer(stream, message(0), { "grpc-status": "7", "grpc-message": "no%20entry" }),
    ],
    [
      "is refused in its head",
      Code.Unauthenticated,
      "who",
      (stream) =>
        stream.respond({ ...HEAD, "grpc-status": "16", "grpc-message": "who" }, { endStream: true }),
    ],
    [
      "ends without a status",
      Code.Internal,
      "missing status",
      (stream) => answer(stream, message(0), { other: "1" }),
    ],
    [
      "has a compressed message",
      Code.Internal,
      "compressed",
      (stream) => answer(stream, message(1), { "grpc-status": "0" }),
    ],
    [
      "ends in the middle of a message",
      Code.InvalidArgument,
      "incomplete",
      (stream) => answer(stream, Buffer.alloc(3), { "grpc-status": "0" }),
    ],
    [
      "is answered by something else",
      Code.Unavailable,
      "HTTP 503",
      (stream) => stream.respond({ ":status": 503 }, { endStream: true }),
    ],
    ["is reset", Code.Unavailable, "ENHANCE_YOUR_CALM", (stream) => stream.close(11)],
    ["is reset without an error", Code.Unavailable, "closed", (stream) => stream.close(0)],
    ["loses its connection", Code.Unavailable, "", (stream) => stream.session?.destroy()],
  ])("that %s rejects", async (_, code, said, serve) => {
    const error = await ending(serve);
    expect(error).toBeInstanceOf(ConnectError);
    expect(error).toMatchObject({ code });
    expect((error as ConnectError).rawMessage).toContain(said);
  });
});
