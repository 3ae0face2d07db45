import type { ListCallsRequest, ListCallsResponse } from "@trunkline/proto/call";
import type { Failure } from "../core/failure.js";
import { checkLabels, checkName, checkToolName, isUuid } from "../core/name.js";
import type { Scope } from "../core/scope.js";
import { listCalls as readCalls, type CallCursor, type CallFilter } from "../store/calls-read.js";
import type { CallRecord } from "../store/rows.js";
import { toCallMessage } from "./convert.js";
import { fromCallState } from "./convert-enum.js";
import type { ServiceDeps } from "./deps.js";
import { invalidField } from "./door-field.js";
import { knownRun } from "./open-call.js";
import { labelBytes, textBytes } from "./page-bytes.js";
import { fromPageToken, listName, PAGE_PAYLOAD_BYTES, pageItems, toPageToken } from "./page-token.js";

const MAX_INT32 = 2 ** 31 - 1;
/** A call, or one failed attempt of it, beside its texts. */
const ROUGH_BYTES = 512;
const ROUGH_ATTEMPT_BYTES = 64;
/** The first read of payloads, whose sizes nobody knows yet. */
const FIRST_READ = 8;

/**
 * A page of calls, the newest first. A page of payloads is read in chunks that are as large as what was read so
 * far allows, and ends early where it would be too large for a client to receive.
 *
 * @throws TrunklineError INVALID_FIELD or LIMIT_EXCEEDED for a filter; NOT_FOUND for a run that is not there
 */
export async function listCalls(
  deps: ServiceDeps,
  scope: Scope,
  request: ListCallsRequest,
): Promise<ListCallsResponse> {
  const limit = pageItems(request.pageSize);
  const filter = checkFilter(request);
  if (filter.runId !== null) await knownRun(deps, scope, filter.runId);
  const { after: _, limit: __, payloads, ...filters } = filter;
  const list = listName("calls", [scope, filters]);
  let after = fromPageToken(list, request.pageToken, readCursor);
  const records: CallRecord[] = [];
  let bytes = 0;
  let size = payloads ? Math.min(limit, FIRST_READ) : limit;
  for (;;) {
    const page = await readCalls(deps.exchange.db, scope, { ...filter, limit: size, after });
    for (const record of page.records) {
      bytes += recordBytes(record);
      if (bytes > PAGE_PAYLOAD_BYTES && records.length > 0) return respond(records, payloads, list, after);
      records.push(record);
      after = { runId: record.call.runId, seq: record.call.seq };
    }
    if (page.next === null) return respond(records, payloads, list, null);
    if (records.length >= limit) return respond(records, payloads, list, after);
    const fitting = Math.ceil((PAGE_PAYLOAD_BYTES - bytes) / Math.max(1, bytes / records.length));
    size = Math.min(limit - records.length, Math.max(1, fitting));
  }
}

function checkFilter(request: ListCallsRequest): CallFilter {
  const { runId, states, tool, namespace, labels, turn, payloads } = request;
  if (tool !== "") checkToolName(tool, "tool");
  if (namespace !== "") checkName(namespace, "namespace");
  checkLabels(labels, "labels");
  if (turn !== undefined && turn > MAX_INT32)
    throw invalidField("turn", turn, `is 0 to ${String(MAX_INT32)}`);
  return {
    runId: runId === "" ? null : runId,
    states: [...new Set(states)].map((state, index) => fromCallState(state, `states[${String(index)}]`)),
    tool: tool === "" ? null : tool,
    namespace: namespace === "" ? null : namespace,
    labels,
    turn: turn ?? null,
    payloads,
    limit: 1,
    after: null,
  };
}

function readCursor(value: unknown): CallCursor | undefined {
  if (!Array.isArray(value)) return undefined;
  const [runId, seq] = value as readonly unknown[];
  if (typeof runId !== "string" || !isUuid(runId)) return undefined;
  if (typeof seq !== "number" || !Number.isInteger(seq) || seq < 1 || seq > MAX_INT32) return undefined;
  return { runId, seq };
}

/** What a call takes of a page, roughly. */
function recordBytes(record: CallRecord): number {
  const { call, labels, inputJson, progressJson, traceparent, attempts } = record;
  let bytes = ROUGH_BYTES + labelBytes(labels) + textBytes(inputJson, progressJson, traceparent);
  bytes += textBytes(call.key, call.namespace, call.tool, call.claim?.worker ?? null);
  if (call.state === "succeeded") bytes += textBytes(call.resultJson);
  for (const { worker, failure } of attempts)
    bytes += ROUGH_ATTEMPT_BYTES + textBytes(worker) + bytesOf(failure);
  if (call.state === "failed" || call.state === "canceled") bytes += bytesOf(call.failure);
  return bytes;
}

function bytesOf({ message, dataJson }: Failure): number {
  return textBytes(message, dataJson);
}

function respond(
  records: readonly CallRecord[],
  payloads: boolean,
  list: string,
  next: CallCursor | null,
): ListCallsResponse {
  return {
    $typeName: "trunkline.v1.ListCallsResponse",
    calls: records.map((record) => toCallMessage(record, { payloads })),
    nextPageToken: next === null ? "" : toPageToken(list, [next.runId, next.seq]),
  };
}
