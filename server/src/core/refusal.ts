import type { Call } from "./call.js";
import type { Reason } from "./error.js";
import type { Decision } from "./event.js";
import { formatCallId } from "./name.js";

/** Nothing changes, for this reason. */
export function refuse(reason: Reason, message: string): Decision {
  return { verdict: { ok: false, reason, message }, change: null };
}

/** The claim can do nothing more. */
export function claimLost(call: Call, claimId: string): Decision {
  const now =
    call.claim === null || call.claim.id === claimId
      ? `the call is ${call.state}`
      : `the call is at attempt ${call.attempt}, under another claim`;
  return refuse("CLAIM_LOST", `claim ${claimId} of call ${formatCallId(call)} is no longer held: ${now}`);
}

/** The attempt is not the last one. */
export function staleAttempt(call: Call, attempt: number): Decision {
  return refuse(
    "STALE_ATTEMPT",
    `attempt ${attempt} of call ${formatCallId(call)} is not its last one, which is ${call.attempt}`,
  );
}
