import type { ServiceImpl } from "@connectrpc/connect";
import type { Ack, HeldClaim, WorkerService } from "@trunkline/proto/worker";
import type { CallRef } from "../core/call.js";
import { LIMITS } from "../core/limits.js";
import { checkName } from "../core/name.js";
import type { Scope } from "../core/scope.js";
import type { SignOfLife } from "../store/sessions.js";
import { callerOf, scopeOf } from "./auth.js";
import { fromDuration } from "./convert.js";
import type { ServiceDeps } from "./deps.js";
import { parseCallRefId } from "./door.js";
import { checkCount, missingField } from "./door-field.js";
import { acknowledged, applyAnswer, applyDeferral, applyRelease, isGoodProgress } from "./work-items.js";
import { WorkPoll } from "./work-poll.js";

const DEFAULT_WAIT_MS = 30_000;
const MAX_WAIT_MS = 60_000;

/** What every request but `ClaimCalls` says of its worker. */
interface Sender {
  readonly sessionId: string;
  readonly nonce: string;
}

/**
 * The unary twins of the `Work` stream, on the same state. `ClaimCalls` is the one that moves a session; any node
 * takes the others, each of which is a sign of life.
 */
export function workUnary(deps: ServiceDeps): Omit<ServiceImpl<typeof WorkerService>, "work"> {
  return {
    async claimCalls({ hello, wait }, context) {
      if (hello === undefined) throw missingField("hello", "is the worker's hello");
      const waitMs =
        wait === undefined ? DEFAULT_WAIT_MS : fromDuration(wait, "wait", { minMs: 0, maxMs: MAX_WAIT_MS });
      return new WorkPoll(deps, callerOf(context), context.signal).run(hello, waitMs);
    },

    async heartbeat(request, context) {
      const sign = signOf(request, scopeOf(context));
      const named = request.claims.map(({ claimId }) => claimId);
      const progress = request.progress.filter(isGoodProgress);
      const { confirmed, lost } = await deps.exchange.heartbeats.beatApart(sign, named, progress);
      return { confirmed: [...confirmed], lost: [...lost] };
    },

    async answerCalls(request, context) {
      const scope = scopeOf(context);
      const sign = signOf(request, scope);
      checkCount(request.answers.length, "answers", LIMITS.callsPerRequest);
      const acks = request.answers.map((answer) =>
        acknowledged(deps, answer.claimId, () => applyAnswer(deps, scope, undefined, answer)),
      );
      return { acks: await settled(deps, sign, acks) };
    },

    async deferCall(request, context) {
      const scope = scopeOf(context);
      const sign = signOf(request, scope);
      const { deferral } = request;
      if (deferral === undefined) throw missingField("deferral", "is the claim's deferral");
      const ack = acknowledged(deps, deferral.claimId, () => applyDeferral(deps, scope, undefined, deferral));
      const [stored] = await settled(deps, sign, [ack]);
      return stored === undefined ? {} : { ack: stored };
    },

    async releaseCalls(request, context) {
      const scope = scopeOf(context);
      const sign = signOf(request, scope);
      checkCount(request.releases.length, "releases", LIMITS.credit);
      const acks = request.releases.map((release) =>
        acknowledged(deps, release.claimId, () =>
          applyRelease(deps, scope, refOf(scope, release), release.claimId),
        ),
      );
      return { acks: await settled(deps, sign, acks) };
    },
  };
}

/**
 * Whose request it is.
 *
 * @throws TrunklineError INVALID_FIELD
 */
function signOf({ sessionId, nonce }: Sender, scope: Scope): SignOfLife {
  checkName(sessionId, "session_id");
  checkName(nonce, "nonce");
  return { scope, sessionId, nonce };
}

function refOf({ projectId }: Scope, { callId }: HeldClaim): CallRef {
  return { projectId, ...parseCallRefId(callId) };
}

/** The acknowledgements, once all are there, and the sign of life is noted, whatever it says of the session. */
async function settled(deps: ServiceDeps, sign: SignOfLife, acks: readonly Promise<Ack>[]): Promise<Ack[]> {
  const [all] = await Promise.all([Promise.all(acks), deps.exchange.sessions.heard(sign)]);
  return all;
}
