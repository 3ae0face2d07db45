import type { CallRef } from "../core/call.js";

/** A call's name inside a process: run ids are unique across projects. */
export function callKey(ref: Pick<CallRef, "runId" | "seq">): string {
  return `${ref.runId}/${ref.seq}`;
}
