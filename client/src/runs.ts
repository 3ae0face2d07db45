import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { RunState as WireState } from "@trunkline/proto/run";
import { onlyFields, oneOf } from "./argument.js";
import type { Calls } from "./calls.js";
import type { Drive } from "./drive.js";
import { parseDuration, type Duration } from "./duration.js";
import { TrunklineError } from "./errors.js";
import { orderedKeys } from "./ordered-keys.js";
import { Page, pageToWire, type PageOptions } from "./page.js";
import { Run } from "./run.js";
import { runFromWire, type RunInfo, type RunState } from "./run-info.js";
import { present, wellFormed, wellFormedLabels } from "./text.js";
import type { Unary } from "./unary.js";
import type { WatchPort } from "./watch.js";

/** What makes a run. */
export interface RunOptions {
  /** The end user that it acts for. Default `default`. */
  readonly namespace?: string;
  /** A toolset's id; its current version is pinned. Default: any tool may be called, without a schema. */
  readonly toolset?: string;
  /** At most 32; names of 1 to 64 bytes, values of at most 256. */
  readonly labels?: Readonly<Record<string, string>>;
  /** When it has passed, the run ends. Default: it lives until `end`. */
  readonly ttl?: Duration;
  /**
   * The caller's own name for it, unique in its namespace, 1 to 256 bytes: the same key with the same content names the
   * same run, from any process. The content is the toolset (whatever version it has by now), the labels and the TTL.
   */
  readonly key?: string;
}

/** Which runs to list; what is not set does not matter. */
export interface RunFilter extends PageOptions {
  readonly namespace?: string;
  readonly state?: RunState;
  /** Only runs that have all of these labels. */
  readonly labels?: Readonly<Record<string, string>>;
}

const WIRE_STATE_OF: Record<RunState, WireState> = {
  active: WireState.ACTIVE,
  ended: WireState.ENDED,
};

const RUN_OPTIONS: Record<keyof RunOptions, true> = {
  namespace: true,
  toolset: true,
  labels: true,
  ttl: true,
  key: true,
};

const FILTER: Record<keyof RunFilter, true> = {
  namespace: true,
  state: true,
  labels: true,
  pageSize: true,
  pageToken: true,
};

/** Runs of the project: `client.runs`. */
export class Runs {
  readonly #newKey = orderedKeys("sdk");
  readonly #unary: Unary;
  readonly #drive: Drive;
  readonly #calls: Calls;
  readonly #watching: WatchPort;

  /** Use `Trunkline.runs`. */
  constructor(unary: Unary, drive: Drive, calls: Calls, watching: WatchPort) {
    this.#unary = unary;
    this.#drive = drive;
    this.#calls = calls;
    this.#watching = watching;
  }

  /** Makes a run, or finds the one that was made with this key before. */
  async create(options: RunOptions = {}): Promise<Run> {
    onlyFields(options, RUN_OPTIONS, "options");
    const { namespace = "", toolset = "", labels = {}, ttl } = options;
    // With a key of its own it may be sent again without making a second run.
    const key = options.key ?? this.#newKey();
    const spec = {
      namespace: wellFormed(namespace, "namespace"),
      toolset: wellFormed(toolset, "toolset"),
      key: wellFormed(present(key, "key"), "key"),
      labels: wellFormedLabels(labels, "labels"),
      ...(ttl !== undefined && { ttl: durationFromMs(parseDuration(ttl, "ttl")) }),
    };
    const { run } = await this.#unary.send((call) => this.#unary.runs.createRun({ spec }, call));
    if (run === undefined) throw new TrunklineError("INTERNAL", "create: the answer was empty");
    return this.#handle(run.id, runFromWire(run));
  }

  /** A handle for an existing run; asks nobody whether there is one. */
  open(id: string): Run {
    return this.#handle(present(id, "run"), undefined);
  }

  /** One run, with the number of its calls. */
  async get(id: string): Promise<RunInfo & { readonly calls: number; readonly openCalls: number }> {
    const runId = present(id, "run");
    const { run, calls, openCalls } = await this.#unary.send((options) =>
      this.#unary.runs.getRun({ runId }, options),
    );
    if (run === undefined) throw new TrunklineError("NOT_FOUND", `run ${id}: the answer was empty`);
    return { ...runFromWire(run), calls, openCalls };
  }

  /** Runs, newest first. */
  async list(filter: RunFilter = {}): Promise<Page<RunInfo>> {
    onlyFields(filter, FILTER, "filter");
    const { namespace = "", state, labels = {} } = filter;
    const request = {
      ...pageToWire(filter),
      namespace: wellFormed(namespace, "namespace"),
      labels: wellFormedLabels(labels, "labels"),
      state: state === undefined ? WireState.UNSPECIFIED : oneOf(WIRE_STATE_OF, state, "state"),
    };
    const { runs, nextPageToken } = await this.#unary.send((options) =>
      this.#unary.runs.listRuns(request, options),
    );
    const next = (token: string): Promise<Page<RunInfo>> => this.list({ ...filter, pageToken: token });
    return new Page(runs.map(runFromWire), nextPageToken, next);
  }

  /**
   * Ends a run: its open calls are canceled, and no call is opened in it from now on. Of very many open calls the
   * last are canceled a while after this has resolved. Again is fine.
   */
  async end(id: string): Promise<RunInfo> {
    const runId = present(id, "run");
    const { run } = await this.#unary.send((options) => this.#unary.runs.endRun({ runId }, options));
    if (run === undefined) throw new TrunklineError("NOT_FOUND", `run ${id}: the answer was empty`);
    return runFromWire(run);
  }

  #handle(id: string, info: RunInfo | undefined): Run {
    return new Run(id, info, {
      drive: this.#drive,
      unary: this.#unary,
      calls: this.#calls,
      runs: this,
      watching: this.#watching,
    });
  }
}
