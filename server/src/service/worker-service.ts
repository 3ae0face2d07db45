import type { ServiceImpl } from "@connectrpc/connect";
import type { WorkerService } from "@trunkline/proto/worker";
import { TrunklineError } from "../core/error.js";
import type { ServiceDeps } from "./deps.js";
import { scopeOf } from "./auth.js";
import { WorkStream } from "./work-stream.js";

/** The worker's service. Its unary twins are not built yet. */
export function workerService(deps: ServiceDeps): ServiceImpl<typeof WorkerService> {
  const notYet = (): never => {
    throw new TrunklineError("UNIMPLEMENTED", "this server carries workers over the Work stream alone");
  };
  return {
    work: (requests, context) => new WorkStream(deps, scopeOf(context), context.signal).run(requests),
    claimCalls: notYet,
    heartbeat: notYet,
    answerCalls: notYet,
    deferCall: notYet,
    releaseCalls: notYet,
  };
}
