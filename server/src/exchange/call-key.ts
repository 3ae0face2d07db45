import type { CallRef } from "../core/call.js";

/** A call's name inside a process: run ids are unique across projects. A call has it at hand, as its id. */
export function callKey(ref: Pick<CallRef, "runId" | "seq" | "id">): string {
  return ref.id ?? `${ref.runId}/${ref.seq}`;
}
