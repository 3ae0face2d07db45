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
import { isEnded, type CallRef } from "../core/call.js";
import { TrunklineError } from "../core/error.js";
import { LIMITS } from "../core/limits.js";
import type { Scope } from "../core/scope.js";
import { callKey } from "../exchange/call-key.js";
import type { Outcome } from "../exchange/delivery.js";
import { endRun } from "../exchange/run-end.js";
import { outcomeOf, type Waiter } from "../exchange/waiters.js";
import { loadRecords } from "../store/calls-read.js";
import { toDuration, toOutcomeMessage, toRunMessage } from "./convert.js";
import type { ServiceDeps } from "./deps.js";
import { checkRunSpec, parseCallRefId } from "./door.js";
import { asError, isFault, toProblem } from "./error-map.js";
import { FrameWriter } from "./frame-writer.js";
import { shuttingDown, type EndableStream } from "./open-streams.js";
import { openCall } from "./open-call.js";
import { Watchdog } from "./watchdog.js";

/** Roughly what a small reply takes on the wire. */
const REPLY_BYTES = 96;
const PROBLEM_BYTES = 256;
/** What may wait for a reader before its outcomes are kept as ids alone. */
const UNREAD_BYTES = 4 * 1024 * 1024;
const REREAD_ITEMS = 200;

/** One harness's stream: its requests are carried out as they come, and its outcomes as they happen. */
export class DriveStream implements Waiter, EndableStream {
  readonly #deps: ServiceDeps;
  readonly #scope: Scope;
  readonly #writer: FrameWriter<DriveResponse>;
  readonly #watchdog: Watchdog;
  /** Calls that this stream waits for, to leave them at its end. */
  readonly #waiting = new Map<string, CallRef>();
  /** Calls that ended while too much was unread. */
  readonly #unread: CallRef[] = [];
  #requests = 0;
  #bytes = 0;
  #room: (() => void) | null = null;
  #readEnded = false;
  #shuttingDown = false;

  constructor(deps: ServiceDeps, scope: Scope, signal: AbortSignal) {
    this.#deps = deps;
    this.#scope = scope;
    this.#writer = new FrameWriter(
      () => create(DriveResponseSchema),
      () => this.#reread(),
    );
    this.#watchdog = new Watchdog(deps.exchange.heartbeatIntervalMs, () => {
      this.#writer.end(new TrunklineError("UNAVAILABLE", "nothing was heard for three heartbeat intervals"));
    });
    signal.addEventListener("abort", () => this.#writer.end(), { once: true });
  }

  /** The stream's frames down, while it reads its frames up. */
  async *run(requests: AsyncIterable<DriveRequest>): AsyncGenerator<DriveResponse, void, undefined> {
    this.#writer.add(REPLY_BYTES, (frame) => {
      frame.welcome = {
        $typeName: "trunkline.v1.DriveWelcome",
        node: this.#deps.exchange.nodeId,
        heartbeatInterval: toDuration(this.#deps.exchange.heartbeatIntervalMs),
        maxInputBytes: LIMITS.payloadBytes,
        maxFrameBytes: LIMITS.frameBytes,
      };
    });
    this.#deps.streams.add(this);
    void this.#read(requests);
    try {
      yield* this.#writer.frames();
    } finally {
      this.#close();
    }
  }

  shutDown(): void {
    this.#shuttingDown = true;
    this.#endWhenDone();
  }

  outcome(outcome: Outcome): void {
    this.#waiting.delete(callKey(outcome.call));
    if (this.#writer.pendingBytes > UNREAD_BYTES) this.#unread.push(outcome.call);
    else this.#send(outcome);
    this.#endWhenDone();
  }

  #send(outcome: Outcome): void {
    const message = toOutcomeMessage(outcome);
    this.#writer.add(REPLY_BYTES + message.resultJson.length, ({ outcomes }) => outcomes.push(message));
  }

  /** Reads outcomes again that were kept as ids, once everything before them has been read. */
  async #reread(): Promise<void> {
    if (this.#unread.length === 0) return;
    const refs = this.#unread.splice(0, REREAD_ITEMS);
    for (const record of await loadRecords(this.#deps.exchange.db, refs, { payloads: true })) {
      const outcome = record === null ? undefined : outcomeOf(record);
      if (outcome !== undefined) this.#send(outcome);
    }
    this.#endWhenDone();
  }

  async #read(requests: AsyncIterable<DriveRequest>): Promise<void> {
    try {
      for await (const frame of requests) {
        this.#watchdog.heard();
        this.#apply(frame);
        if (this.#isFull()) await this.#hasRoom();
      }
      this.#readEnded = true;
      // A harness that has closed its side sends no pings.
      this.#watchdog.stop();
      this.#endWhenDone();
    } catch (error) {
      this.#writer.end(asError(error));
    }
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
    this.#carryOut(request, PROBLEM_BYTES, async () => {
      const { run, created } = await this.#deps.exchange.runs.create(
        this.#scope,
        checkRunSpec(spec, this.#scope),
      );
      const message = toRunMessage(run);
      this.#writer.add(PROBLEM_BYTES, ({ runs }) =>
        runs.push({ $typeName: "trunkline.v1.RunMade", request, run: message, created }),
      );
    });
  }

  #open({ request, runId, call }: NewCall): void {
    const bytes = REPLY_BYTES + (call?.inputJson.length ?? 0);
    this.#carryOut(request, bytes, async () => {
      const { opened, outcome } = await openCall(this.#deps, this.#scope, runId, call, "call");
      opened.request = request;
      const ref = outcome.type === "created" ? outcome.call : outcome.record.call;
      this.#writer.add(REPLY_BYTES, (frame) => frame.opened.push(opened));
      if (outcome.type === "created") this.#wait(ref);
      else if (isEnded(ref)) this.#send({ call: ref, endedAt: outcome.record.endedAt });
      else await this.#watchRefs([ref]);
    });
  }

  #cancel({ request, callId }: CancelItem): void {
    this.#carryOut(request, REPLY_BYTES, async () => {
      const ref = { projectId: this.#scope.projectId, ...parseCallRefId(callId) };
      await this.#deps.exchange.apply(ref, { type: "cancel", cause: "canceled" }, this.#scope);
      this.#done(request);
    });
  }

  #endRun({ request, runId }: EndRunItem): void {
    this.#carryOut(request, REPLY_BYTES, async () => {
      await endRun(this.#deps.exchange, this.#scope, runId);
      this.#done(request);
    });
  }

  #done(request: number): void {
    this.#writer.add(REPLY_BYTES, ({ done }) => done.push({ $typeName: "trunkline.v1.Done", request }));
  }

  /** Carries out one request; what is wrong with it is told under its number (I11). */
  #carryOut(request: number, bytes: number, work: () => Promise<void>): void {
    this.#requests++;
    this.#bytes += bytes;
    void work()
      .catch((error: unknown) => {
        if (isFault(error)) this.#deps.onError(error);
        const problem = toProblem(error);
        this.#writer.add(PROBLEM_BYTES, ({ refused }) =>
          refused.push({ $typeName: "trunkline.v1.Refused", request, problem }),
        );
      })
      .then(() => {
        this.#requests--;
        this.#bytes -= bytes;
        if (!this.#isFull()) {
          this.#room?.();
          this.#room = null;
        }
        this.#endWhenDone();
      });
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
      .catch((error: unknown) => this.#writer.end(asError(error)))
      .then(() => {
        this.#requests--;
        this.#endWhenDone();
      });
  }

  async #watchRefs(refs: readonly CallRef[]): Promise<void> {
    for (const ref of refs) this.#waiting.set(callKey(ref), ref);
    const found = new Set(await this.#deps.exchange.waiters.watch(refs, this, this.#scope));
    for (const ref of refs) {
      if (found.has(ref)) continue;
      this.#waiting.delete(callKey(ref));
      const callId = callKey(ref);
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
    this.#waiting.set(callKey(ref), ref);
    this.#deps.exchange.waiters.add(ref, this);
  }

  #isFull(): boolean {
    return this.#requests >= LIMITS.driveOpens || this.#bytes >= LIMITS.driveBytes;
  }

  #hasRoom(): Promise<void> {
    return new Promise((resolve) => {
      this.#room = resolve;
    });
  }

  /** A harness that has closed its side still gets what it asked for. */
  #endWhenDone(): void {
    if (this.#requests > 0) return;
    if (this.#shuttingDown) this.#writer.end(shuttingDown());
    else if (this.#readEnded && this.#waiting.size + this.#unread.length === 0) this.#writer.end();
  }

  #close(): void {
    this.#watchdog.stop();
    this.#deps.streams.remove(this);
    this.#writer.abandon();
    for (const ref of this.#waiting.values()) this.#deps.exchange.waiters.remove(ref, this);
    this.#waiting.clear();
  }
}
