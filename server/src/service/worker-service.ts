import type { ServiceImpl } from "@connectrpc/connect";
import type { WorkerService } from "@trunkline/proto/worker";
import { callerOf } from "./auth.js";
import type { ServiceDeps } from "./deps.js";
import { WorkStream } from "./work-stream.js";
import { workUnary } from "./work-unary.js";

/** The worker's service: the stream, and its unary twins. */
export function workerService(deps: ServiceDeps): ServiceImpl<typeof WorkerService> {
  return {
    ...workUnary(deps),
    work: (requests, context) => new WorkStream(deps, callerOf(context), context.signal).run(requests),
  };
}
