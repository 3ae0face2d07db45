// Many workers' streams to the echo, each on a connection of its own, on which nothing happens.
import { create } from "@bufbuild/protobuf";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { HelloSchema, WorkerService, WorkRequestSchema } from "@trunkline/proto/worker";
import { answerJobs, config } from "./answering.mjs";
import { FrameLine } from "./frame-line.mjs";

const { url, streams } = config;

const lines = Array.from({ length: streams }, () => {
  const up = new FrameLine(() => create(WorkRequestSchema));
  up.next.hello = create(HelloSchema, { sessionId: "bench", tools: ["noop"], slots: 10 });
  const transport = createGrpcTransport({ baseUrl: url, acceptCompression: [] });
  void listen(createClient(WorkerService, transport).work(up));
  return up;
});

/** Until the server goes. */
async function listen(frames) {
  try {
    for await (const frame of frames) void frame;
  } catch {
    process.exit(0);
  }
}

answerJobs({ jobs: {}, stop: () => lines.forEach((line) => line.end()) });
