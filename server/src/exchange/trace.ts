import { createHash } from "node:crypto";
import type { CallRef } from "../core/call.js";
import { formatCallId } from "../core/name.js";

/**
 * The trace context for a call's worker: the caller's trace, with the call's own span as parent. The span's
 * id comes from the call's, so that every node and every attempt names the same one. Empty without a trace.
 */
export function spanParent(traceparent: string, ref: Pick<CallRef, "runId" | "seq">): string {
  if (traceparent === "") return "";
  const [version, traceId, , flags] = traceparent.split("-");
  const spanId = createHash("sha256").update(formatCallId(ref)).digest("hex").slice(0, 16);
  return `${version}-${traceId}-${spanId}-${flags}`;
}
