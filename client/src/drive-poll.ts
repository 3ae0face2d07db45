import { create } from "@bufbuild/protobuf";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { ConnectError, type CallOptions, type Client } from "@connectrpc/connect";
import { CallService, DriveResponseSchema, type DriveResponse } from "@trunkline/proto/call";
import { Health, HealthCheckResponse_ServingStatus as Status } from "@trunkline/proto/health";
import { ProblemSchema, Reason, type Problem } from "@trunkline/proto/problem";
import { BatchSender } from "./batch-sender.js";
import type { DriveCarrier, DriveCarrierOwner, DriveItem, OpenItem } from "./drive-carrier.js";
import { TrunklineError } from "./errors.js";
import { ANSWER_MS, PollRequests, type PollRequestOptions } from "./poll-requests.js";
import type { Endpoint } from "./transport.js";

const INTERVAL_MS = 5_000;
/** Calls of one request. */
const WAIT_CALLS = 1_000;
/** Calls that have a waiting request each, which is answered as soon as they end. */
const WAITS = 16;
const WAIT_MS = 30_000;
/** The others share one, which is answered when so much time has passed, unless all of them have ended before. */
const LOOK_MS = 200;

/** Said of a request, it is not said of what is in it: what is in it is sent again when the server is there. */
const OF_THE_WAY: ReadonlySet<Reason> = new Set([
  Reason.UNAVAILABLE,
  Reason.UNAUTHENTICATED,
  Reason.PERMISSION_DENIED,
]);

/** The calls of a client, carried by single requests: opened in batches; waited for one by one, and many together. */
export class DrivePoll implements DriveCarrier {
  readonly delivers = false;
  readonly intervalMs = INTERVAL_MS;
  readonly #owner: DriveCarrierOwner;
  readonly #requests: PollRequests;
  readonly #calls: Client<typeof CallService>;
  readonly #opens: BatchSender<OpenItem>;
  /** Calls that wait for a request of their own. */
  readonly #watched = new Set<string>();
  #looking = false;
  readonly #waits = new Map<string, AbortController>();

  constructor(endpoint: Endpoint, owner: DriveCarrierOwner) {
    this.#owner = owner;
    this.#requests = new PollRequests(endpoint.plain());
    this.#calls = this.#requests.client(CallService);
    this.#opens = new BatchSender<OpenItem>({
      goTogether: (first, { open }) => open.runId === first.open.runId,
      isWanted: ({ withdrawn }) => !withdrawn,
      send: (batch) => this.#open(batch),
    });
    // In the next turn, when whoever made it knows it.
    setImmediate(() => void this.#greet());
  }

  send(item: DriveItem): void {
    if (item.kind === "watch") {
      if (!this.#waits.has(item.callId)) this.#watched.add(item.callId);
      this.#waitOn();
      return;
    }
    this.#opens.add(item);
  }

  /** A process may end while nobody waits: then no request is under way either. */
  keepAlive(on: boolean): void {
    if (on) return;
    for (const [callId, wait] of this.#waits) if (!this.#owner.isAwaited(callId)) wait.abort();
  }

  end(): void {
    this.#finish(undefined);
  }

  drop(cause: Error): void {
    this.#finish(cause);
  }

  /** Looks whether the server is there, and serves. */
  async #greet(): Promise<void> {
    const health = this.#requests.client(Health);
    const answer = await this.#ask((options) => health.check({}, options));
    if (answer === undefined) return;
    if (answer.status === Status.SERVING) this.#owner.onWelcome(this);
    else this.#finish(new TrunklineError("UNAVAILABLE", "the server does not serve"));
  }

  async #open(batch: readonly OpenItem[]): Promise<void> {
    for (const item of batch) item.sent = true;
    const runId = batch[0]?.open.runId ?? "";
    const calls = batch.flatMap(({ open }) => open.call ?? []);
    const frame = create(DriveResponseSchema);
    const response = await this.#ask(
      (options) => this.#calls.openCalls({ runId, calls }, options),
      (problem) => {
        for (const { open } of batch) frame.refused.push(refusal(open.request, problem));
      },
    );
    batch.forEach(({ open: { request } }, index) => {
      const result = response?.results[index]?.result;
      if (result?.case === "opened") frame.opened.push({ ...result.value, request });
      else if (result?.case === "problem") frame.refused.push(refusal(request, result.value));
    });
    this.#tell(frame);
  }

  #waitOn(): void {
    for (const callId of this.#watched) {
      if (this.#waits.size >= WAITS || this.#requests.over) break;
      this.#watched.delete(callId);
      if (this.#owner.isAwaited(callId)) void this.#wait(callId);
    }
    if (this.#watched.size > 0 && !this.#looking) void this.#look();
  }

  async #wait(callId: string): Promise<void> {
    const own = new AbortController();
    this.#waits.set(callId, own);
    const frame = await this.#waitFor([callId], WAIT_MS, own);
    this.#waits.delete(callId);
    if (this.#requests.over) return;
    // It was given up because nobody waited: somebody may have come meanwhile.
    const answered = frame !== undefined && frame.outcomes.length + frame.unwatched.length > 0;
    if (!answered) this.#watched.add(callId);
    if (frame !== undefined) this.#tell(frame);
    this.#waitOn();
  }

  /** Looks after calls without a request of their own, those of one run at a time. */
  async #look(): Promise<void> {
    this.#looking = true;
    const wanted = [...this.#watched].filter((callId) => this.#owner.isAwaited(callId));
    const [first = ""] = wanted;
    const calls = wanted.filter((callId) => runOf(callId) === runOf(first)).slice(0, WAIT_CALLS);
    const frame = calls.length === 0 ? undefined : await this.#waitFor(calls, LOOK_MS);
    this.#looking = false;
    for (const callId of this.#watched) if (!this.#owner.isAwaited(callId)) this.#watched.delete(callId);
    if (frame === undefined) return;
    // The next run's turn.
    for (const callId of calls) if (this.#watched.delete(callId)) this.#watched.add(callId);
    for (const { callId } of [...frame.outcomes, ...frame.unwatched]) this.#watched.delete(callId);
    this.#tell(frame);
    this.#waitOn();
  }

  /** What became of these calls of one run; undefined when it was given up. */
  async #waitFor(
    callIds: readonly string[],
    waitMs: number,
    own?: AbortController,
  ): Promise<DriveResponse | undefined> {
    const frame = create(DriveResponseSchema);
    const calls = callIds.map((callId) => ({ callId }));
    const response = await this.#ask(
      (options) => this.#calls.waitCalls({ calls, timeout: durationFromMs(waitMs) }, options),
      (problem) => {
        for (const callId of callIds)
          frame.unwatched.push({ $typeName: "trunkline.v1.Unwatched", callId, problem });
      },
      { timeoutMs: waitMs + ANSWER_MS, own },
    );
    if (response === undefined && frame.unwatched.length === 0) return undefined;
    frame.outcomes = response?.outcomes ?? [];
    return frame;
  }

  /**
   * Sends a request; undefined when it came to nothing, or this carrier has ended meanwhile.
   *
   * @param refused told of what the server refuses for good
   */
  async #ask<T>(
    request: (options: CallOptions) => Promise<T>,
    refused: (problem: Problem) => void = () => undefined,
    options?: PollRequestOptions,
  ): Promise<T | undefined> {
    try {
      return await this.#requests.send(request, options);
    } catch (thrown) {
      const [problem] = ConnectError.from(thrown).findDetails(ProblemSchema);
      if (problem === undefined || OF_THE_WAY.has(problem.reason)) this.#finish(thrown);
      else refused(problem);
      return undefined;
    }
  }

  #tell(frame: DriveResponse): void {
    // An empty one says that the server is there, and takes the credential.
    if (!this.#requests.over) this.#owner.onFrame(this, frame);
  }

  #finish(cause: unknown): void {
    if (this.#requests.over) return;
    this.#opens.end();
    this.#requests.end();
    this.#owner.onEnd(this, cause);
  }
}

function refusal(request: number, problem: Problem): DriveResponse["refused"][number] {
  return { $typeName: "trunkline.v1.Refused", request, problem };
}

function runOf(callId: string): string {
  return callId.slice(0, callId.lastIndexOf("/"));
}
