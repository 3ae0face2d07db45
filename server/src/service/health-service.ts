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
import type { Availability } from "../exchange/availability.js";
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
 * shuts down, but for the time in which it has no database.
 *
 * @param isServing whether the node is not shutting down
 * @param streams tells the watchers of the shutdown
 */
export function healthService(
  isServing: () => boolean,
  streams: OpenStreams,
  availability: Availability,
): ServiceImpl<typeof Health> {
  const statusOf = (): Status => (isServing() && !availability.isDown ? Status.SERVING : Status.NOT_SERVING);
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
      watch(KNOWN.has(service) ? statusOf : () => Status.SERVICE_UNKNOWN, { streams, availability, signal }),
  };
}

interface Watching {
  readonly streams: OpenStreams;
  readonly availability: Availability;
  readonly signal: AbortSignal;
}

function respond(status: Status): HealthCheckResponse {
  return { $typeName: "grpc.health.v1.HealthCheckResponse", status };
}

/** The status now, and whenever it changes, until the node shuts down or the client goes away. */
async function* watch(
  current: () => Status,
  { streams, availability, signal }: Watching,
): AsyncGenerator<HealthCheckResponse, void, undefined> {
  const ending = new AbortController();
  let poke = (): void => {};
  const end = (): void => {
    ending.abort();
    poke();
  };
  const watcher = { shutDown: end };
  streams.add(watcher, null);
  const forget = availability.onChange(() => poke());
  signal.addEventListener("abort", end, { once: true });
  try {
    for (let told: Status | undefined; !signal.aborted;) {
      const status = current();
      if (status !== told) yield respond((told = status));
      // It may have changed while the client took the last one.
      else if (ending.signal.aborted) return;
      else await new Promise<void>((resolve) => (poke = resolve));
    }
  } finally {
    forget();
    streams.remove(watcher);
    signal.removeEventListener("abort", end);
  }
}
