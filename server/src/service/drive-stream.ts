import { create } from "@bufbuild/protobuf";
import {
  DriveResponseSchema,
  type CancelItem,
  type DriveRequest,
  type DriveResponse,
  type EndRunItem,
  type NewCall,
  type NewRun,
} from "@trunkline/proto/call";
import { isEnded, type Call, type CallRef } from "../core/call.js";
import { TrunklineError } from "../core/error.js";
import { LIMITS } from "../core/limits.js";
import type { Caller } from "../core/caller.js";
import type { Scope } from "../core/scope.js";
import { noDatabase } from "../exchange/availability.js";
import { formatCallId } from "../core/name.js";
import type { Outcome } from "../exchange/delivery.js";
import { endRun } from "../exchange/run-end.js";
import { lookAtCalls } from "../exchange/outcomes.js";
import type { Waiter } from "../exchange/waiters.js";
import { toDuration, toOutcomeMessage, toRunMessage } from "./convert.js";
import type { ServiceDeps } from "./deps.js";
import { checkRunSpec, parseCallRefId } from "./door.js";
import { asError, isFault, toProblem } from "./error-map.js";
import { PROBLEM_BYTES, REPLY_BYTES, sizeOfOutcome, sizeOfRun } from "./frame-sizes.js";
import { FrameWriter } from "./frame-writer.js";
import { shuttingDown, type EndableStream } from "./open-streams.js";
import { openCall, type OpenedCall } from "./open-call.js";
import { goawayMessage, LEAVE_MS, StreamAge } from "./stream-age.js";
import { isUnreadable, onClientGone } from "./stream-end.js";
import { Watchdog } from "./watchdog.js";

/** What may wait for a reader before its outcomes are kept as ids alone. */
const UNREAD_BYTES = 4 * 1024 * 1024;
/** Outcomes that are read again for a slow reader at once. */
const REREAD_ITEMS = 200;

/** One harness's stream: its requests are carried out as they come, and its outcomes as they happen. */
export class DriveStream implements Waiter, EndableStream {
  readonly #deps: ServiceDeps;
  readonly #caller: Caller;
  readonly #scope: Scope;
  readonly #signal: AbortSignal;
  readonly #writer: FrameWriter<DriveResponse>;
  readonly #watchdog: Watchdog;
  readonly #age: StreamAge;
  /** Calls that this stream waits for, to leave them at its end. */
  readonly #waiting = new Map<string, CallRef>();
  /** Calls that ended while too much was unread. */
  #unread: CallRef[] = [];
  /** Opens that are being carried out, by their place in the stream; never rejected. */
  readonly #opening = new Map<number, Promise<void>>();
  #opens = 0;
  #requests = 0;
  #bytes = 0;
  #room: (() => void) | null = null;
  #readEnded = false;
  #shuttingDown = false;
  /** Nothing is carried out or waited for any more. */
  #left = false;

  constructor(deps: ServiceDeps, caller: Caller, signal: AbortSignal) {
    this.#deps = deps;
    this.#caller = caller;
    this.#scope = caller.scope;
    this.#signal = signal;
    this.#writer = new FrameWriter(
      () => create(DriveResponseSchema),
      () => this.#reread(),
    );
    this.#watchdog = new Watchdog(deps.exchange.heartbeatIntervalMs, () => {
      // Nothing is heard of a client that is not read.
      if (this.#room !== null) return;
      this.#end(new TrunklineError("UNAVAILABLE", "nothing was heard for three heartbeat intervals"));
    });
    this.#age = new StreamAge(deps.maxStreamAgeMs, () => this.#goAway("this stream is old", LEAVE_MS));
  }

  /** The stream's frames down, while it reads its frames up. */
  async *run(requests: AsyncIterable<DriveRequest>): AsyncGenerator<DriveResponse, void, undefined> {
    this.#welcome();
    this.#deps.streams.add(this, this.#caller);
    // Not by this generator's end alone: one that waits for a client to read is not ended when that goes away.
    const forget = onClientGone(this.#signal, () => this.#gone());
    void this.#read(requests);
    try {
      yield* this.#writer.frames();
    } finally {
      forget();
      this.#gone();
    }
  }

  expelled(refusal: TrunklineError): void {
    this.#end(refusal);
  }

  shutDown(deadlineMs: number): void {
    this.#shuttingDown = true;
    this.#goAway("the node is shutting down", deadlineMs);
    this.#endWhenDone();
  }

  databaseLost(deadlineMs: number): void {
    this.#goAway("the node has lost its database", deadlineMs, noDatabase());
  }

  #goAway(message: string, deadlineMs: number, end = shuttingDown()): void {
    if (this.#left) return;
    this.#writer.add(REPLY_BYTES, (frame) => {
      frame.goaway = goawayMessage(message, deadlineMs);
    });
    this.#age.after(deadlineMs, () => this.#end(end));
  }

  outcome(outcome: Outcome): void {
    this.#waiting.delete(formatCallId(outcome.call));
    if (this.#writer.pendingBytes > UNREAD_BYTES) this.#unread.push(bare(outcome.call));
    else this.#send(outcome);
    this.#endWhenDone();
  }

  #welcome(): void {
    this.#writer.add(REPLY_BYTES, (frame) => {
      frame.welcome = {
        $typeName: "trunkline.v1.DriveWelcome",
        node: this.#deps.exchange.nodeId,
        heartbeatInterval: toDuration(this.#deps.exchange.heartbeatIntervalMs),
        maxInputBytes: LIMITS.payloadBytes,
        maxFrameBytes: LIMITS.frameBytes,
      };
    });
  }

  #send(outcome: Outcome): void {
    const message = toOutcomeMessage(outcome);
    this.#writer.add(sizeOfOutcome(message), ({ outcomes }) => outcomes.push(message));
  }

  /** All frames have been taken: reads outcomes again that were kept as ids, and goes on reading requests. */
  async #reread(): Promise<void> {
    while (this.#unread.length > 0 && this.#writer.pendingBytes === 0) {
      const refs = this.#unread.slice(0, REREAD_ITEMS);
      this.#unread = this.#unread.slice(REREAD_ITEMS);
      for await (const { outcome } of lookAtCalls(this.#deps.exchange.db, refs)) {
        if (outcome !== null) this.outcome(outcome);
      }
    }
    this.#makeRoom();
    this.#endWhenDone();
  }

  async #read(requests: AsyncIterable<DriveRequest>): Promise<void> {
    try {
      for await (const frame of requests) {
        this.#watchdog.heard();
        if (this.#left) continue;
        this.#apply(frame);
        if (this.#isFull()) await this.#hasRoom();
      }
      this.#readEnded = true;
      // A harness that has closed its side sends no pings.
      this.#watchdog.stop();
      this.#endWhenDone();
      this.#beat();
    } catch (error) {
      if (isUnreadable(error)) this.#end(asError(error));
      else this.#gone();
    }
  }

  /** An empty frame in each interval: proxies cut a stream that says nothing, and without pings there are no pongs. */
  #beat(): void {
    if (this.#left) return;
    this.#age.after(this.#deps.exchange.heartbeatIntervalMs, () => {
      this.#writer.add(0, () => undefined);
      this.#beat();
    });
  }

  #apply(frame: DriveRequest): void {
    for (const run of frame.runs) this.#createRun(run);
    for (const call of frame.opens) this.#open(call);
    for (const cancel of frame.cancels) this.#cancel(cancel);
    for (const end of frame.endRuns) this.#endRun(end);
    if (frame.watch.length > 0) this.#watch(frame.watch);
    const { ping } = frame;
    if (ping !== undefined) {
      this.#writer.add(REPLY_BYTES, (response) => {
        response.pong = ping;
      });
    }
  }

  #createRun({ request, spec }: NewRun): void {
    void this.#carryOut(request, PROBLEM_BYTES, async () => {
      const { run, created } = await this.#deps.exchange.runs.create(
        this.#scope,
        checkRunSpec(spec, this.#scope),
      );
      const message = toRunMessage(run);
      this.#writer.add(sizeOfRun(message), ({ runs }) =>
        runs.push({ $typeName: "trunkline.v1.RunMade", request, run: message, created }),
      );
    });
  }

  #open({ request, runId, call }: NewCall): void {
    const bytes = REPLY_BYTES + (call?.inputJson.length ?? 0);
    const place = this.#opens++;
    const opening = this.#carryOut(request, bytes, async () => {
      try {
        const opened = await openCall(this.#deps, this.#caller, runId, call, "call");
        const watching = this.#opened(request, opened);
        if (watching !== undefined) await watching;
      } finally {
        this.#opening.delete(place);
      }
    });
    this.#opening.set(place, opening);
  }

  /** Says that a call is open; one that something can have happened to already is looked at. */
  #opened(request: number, { opened, outcome }: OpenedCall): Promise<void> | undefined {
    opened.request = request;
    this.#writer.add(REPLY_BYTES, (frame) => frame.opened.push(opened));
    if (outcome.type === "created") {
      this.#wait(bare(outcome.call));
      return undefined;
    }
    const { call, endedAt } = outcome.record;
    if (!isEnded(call)) return this.#watchRefs([bare(call)]);
    this.outcome({ call, endedAt });
    return undefined;
  }

  #cancel({ request, callId }: CancelItem): void {
    void this.#carryOut(request, REPLY_BYTES, async () => {
      const ref = { projectId: this.#scope.projectId, ...parseCallRefId(callId) };
      await this.#deps.exchange.apply(ref, { type: "cancel", cause: "canceled" }, this.#scope);
      this.#done(request);
    });
  }

  #endRun({ request, runId }: EndRunItem): void {
    // What was asked for first comes first: an end must not pass the opens before it.
    const before = [...this.#opening.values()];
    void this.#carryOut(request, REPLY_BYTES, async () => {
      await Promise.all(before);
      await endRun(this.#deps.exchange, this.#scope, runId);
      this.#done(request);
    });
  }

  #done(request: number): void {
    this.#writer.add(REPLY_BYTES, ({ done }) => done.push({ $typeName: "trunkline.v1.Done", request }));
  }

  /** Carries out one request; what is wrong with it is told under its number (I11). */
  async #carryOut(request: number, bytes: number, work: () => Promise<void>): Promise<void> {
    this.#requests++;
    this.#bytes += bytes;
    try {
      await work();
    } catch (error) {
      if (isFault(error)) this.#deps.onError(error);
      const problem = toProblem(error);
      this.#writer.add(PROBLEM_BYTES, ({ refused }) =>
        refused.push({ $typeName: "trunkline.v1.Refused", request, problem }),
      );
    }
    this.#requests--;
    this.#bytes -= bytes;
    this.#makeRoom();
    this.#endWhenDone();
  }

  #watch(callIds: readonly string[]): void {
    const refs: CallRef[] = [];
    for (const callId of callIds) {
      try {
        refs.push({ projectId: this.#scope.projectId, ...parseCallRefId(callId) });
      } catch (error) {
        this.#unwatched(callId, error);
      }
    }
    if (refs.length === 0) return;
    this.#requests++;
    void this.#watchRefs(refs)
      .catch((error: unknown) => this.#end(asError(error)))
      .then(() => {
        this.#requests--;
        this.#endWhenDone();
      });
  }

  async #watchRefs(refs: readonly CallRef[]): Promise<void> {
    if (this.#left) return;
    for (const ref of refs) this.#waiting.set(formatCallId(ref), ref);
    const found = await this.#deps.exchange.waiters.watch(refs, this, this.#scope);
    for (const ref of refs) {
      if (found.has(ref)) continue;
      const callId = formatCallId(ref);
      this.#waiting.delete(callId);
      this.#unwatched(callId, new TrunklineError("NOT_FOUND", `there is no call ${callId}`));
    }
  }

  #unwatched(callId: string, error: unknown): void {
    const problem = toProblem(error);
    this.#writer.add(PROBLEM_BYTES, ({ unwatched }) =>
      unwatched.push({ $typeName: "trunkline.v1.Unwatched", callId, problem }),
    );
  }

  /** Waits for a call that was just stored. */
  #wait(ref: CallRef): void {
    if (this.#left) return;
    this.#waiting.set(formatCallId(ref), ref);
    this.#deps.exchange.waiters.add(ref, this, this.#scope);
  }

  /** Whether too much is under way, or too many replies are unread, to take more requests. */
  #isFull(): boolean {
    return (
      this.#requests >= LIMITS.driveOpens ||
      this.#bytes >= LIMITS.driveBytes ||
      this.#writer.pendingBytes >= LIMITS.driveBytes
    );
  }

  #hasRoom(): Promise<void> {
    return new Promise((resolve) => {
      this.#room = resolve;
    });
  }

  #makeRoom(): void {
    if (this.#room === null || (this.#isFull() && !this.#left)) return;
    this.#watchdog.heard();
    this.#room();
    this.#room = null;
  }

  /** A harness that has closed its side still gets what it asked for. */
  #endWhenDone(): void {
    if (this.#requests > 0) return;
    if (this.#shuttingDown) this.#end(shuttingDown());
    else if (this.#readEnded && this.#waiting.size + this.#unread.length === 0) this.#end(null);
  }

  /** Ends the stream from here, after what was added. */
  #end(error: Error | null): void {
    this.#leave();
    this.#writer.end(error);
  }

  /** Nobody reads any more. */
  #gone(): void {
    this.#leave();
    this.#writer.abandon();
  }

  #leave(): void {
    if (this.#left) return;
    this.#left = true;
    this.#watchdog.stop();
    this.#age.stop();
    this.#deps.streams.remove(this);
    for (const ref of this.#waiting.values()) this.#deps.exchange.waiters.remove(ref, this);
    this.#waiting.clear();
    this.#unread = [];
    this.#makeRoom();
  }
}

/** A call's name alone: what is kept for long. */
function bare({ projectId, runId, seq, id }: Call): CallRef {
  return { projectId, runId, seq, id };
}
