import type { claimVerdict } from "../core/answering.js";
import type { CallRef } from "../core/call.js";
import { TrunklineError } from "../core/error.js";
import type { Scope } from "../core/scope.js";
import type { Session, SessionFacts } from "./session.js";

/** A claim as a worker names it. */
export interface NamedClaim {
  /** Null where it names no call that can be. */
  readonly ref: CallRef | null;
  readonly claimId: string;
}

/** What became of a claim that a hello named. */
export interface NamedVerdict {
  readonly claimId: string;
  readonly standing: ReturnType<typeof claimVerdict>;
}

/** A worker's hello, checked at the door. */
export interface HelloRequest {
  readonly scope: Scope;
  readonly facts: SessionFacts;
  readonly slots: number;
  readonly claims: readonly NamedClaim[];
}

/** What a hello came to. */
export interface Welcomed {
  readonly session: Session;
  readonly verdicts: readonly NamedVerdict[];
  /** Starts the claims: call it once the welcome is on its way. */
  readonly start: () => void;
}

/** Another process has a stream open under the session's id. */
export function inUse(sessionId: string): TrunklineError {
  return new TrunklineError(
    "SESSION_IN_USE",
    `session ${JSON.stringify(sessionId)} has an open stream of another process`,
    { metadata: { field: "session_id" } },
  );
}

/** The hello speaks of claims as they were before a later one, which was taken first. */
export function outrun(helloNumber: number): TrunklineError {
  return new TrunklineError(
    "SUPERSEDED",
    `hello.number: ${helloNumber}; a hello of this session with a higher number was taken before`,
    { metadata: { field: "hello.number" } },
  );
}

/** A later hello has the session. */
export function superseded(): TrunklineError {
  return new TrunklineError("SUPERSEDED", "the session said hello on another stream");
}
