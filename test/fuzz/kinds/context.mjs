import { AdminService } from "@trunkline/proto/admin";
import { CallService } from "@trunkline/proto/call";
import { Health } from "@trunkline/proto/health";
import { ServerReflection } from "@trunkline/proto/reflection";
import { ServerReflection as ServerReflectionV1Alpha } from "@trunkline/proto/reflection-v1alpha";
import { RunService } from "@trunkline/proto/run";
import { TaskService } from "@trunkline/proto/task";
import { ToolsetService } from "@trunkline/proto/toolset";
import { WorkerService } from "@trunkline/proto/worker";

/** @typedef {import("@bufbuild/protobuf").DescMethod} DescMethod */
/** @typedef {import("../../fault-run/random.mjs").Random} Random */
/** @typedef {import("../wire/answer.mjs").Answer} Answer */
/**
 * What every input is sent with.
 *
 * @typedef {object} Context
 * @property {number} port
 * @property {import("../wire/http2-client.mjs").Http2Pool} pool
 * @property {import("../input/known.mjs").Known} known
 * @property {import("../stage/credentials.mjs").Credentials} credentials
 * @property {number} patienceMs How long an answer may take.
 * @property {() => void} onGoaway Told of each connection whose client broke HTTP/2: Node reads nothing of it any more,
 *   not even its end, and so the server cuts it when it has been quiet for a minute.
 */
/**
 * One kind of inputs.
 *
 * @typedef {object} Kind
 * @property {string} name
 * @property {number} weight
 * @property {(context: Context, random: Random) => Promise<Answer>} send
 */

const SERVICES = [
  ...[AdminService, CallService, RunService, TaskService, ToolsetService, WorkerService],
  ...[Health, ServerReflection, ServerReflectionV1Alpha],
];

/** All RPCs. @type {readonly DescMethod[]} */
export const METHODS = SERVICES.flatMap(({ methods }) => methods);

/** Those with one message up. */
export const UNARY_METHODS = METHODS.filter(({ methodKind }) => methodKind === "unary");

/** Those whose answers may take their time. */
export const WAITING = new Set([
  "WaitCalls",
  "ClaimCalls",
  "WatchRun",
  "Watch",
  "ServerReflectionInfo",
  "Drive",
]);

/** For an answer that may take its time. */
export const LITTLE_MS = 300;
/** In which a stream that goes on says something, as it does in every heartbeat interval. */
export const BEATS_MS = 3_000;

/**
 * Makes one and the same input from two places alike.
 *
 * @param {DescMethod} method
 */
export function pathOf(method) {
  return `/${method.parent.typeName}/${method.name}`;
}
