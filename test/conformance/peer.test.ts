import { create } from "@bufbuild/protobuf";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createAsyncIterable } from "@connectrpc/connect/protocol";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { WorkerService, WorkRequestSchema } from "@trunkline/proto/worker";
import { afterAll, beforeAll, expect, test } from "vitest";
import { KEY_PREFIX, Peer, type PeerEvents } from "../../server/src/conformance/peer.js";

const KEY = `${KEY_PREFIX}0123456789abcdef`;

const seen: string[] = [];
const nothing = (): void => undefined;
const events: PeerEvents = {
  nowMs: 0,
  onOpen: nothing,
  onEnd: nothing,
  onRequest: nothing,
  onResponse: nothing,
  onChange: nothing,
  onRefusal: nothing,
  onStray: nothing,
  onStranger: () => seen.push("stranger"),
  onStream: (stream) => {
    seen.push(stream.authorization ?? "no key");
    stream.end();
  },
};
const peer = new Peer(events, KEY);

beforeAll(() => peer.start());
afterAll(() => peer.close());

/** What came of a stream with this header, and what the peer told of it. */
async function work(authorization: string | undefined): Promise<{ end: Code | "end"; told: string[] }> {
  seen.length = 0;
  const sessionManager = new Http2SessionManager(peer.door.url);
  const transport = createGrpcTransport({ baseUrl: peer.door.url, sessionManager });
  const headers: HeadersInit = authorization === undefined ? {} : { authorization };
  const frames = createAsyncIterable([create(WorkRequestSchema, { hello: { sessionId: "s" } })]);
  let end: Code | "end" = "end";
  try {
    for await (const _ of createClient(WorkerService, transport).work(frames, { headers }));
  } catch (error) {
    end = ConnectError.from(error).code;
  }
  sessionManager.abort();
  return { end, told: [...seen] };
}

test("a worker that another run has left behind plays in no scenario, and is told to end", async () => {
  const other = await work(`Bearer ${KEY_PREFIX}fedcba9876543210`);
  expect(other).toEqual({ end: Code.Unauthenticated, told: ["stranger"] });
});

test("the run's own worker is let in, whatever is wrong with its key", async () => {
  for (const header of [`Bearer ${KEY}`, KEY, "Bearer something", undefined]) {
    expect(await work(header)).toEqual({ end: "end", told: [header ?? "no key"] });
  }
});
