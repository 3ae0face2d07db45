import type { Outcome } from "@trunkline/proto/model";
import type { Run } from "@trunkline/proto/run";
import type { Claim } from "@trunkline/proto/worker";

/** Roughly what an id and its tags take on the wire. */
export const ID_BYTES = 32;
/** What a small reply takes. */
export const REPLY_BYTES = 96;
/** What other things take beside what varies in them. */
export const PROBLEM_BYTES = 256;
const CLAIM_BYTES = 192;

/** What an id takes of a frame, roughly, one too that a client has made up. */
export function sizeOfId({ length }: string): number {
  return Math.max(ID_BYTES, length);
}

/** What a list of ids takes. */
export function sizeOfIds(ids: readonly string[]): number {
  return ids.reduce((bytes, id) => bytes + sizeOfId(id), ID_BYTES);
}

/** What a claim takes of a frame, roughly. */
export function sizeOfClaim({ inputJson, tool, namespace, labels }: Claim): number {
  return CLAIM_BYTES + inputJson.length + tool.length + namespace.length + sizeOfLabels(labels);
}

/** What an outcome takes of a frame, roughly. */
export function sizeOfOutcome({ resultJson, failure, key }: Outcome): number {
  const failed = failure === undefined ? 0 : failure.message.length + failure.dataJson.length;
  return REPLY_BYTES + key.length + resultJson.length + failed;
}

/** What a run takes of a frame, roughly. */
export function sizeOfRun({ labels }: Run): number {
  return PROBLEM_BYTES + sizeOfLabels(labels);
}

function sizeOfLabels(labels: Readonly<Record<string, string>>): number {
  let bytes = 0;
  for (const [name, value] of Object.entries(labels)) bytes += ID_BYTES + name.length + value.length;
  return bytes;
}
