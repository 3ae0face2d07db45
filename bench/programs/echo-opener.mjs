// Opens calls on the echo, and waits for their outcomes.
import { create } from "@bufbuild/protobuf";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { CallService, CallSpecSchema, DriveRequestSchema, NewCallSchema } from "@trunkline/proto/call";
import { answerJobs, config } from "./answering.mjs";
import { FrameLine } from "./frame-line.mjs";

const client = createClient(CallService, createGrpcTransport({ baseUrl: config.url, acceptCompression: [] }));
const up = new FrameLine(() => create(DriveRequestSchema));
/** @type {Map<number, (outcome: unknown) => void>} */
const asked = new Map();
/** @type {Map<string, (outcome: unknown) => void>} */
const open = new Map();
let requests = 0;

async function drive() {
  for await (const { opened, outcomes } of client.drive(up)) {
    for (const { request, callId } of opened) {
      open.set(callId, asked.get(request));
      asked.delete(request);
    }
    for (const outcome of outcomes) {
      open.get(outcome.callId)?.(JSON.parse(outcome.resultJson));
      open.delete(outcome.callId);
    }
  }
}

function call(input) {
  return new Promise((resolve) => {
    const request = ++requests;
    asked.set(request, resolve);
    const spec = create(CallSpecSchema, {
      tool: "noop",
      inputJson: JSON.stringify(input),
      key: `bench-${request}`,
    });
    up.next.opens.push(create(NewCallSchema, { request, runId: "bench", call: spec }));
  });
}

drive().catch(() => process.exit(0));
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

answerJobs({
  jobs: {
    callers: async ({ callers, seconds }) => {
      let calls = 0;
      const startedAt = performance.now();
      const caller = async () => {
        while (performance.now() - startedAt < seconds * 1_000) await call({ n: calls++ });
      };
      await Promise.all(Array.from({ length: callers }, caller));
      return { calls, seconds: (performance.now() - startedAt) / 1_000 };
    },
    /** One call at a time; fewer where the time is over before. */
    latency: async ({ calls, pauseMs, seconds = Infinity }) => {
      const ms = [];
      const until = performance.now() + seconds * 1_000;
      for (let n = 0; n < calls && performance.now() < until; n++) {
        if (pauseMs > 0) await pause(pauseMs);
        const startedAt = performance.now();
        await call({ n });
        ms.push(performance.now() - startedAt);
      }
      return { ms };
    },
  },
  stop: () => up.end(),
});
