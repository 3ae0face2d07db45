import { RunState as WireState, type Run as WireRun } from "@trunkline/proto/run";
import { dateFromWire } from "./call.js";
import { translate } from "./problem.js";

/** Whether a run takes calls. */
export type RunState = "active" | "ended";

/** A run as it stands. */
export interface RunInfo {
  /** A UUID. */
  readonly id: string;
  /** The caller's own name for it, or the one that the SDK has made. */
  readonly key: string | undefined;
  readonly namespace: string;
  readonly toolset: string | undefined;
  /** The version that was pinned when it was made. */
  readonly toolsetVersion: number | undefined;
  readonly labels: Readonly<Record<string, string>>;
  readonly state: RunState;
  readonly createdAt: Date | undefined;
  /** When its TTL ends it; undefined without one. */
  readonly expiresAt: Date | undefined;
  readonly endedAt: Date | undefined;
}

const STATE_OF: Record<WireState, RunState> = {
  [WireState.UNSPECIFIED]: "active",
  [WireState.ACTIVE]: "active",
  [WireState.ENDED]: "ended",
};

/** A run, as the server tells it. */
export function runFromWire(run: WireRun): RunInfo {
  const { id, key, namespace, toolset, toolsetVersion } = run;
  return {
    ...{ id, namespace },
    key: key === "" ? undefined : key,
    toolset: toolset === "" ? undefined : toolset,
    toolsetVersion: toolset === "" ? undefined : toolsetVersion,
    labels: { ...run.labels },
    state: translate(STATE_OF, run.state, "active"),
    createdAt: dateFromWire(run.createdAt),
    expiresAt: dateFromWire(run.expiresAt),
    endedAt: dateFromWire(run.endedAt),
  };
}
