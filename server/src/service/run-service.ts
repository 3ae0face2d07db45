import type { ServiceImpl } from "@connectrpc/connect";
import type {
  CreateRunResponse,
  GetRunResponse,
  ListRunsRequest,
  ListRunsResponse,
  RunService,
  WatchRunRequest,
  WatchRunResponse,
} from "@trunkline/proto/run";
import type { Caller } from "../core/caller.js";
import { checkLabels, checkName, isUuid } from "../core/name.js";
import type { Scope } from "../core/scope.js";
import { endRun } from "../exchange/run-end.js";
import { countCalls } from "../store/calls-read.js";
import { listRuns as readRuns, loadRuns, type RunRecord } from "../store/runs.js";
import { callerOf, scopeOf } from "./auth.js";
import { toRunMessage } from "./convert.js";
import { fromRunState } from "./convert-enum.js";
import type { ServiceDeps } from "./deps.js";
import { checkRunSpec } from "./door.js";
import { knownRun, noRun } from "./open-call.js";
import { labelBytes, textBytes } from "./page-bytes.js";
import { fromPageToken, listName, PAGE_PAYLOAD_BYTES, pageItems, toPageToken } from "./page-token.js";
import { fromCursorToken } from "./watch-cursor.js";
import { WatchStream } from "./watch-stream.js";

/** A run beside its texts. */
const ROUGH_RUN_BYTES = 128;

/** RunService. */
export function runService(deps: ServiceDeps): ServiceImpl<typeof RunService> {
  return {
    createRun: async ({ spec }, context): Promise<CreateRunResponse> => {
      const scope = scopeOf(context);
      const { run, created } = await deps.exchange.runs.create(scope, checkRunSpec(spec, scope));
      return { $typeName: "trunkline.v1.CreateRunResponse", run: toRunMessage(run), created };
    },
    getRun: ({ runId }, context) => getRun(deps, scopeOf(context), runId),
    listRuns: (request, context) => listRuns(deps, scopeOf(context), request),
    endRun: async ({ runId }, context) => ({
      run: toRunMessage(await endRun(deps.exchange, scopeOf(context), runId)),
    }),
    watchRun: (request, context) => watchRun(deps, callerOf(context), request, context.signal),
  };
}

async function* watchRun(
  deps: ServiceDeps,
  caller: Caller,
  { runId, cursor }: WatchRunRequest,
  signal: AbortSignal,
): AsyncGenerator<WatchRunResponse, void, undefined> {
  const { record } = await knownRun(deps, caller.scope, runId);
  yield* new WatchStream(deps, caller, record, fromCursorToken(record.id, cursor), signal).responses();
}

async function getRun(deps: ServiceDeps, scope: Scope, runId: string): Promise<GetRunResponse> {
  const { db } = deps.exchange;
  const { projectId } = (await knownRun(deps, scope, runId)).record;
  const [[run], { open, total }] = await Promise.all([
    loadRuns(db, [{ projectId, id: runId }]),
    countCalls(db, projectId, runId),
  ]);
  if (run === null || run === undefined) throw noRun(runId);
  return { $typeName: "trunkline.v1.GetRunResponse", run: toRunMessage(run), openCalls: open, calls: total };
}

async function listRuns(
  deps: ServiceDeps,
  scope: Scope,
  request: ListRunsRequest,
): Promise<ListRunsResponse> {
  if (request.namespace !== "") checkName(request.namespace, "namespace");
  checkLabels(request.labels, "labels");
  const filter = {
    namespace: request.namespace === "" ? null : request.namespace,
    state: fromRunState(request.state, "state"),
    labels: request.labels,
  };
  const list = listName("runs", [scope, filter]);
  const after = fromPageToken(list, request.pageToken, (value) =>
    typeof value === "string" && isUuid(value) ? value : undefined,
  );
  const limit = pageItems(request.pageSize);
  const { runs, next } = await readRuns(deps.exchange.db, scope, { ...filter, limit, after });
  const page = runs.slice(0, fitting(runs));
  const last = page.length < runs.length ? (page.at(-1)?.id ?? null) : next;
  return {
    $typeName: "trunkline.v1.ListRunsResponse",
    runs: page.map(toRunMessage),
    nextPageToken: last === null ? "" : toPageToken(list, last),
  };
}

/** How many of these runs a client can receive at once; at least one. */
function fitting(runs: readonly RunRecord[]): number {
  let bytes = 0;
  const tooMany = runs.findIndex(({ key, namespace, toolset, labels }) => {
    bytes += ROUGH_RUN_BYTES + textBytes(key, namespace, toolset) + labelBytes(labels);
    return bytes > PAGE_PAYLOAD_BYTES;
  });
  return tooMany === -1 ? runs.length : Math.max(1, tooMany);
}
