import type { Call, CallRef, ClaimedCall } from "../core/call.js";
import type { CallEvent, RevokeCause } from "../core/event.js";
import { isSameScope, type Scope } from "../core/scope.js";
import { claimVerdict } from "../core/answering.js";
import type { Database } from "../store/database.js";
import type { Heard, SignOfLife } from "../store/sessions.js";
import { formatCallId } from "../core/name.js";
import { isWithin, type Applied } from "./call-writer.js";
import type { Delivery, WorkSink } from "./delivery.js";
import type { Assignment, Dispatch } from "./dispatch.js";
import { inUse, outrun, superseded, type HelloRequest, type NamedVerdict, type Welcomed } from "./hello.js";
import { SessionWriter } from "./session-writer.js";
import { Session, type HeldClaim } from "./session.js";

/** What the sessions are given. */
export interface SessionsOptions {
  /** For what keeps sessions alive, ahead of all other work. */
  readonly upkeep: Database;
  readonly nodeId: string;
  readonly heartbeatIntervalMs: number;
  readonly dispatch: Dispatch;
  readonly apply: (ref: CallRef, event: CallEvent) => Promise<Applied>;
  /** The call as the database has it now. */
  readonly load: (ref: CallRef) => Promise<Call | undefined>;
  readonly onError: (error: unknown) => void;
}

/** How long an unaccepted claim outlives its stream before it is offered to others. */
const UNACCEPTED_GRACE_MS = 2_000;

interface Holding {
  readonly session: Session;
  readonly claim: HeldClaim;
}

/** The sessions of this node, and the claims that they hold. */
export class Sessions {
  readonly #options: SessionsOptions;
  readonly #writer: SessionWriter;
  readonly #sessions = new Map<number, Session>();
  /** Held claims by their calls: what an event on a call is decided from, without a read. */
  readonly #held = new Map<string, Holding>();
  readonly #timers = new Set<NodeJS.Timeout>();
  #stopped = false;

  constructor(options: SessionsOptions) {
    this.#options = options;
    this.#writer = new SessionWriter(options.upkeep);
  }

  /** All sessions of this node. */
  all(): IterableIterator<Session> {
    return this.#sessions.values();
  }

  /** The call as this node knows it, if one of its sessions holds it. */
  recall(ref: Pick<CallRef, "runId" | "seq">): ClaimedCall | undefined {
    return this.#held.get(formatCallId(ref))?.claim.call;
  }

  /**
   * Takes a worker's hello: moves its session to this node, with a new epoch, settles what became of the
   * claims that it names and of those that it does not, and ends its older stream.
   *
   * @throws TrunklineError SESSION_IN_USE while another process has an open stream under this id; SUPERSEDED
   *   when the session says hello elsewhere meanwhile.
   */
  async hello(request: HelloRequest, sink: WorkSink): Promise<Welcomed> {
    const { scope, facts } = request;
    const { nodeId } = this.#options;
    const now = performance.now();
    const answer = await this.#writer.hello({
      scope,
      ...facts,
      nodeId,
      intervalMs: this.#options.heartbeatIntervalMs,
      streamOpenHere: this.#isOpenHere(scope, facts.sessionId),
      polls: sink.polls,
    });
    if (answer.type === "in_use") throw inUse(facts.sessionId);
    // What it says of claims was so before the later one: what that one was given since, it does not name.
    if (answer.type === "outrun") throw outrun(facts.helloNumber);
    const session = this.#adopt(answer.number, answer.epoch, request, sink, now);
    try {
      const named = new Set(request.claims.map(({ claimId }) => claimId));
      await this.#settleUnnamed(session, answer.claims, named, answer.takenOver);
      const verdicts = await this.#settleNamed(session, request, sink);
      return { session, verdicts, start: () => this.#start(session, answer.epoch, request.slots) };
    } catch (error) {
      if (sink.polls) this.pollEnded(session, sink);
      else await this.streamEnded(session, sink, "silent");
      throw error;
    } finally {
      if (session.epoch === answer.epoch) session.greeting = false;
    }
  }

  #isOpenHere(scope: Scope, sessionId: string): boolean {
    for (const session of this.#sessions.values()) {
      if (session.stream === null || session.facts.sessionId !== sessionId) continue;
      if (isSameScope(session.scope, scope)) return true;
    }
    return false;
  }

  /** Makes or moves the session in memory; its older stream ends. */
  #adopt(
    number: number,
    epoch: number,
    { scope, facts }: HelloRequest,
    sink: WorkSink,
    now: number,
  ): Session {
    const known = this.#sessions.get(number);
    // Two hellos may come back in the other order: the later one has the session.
    if (known !== undefined && known.epoch > epoch) throw superseded();
    const session = known ?? new Session(scope, number, epoch, facts, now);
    this.#sessions.set(number, session);
    this.#options.dispatch.remove(session);
    const older = session.stream;
    session.epoch = epoch;
    session.facts = facts;
    session.stream = sink;
    session.credit = 0;
    session.draining = false;
    session.reachable = true;
    session.leaving = false;
    session.stalled = false;
    session.greeting = true;
    session.heardAt = now;
    older?.end(superseded());
    return session;
  }

  #start(session: Session, epoch: number, slots: number): void {
    if (session.epoch !== epoch || session.stream === null) return;
    this.#options.dispatch.add(session);
    this.#options.dispatch.grant(session, slots);
  }

  /** Claims that the database has and the hello does not name: never delivered, or lost with their process. */
  async #settleUnnamed(
    session: Session,
    claims: readonly Call[],
    named: ReadonlySet<string>,
    takenOver: boolean,
  ): Promise<void> {
    const unnamed = claims.filter((call) => call.claim !== null && !named.has(call.claim.id));
    await Promise.all(
      unnamed.map((call) => {
        const claimId = call.claim?.id ?? "";
        this.#dropClaim(call, claimId);
        const event: CallEvent = takenOver
          ? { type: "lease_ended", claimId }
          : { type: "take_back", claimId, cause: "disowned" };
        return this.#options.apply(call, event);
      }),
    );
    for (const held of [...session.held.values()]) if (!named.has(held.id)) this.drop(held, null);
  }

  /** Naming a claim is accepting it. */
  async #settleNamed(
    session: Session,
    { scope, claims }: HelloRequest,
    sink: WorkSink,
  ): Promise<NamedVerdict[]> {
    if (claims.length === 0) return [];
    const calls = await Promise.all(
      claims.map(async ({ ref }) => (ref === null ? undefined : this.#options.load(ref))),
    );
    if (session.stream !== sink) throw superseded();
    return Promise.all(
      claims.map(async ({ claimId }, index): Promise<NamedVerdict> => {
        const call = calls[index];
        if (call === undefined || !isWithin(call, scope)) return { claimId, standing: "lost" };
        const standing = claimVerdict(call, claimId);
        if (standing !== "kept" && standing !== "confirmed") return { claimId, standing };
        if (call.state !== "claimed" || call.claim.session !== session.number)
          return { claimId, standing: "lost" };
        this.#hold(session, call, true);
        if (call.policy.mode === "retry" || standing === "confirmed") return { claimId, standing };
        return { claimId, standing: (await this.#accept(call, claimId)) ? "confirmed" : "lost" };
      }),
    );
  }

  async #accept(call: ClaimedCall, claimId: string): Promise<boolean> {
    const { verdict } = await this.#options.apply(call, { type: "accept", claimId });
    return verdict.ok;
  }

  /** Counts a claim as held by a session of this node. */
  #hold(session: Session, call: ClaimedCall, known: boolean): void {
    const key = formatCallId(call);
    const older = this.#held.get(key);
    // What another node did to the call since went unnoticed here: its earlier claim is not held any more.
    if (older !== undefined && older.claim.id !== call.claim.id) this.drop(older.claim, "lease_lost");
    const claim: HeldClaim = { id: call.claim.id, call, known, offeredAt: performance.now() };
    session.held.set(claim.id, claim);
    this.#held.set(key, { session, claim });
  }

  /**
   * A claim was committed for a session: offers it, or, where the stream has gone or the session has
   * moved, takes it back at once: nobody has seen it.
   */
  deliver({ session, epoch }: Assignment, delivery: Delivery): void {
    const { call } = delivery;
    if (session.epoch !== epoch || session.stream === null || session.draining || !session.reachable) {
      this.takeBackUnframed(call);
      return;
    }
    this.#hold(session, call, false);
    session.stream.offer(delivery);
  }

  /** A claim that this node knows it never put into a frame. */
  takeBackUnframed(call: ClaimedCall): void {
    const event: CallEvent = { type: "take_back", claimId: call.claim.id, cause: "unframed" };
    this.#dropClaim(call, call.claim.id);
    this.#options.apply(call, event).catch(this.#options.onError);
  }

  /** A held call was changed: keeps its claim in step, or drops it and tells its worker why. */
  changed(next: Call, revoked: RevokeCause | null): void {
    const held = this.#held.get(formatCallId(next))?.claim;
    // The next claim may have been made, and delivered, before the change that queued the call is told of.
    if (held === undefined || next.version < held.call.version) return;
    if (next.state === "claimed" && next.claim.id === held.id) held.call = next;
    else this.drop(held, revoked);
  }

  /** The claim is no longer held here; with a cause, its worker is told. */
  drop(claim: HeldClaim, revoked: RevokeCause | null): void {
    const key = formatCallId(claim.call);
    const held = this.#held.get(key);
    if (held?.claim !== claim) return;
    this.#held.delete(key);
    const { session } = held;
    session.held.delete(claim.id);
    if (revoked !== null) session.stream?.revoke(claim.id, revoked);
    if (session.draining && session.held.size === 0) session.stream?.drained();
  }

  /** Drops the claim of a call, if it is this one that is held; nobody is told. */
  #dropClaim(ref: Pick<CallRef, "runId" | "seq">, claimId: string): void {
    const held = this.#held.get(formatCallId(ref))?.claim;
    if (held?.id === claimId) this.drop(held, null);
  }

  /** The worker wants no more claims. */
  drain(session: Session): void {
    if (session.draining) return;
    session.draining = true;
    this.#options.dispatch.remove(session);
    if (session.held.size === 0) session.stream?.drained();
  }

  /**
   * The stream is about to say goaway: the session is chosen no more, and `then` is called once what it was
   * chosen for has been offered, so that nothing has to be taken back; at the latest after `withinMs`.
   */
  lastClaims(session: Session, sink: WorkSink, withinMs: number, then: () => void): void {
    if (session.stream !== sink || session.assigned === 0) {
      this.noMoreClaims(session, sink);
      then();
      return;
    }
    session.leaving = true;
    this.#options.dispatch.remove(session);
    const timer = setTimeout(() => session.whenSettled?.(), withinMs).unref();
    session.whenSettled = () => {
      session.whenSettled = null;
      clearTimeout(timer);
      this.noMoreClaims(session, sink);
      then();
    };
  }

  /** The stream carries no more claims: its worker has closed its side, or was told to go elsewhere. */
  noMoreClaims(session: Session, sink: WorkSink): void {
    if (session.stream !== sink) return;
    session.reachable = false;
    this.#options.dispatch.remove(session);
  }

  /**
   * A stream has ended. `closed`: by the worker's side, so that the session is detached; else it went
   * silent or was ended from here, and its claims live until their heartbeat timeout.
   */
  async streamEnded(session: Session, sink: WorkSink, how: "closed" | "silent"): Promise<void> {
    if (session.stream !== sink) return;
    session.stream = null;
    session.credit = 0;
    this.#options.dispatch.remove(session);
    const { number, epoch } = session;
    if (session.held.size === 0) {
      this.#sessions.delete(number);
      await this.#writer.ended({ number, epoch, how: "done" });
      return;
    }
    if (!this.#stopped) this.#takeBackUnacceptedLater(session, epoch);
    await this.#writer.ended({ number, epoch, how });
  }

  /**
   * A request has ended that waited for claims. Between two of them no node has the session: what it holds is known
   * by what it names, and lives by its heartbeats.
   */
  pollEnded(session: Session, sink: WorkSink): void {
    if (session.stream === sink) this.#forget(session);
  }

  #takeBackUnacceptedLater(session: Session, epoch: number): void {
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      this.#takeBackUnaccepted(session, epoch);
    }, UNACCEPTED_GRACE_MS);
    this.#timers.add(timer.unref());
  }

  #takeBackUnaccepted(session: Session, epoch: number): void {
    if (session.epoch !== epoch || session.stream !== null) return;
    for (const held of [...session.held.values()]) {
      if (held.known) continue;
      const event: CallEvent = { type: "take_back", claimId: held.id, cause: "undelivered" };
      this.#options.apply(held.call, event).catch(this.#options.onError);
    }
  }

  /** Another node has the session now. */
  lose(session: Session): void {
    const { stream } = session;
    this.#forget(session);
    stream?.end(superseded());
  }

  #forget(session: Session): void {
    session.stream = null;
    session.credit = 0;
    this.#options.dispatch.remove(session);
    this.#sessions.delete(session.number);
    for (const held of [...session.held.values()]) this.drop(held, null);
  }

  /** Notes a worker's sign of life that came without a stream, and tells what its session holds. */
  heard(sign: SignOfLife): Promise<Heard> {
    return this.#writer.heard(sign);
  }

  /** Leaves no timer behind: the node shuts down. */
  stop(): void {
    this.#stopped = true;
    for (const timer of this.#timers) clearTimeout(timer);
    this.#timers.clear();
  }

  /** Forgets sessions without stream and claims. */
  prune(): void {
    for (const session of this.#sessions.values()) {
      if (session.stream === null && session.held.size === 0) this.#sessions.delete(session.number);
    }
  }
}
