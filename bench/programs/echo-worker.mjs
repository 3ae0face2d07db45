// Answers every claim of the echo with its input.
import { create } from "@bufbuild/protobuf";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { AnswerSchema, HelloSchema, WorkerService, WorkRequestSchema } from "@trunkline/proto/worker";
import { answerJobs, config } from "./answering.mjs";
import { FrameLine } from "./frame-line.mjs";

const client = createClient(
  WorkerService,
  createGrpcTransport({ baseUrl: config.url, acceptCompression: [] }),
);
const up = new FrameLine(() => create(WorkRequestSchema));
up.next.hello = create(HelloSchema, { sessionId: "bench", tools: ["noop"], slots: 1_000 });

async function work() {
  for await (const { claims } of client.work(up)) {
    if (claims.length === 0) continue;
    const frame = up.next;
    for (const { claimId, callId, inputJson } of claims) {
      frame.accepted.push(claimId);
      const outcome = { case: /** @type {const} */ ("resultJson"), value: inputJson };
      frame.answers.push(create(AnswerSchema, { claimId, callId, outcome }));
    }
    frame.grant += claims.length;
  }
}

work().catch(() => process.exit(0));
answerJobs({ jobs: {}, stop: () => up.end() });
