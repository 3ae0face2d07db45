// Passes calls from a harness's stream to a worker's and back, and stores nothing.
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http2";
import { create } from "@bufbuild/protobuf";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { CallService, DriveResponseSchema, OpenedSchema } from "@trunkline/proto/call";
import { CallState, OutcomeSchema } from "@trunkline/proto/model";
import { AckSchema, ClaimSchema, WorkerService, WorkResponseSchema } from "@trunkline/proto/worker";
import { answerJobs } from "./answering.mjs";
import { FrameLine } from "./frame-line.mjs";
import { settledMemory } from "./settled-memory.mjs";

const harness = new FrameLine(() => create(DriveResponseSchema));
/** To the worker that came last; the others are idle. */
let worker = new FrameLine(() => create(WorkResponseSchema));
const workers = new Set();
let onWorker = () => undefined;
const RUN = "018f0000-0000-7000-8000-000000000000";
let seq = 0;

/** Hands a call to the worker and tells the harness that it is open. */
function opened({ request, call }) {
  const callId = `${RUN}/${++seq}`;
  harness.next.opened.push(create(OpenedSchema, { request, callId, key: call.key, created: true }));
  const claim = { claimId: randomBytes(16).toString("hex"), callId, attempt: 1, tool: call.tool };
  worker.next.claims.push(create(ClaimSchema, { ...claim, inputJson: call.inputJson, namespace: "bench" }));
}

/** Hands an answer to the harness and tells the worker that it counts. */
function answered({ callId, claimId, outcome }) {
  worker.next.acks.push(create(AckSchema, { claimId }));
  const state = CallState.SUCCEEDED;
  harness.next.outcomes.push(
    create(OutcomeSchema, { callId, key: "", tool: "noop", state, resultJson: outcome.value, attempt: 1 }),
  );
}

function onWork({ hello, answers }) {
  if (hello !== undefined) onWorker();
  answers.forEach(answered);
}

async function read(frames, onFrame) {
  try {
    for await (const frame of frames) onFrame(frame);
  } catch {
    // The other side has gone.
  }
}

const server = createServer(
  { settings: { initialWindowSize: 1024 * 1024 } },
  connectNodeAdapter({
    routes: (router) => {
      router.service(CallService, {
        drive: (frames) => {
          void read(frames, ({ opens }) => opens.forEach(opened));
          return harness;
        },
      });
      router.service(WorkerService, {
        work: (frames) => {
          const line = new FrameLine(() => create(WorkResponseSchema));
          worker = line;
          workers.add(line);
          void read(frames, onWork).then(() => workers.delete(line));
          return line;
        },
      });
    },
  }),
);
server.listen(0, "127.0.0.1");
await once(server, "listening");
const address = /** @type {import("node:net").AddressInfo} */ (server.address());
answerJobs({
  jobs: {
    /** Resolves when there are so many workers' streams. */
    streams: ({ count }) =>
      new Promise((resolve) => {
        onWorker = () => {
          if (workers.size >= count) resolve({});
        };
        onWorker();
      }),
    settledMemory: async () => ({ bytes: await settledMemory() }),
  },
  stop: () => undefined,
  ready: { url: `http://127.0.0.1:${address.port}` },
});
