import type { ServiceImpl } from "@connectrpc/connect";
import { AdminService } from "@trunkline/proto/admin";
import { CallService } from "@trunkline/proto/call";
import {
  Health,
  HealthCheckResponse_ServingStatus as Status,
  type HealthCheckResponse,
} from "@trunkline/proto/health";
import { RunService } from "@trunkline/proto/run";
import { TaskService } from "@trunkline/proto/task";
import { ToolsetService } from "@trunkline/proto/toolset";
import { WorkerService } from "@trunkline/proto/worker";
import { TrunklineError } from "../core/error.js";
import { quoted } from "../core/json-text.js";
import type { OpenStreams } from "./open-streams.js";

/** The services that a node has; the empty name is the node itself. */
const KNOWN: ReadonlySet<string> = new Set([
  "",
  ...[AdminService, CallService, Health, RunService, TaskService, ToolsetService, WorkerService].map(
    ({ typeName }) => typeName,
  ),
]);

/**
 * The standard health service. All services of a node are well or ill together: they serve until the node
 * shuts down.
 *
 * @param streams tells the watchers of the shutdown
 */
export function healthService(isServing: () => boolean, streams: OpenStreams): ServiceImpl<typeof Health> {
  const statusOf = (): Status => (isServing() ? Status.SERVING : Status.NOT_SERVING);
  return {
    check: ({ service }): HealthCheckResponse => {
      if (!KNOWN.has(service)) {
        throw new TrunklineError("NOT_FOUND", `there is no service ${quoted(service, 80)}`, {
          metadata: { field: "service" },
        });
      }
      return respond(statusOf());
    },
    watch: ({ service }, { signal }) =>
      watch(KNOWN.has(service) ? statusOf : () => Status.SERVICE_UNKNOWN, streams, signal),
  };
}

function respond(status: Status): HealthCheckResponse {
  return { $typeName: "grpc.health.v1.HealthCheckResponse", status };
}

/** The status now and at the shutdown, which ends the stream, as does the client's going away. */
async function* watch(
  current: () => Status,
  streams: OpenStreams,
  signal: AbortSignal,
): AsyncGenerator<HealthCheckResponse, void, undefined> {
  let end = (): void => {};
  const ended = new Promise<void>((resolve) => {
    end = resolve;
  });
  const watcher = { shutDown: end };
  streams.add(watcher);
  signal.addEventListener("abort", end, { once: true });
  try {
    const status = current();
    yield respond(status);
    await ended;
    if (!signal.aborted && current() !== status) yield respond(current());
  } finally {
    streams.remove(watcher);
    signal.removeEventListener("abort", end);
  }
}
