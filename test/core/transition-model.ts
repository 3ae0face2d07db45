import assert from "node:assert/strict";
import { isEnded, type Call } from "../../server/src/core/call.js";
import type { CallEvent, Change, Decision, Timers } from "../../server/src/core/event.js";
import type { Failure } from "../../server/src/core/failure.js";
import { birth, decide } from "../../server/src/core/transition.js";
import { factsOf } from "./transition-situations.js";
import type { Step, Story, Which } from "./transition-steps.js";

/** A claim as the worker that holds it sees it, which knows nothing of the call's state. */
interface Held {
  readonly id: string;
  /** The server said that the acceptance is stored. */
  confirmed: boolean;
  started: boolean;
  /** Given back by the worker's own word, or never received: its handler will not be started. */
  gone: boolean;
}

type TimerName = keyof Timers;

/** What was seen in a story, so that a test can tell that stories reach what they should. */
export type Seen = (what: string) => void;

/**
 * Plays a story on the state machine, next to a model that knows only what workers and clocks know, and
 * checks I1 to I4, and of I6 that an open call has a next event, after each step.
 */
export class CallLife {
  readonly #story: Story;
  readonly #seen: Seen;
  readonly #claims: Held[] = [];
  /** Attempts whose handler may have been started, as far as the server was told. */
  readonly #mayHaveStarted = new Set<string>();
  readonly #timers = new Set<TimerName>();
  #attempts = 0;
  #starts = 0;
  #call: Call;

  constructor(story: Story, seen: Seen = () => undefined) {
    this.#story = story;
    this.#seen = seen;
    const { policy, executor, direct } = story;
    const claim = direct && executor === "worker" ? { claimId: "c1", session: 1, worker: "w" } : null;
    const born = birth(factsOf(policy, executor), claim);
    this.#call = deepFreeze(born.call);
    this.#setTimers(born.timers);
    if (claim !== null) this.#made(claim.claimId);
    if (executor === "client") this.#madeClientAttempt();
    this.#checkCall();
  }

  /** How often a handler was started. */
  get starts(): number {
    return this.#starts;
  }

  /** Plays one step. */
  play(step: Step, random: number): void {
    if (step.type === "start") this.#start(step.which);
    const event = this.#eventOf(step);
    if (event === null) return;
    const before = this.#call;
    const decision = decide(before, event, random);
    assert.deepEqual(decide(before, event, random), decision, "the same event gives the same decision");
    this.#seen(seenIn(before, event, decision));
    checkVerdict(before, event, decision);
    const { change } = decision;
    if (change === null) {
      this.#told(event, decision);
      return;
    }
    deepFreeze(change);
    checkChange(before, event, decision, change);
    this.#call = change.next;
    this.#setTimers(change.timers);
    this.#count(before, event, change);
    this.#told(event, decision);
    this.#checkCall();
    this.#checkResend(event, random);
  }

  #find(which: Which): Held | undefined {
    return which === "foreign" ? undefined : this.#claims.at(-1 - which);
  }

  /** The event that a step is now; null where nobody would cause it. */
  #eventOf(step: Step): CallEvent | null {
    const held = "which" in step ? this.#find(step.which) : undefined;
    switch (step.type) {
      case "claim":
        return { type: "claim", claimId: `c${this.#claims.length + 1}`, session: 1, worker: "w" };
      case "start":
        return null;
      case "accept":
      case "lease_ended":
        return { type: step.type, claimId: idOf(held) };
      case "answer":
        return { type: "answer", claimId: idOf(held), answer: step.answer };
      case "defer":
        return {
          type: "defer",
          claimId: idOf(held),
          tokenHash: step.tokenHash,
          timeoutMs: step.timeoutMs,
        };
      case "release":
        return canBeGone(held) ? { type: "release", claimId: idOf(held) } : null;
      case "take_back": {
        const possible = step.cause === "undelivered" || canBeGone(held);
        return possible ? { type: "take_back", claimId: idOf(held), cause: step.cause } : null;
      }
      case "settle": {
        const attempt = { none: null, last: this.#call.attempt };
        return {
          ...step,
          attempt: typeof step.attempt === "number" ? step.attempt : attempt[step.attempt],
        };
      }
      case "settle_by_token": {
        const token = this.#call.tokens.at(-1 - step.back);
        return {
          type: "settle_by_token",
          attempt: step.otherAttempt ?? token?.attempt ?? 1,
          tokenHash: step.otherHash ?? token?.hash ?? "h1",
          answer: step.answer,
        };
      }
      case "due": {
        const passed = (name: TimerName): boolean => step[name] && this.#timers.has(name);
        return {
          type: "due",
          ready: passed("ready"),
          attempt: passed("attempt"),
          defer: passed("defer"),
          total: passed("total"),
        };
      }
      default:
        return step;
    }
  }

  /** A worker starts a handler; it may not know yet what became of its claim. */
  #start(which: Which): void {
    const held = this.#find(which);
    if (held === undefined || held.started || held.gone) return;
    if (this.#story.policy.mode === "at_most_once" && !held.confirmed) return;
    held.started = true;
    this.#starts += 1;
    this.#seen(`${this.#story.policy.mode}: a handler was started`);
    if (this.#story.policy.mode === "at_most_once") {
      assert.ok(this.#starts <= 1, "I3: the handler of an at_most_once call was started twice");
    }
  }

  #told(event: CallEvent, { verdict }: Decision): void {
    if (event.type !== "accept" || !verdict.ok) return;
    const held = this.#claims.find(({ id }) => id === event.claimId);
    if (held !== undefined) held.confirmed = true;
  }

  #made(claimId: string): void {
    this.#claims.push({ id: claimId, confirmed: false, started: false, gone: false });
    this.#attempts += 1;
    if (this.#story.policy.mode === "retry") this.#mayHaveStarted.add(claimId);
  }

  #madeClientAttempt(): void {
    this.#attempts += 1;
    this.#mayHaveStarted.add(`client ${this.#attempts}`);
  }

  #count(before: Call, event: CallEvent, { next }: Change): void {
    switch (event.type) {
      case "claim":
        this.#made(event.claimId);
        return;
      case "accept":
      case "defer":
        this.#mayHaveStarted.add(event.claimId);
        return;
      case "release":
        this.#mayHaveStarted.delete(event.claimId);
        return;
      case "take_back":
        // A stored acceptance is not taken back by what a hello leaves out.
        if (event.cause !== "undelivered" && before.claim?.accepted === false) {
          this.#mayHaveStarted.delete(event.claimId);
        }
        return;
      default:
        if (before.executor === "client" && next.attempt > before.attempt) this.#madeClientAttempt();
    }
  }

  #setTimers(timers: Timers): void {
    for (const name of ["ready", "attempt", "defer", "total"] as const) {
      const timer = timers[name];
      if (timer === "keep") continue;
      if (timer === "clear") {
        this.#timers.delete(name);
      } else {
        assert.ok(Number.isSafeInteger(timer.inMs) && timer.inMs > 0, `${name} in ${timer.inMs} ms`);
        this.#timers.add(name);
      }
    }
  }

  #checkCall(): void {
    const call = this.#call;
    const { policy } = call;
    assert.equal(call.attempt, this.#attempts, "I4: one attempt for each claim");
    assert.equal(call.spent, this.#mayHaveStarted.size, "I4: spent counts what may have started");
    assert.ok(call.spent <= policy.maxAttempts, "I4: spent is at most max_attempts");
    if (policy.mode === "at_most_once") assert.ok(call.spent <= 1, "I3: at most one may have started");
    for (const { id, started } of this.#claims) {
      assert.ok(!started || this.#mayHaveStarted.has(id), `I4: ${id} was started and is not counted`);
    }
    this.#checkStanding();
    this.#checkTimers();
  }

  #checkStanding(): void {
    const { state, claim, executor } = this.#call;
    if (executor === "client" || this.#claims.length === 0) {
      assert.equal(claim, null, "no claim was made");
      return;
    }
    assert.equal(claim?.id, this.#claims.at(-1)?.id, "the last claim stays on the call");
    const allowed = {
      queued: ["lapsed", "answered", "withdrawn"],
      claimed: ["live"],
      deferred: ["withdrawn"],
      succeeded: ["answered", "withdrawn"],
      failed: ["answered", "withdrawn"],
      canceled: ["answered", "withdrawn"],
    };
    assert.ok(claim !== null && allowed[state].includes(claim.standing), `${state}, ${claim?.standing}`);
  }

  /** I6: who brings about the next event. */
  #checkTimers(): void {
    const call = this.#call;
    const { attemptTimeoutMs, deferTimeoutMs, totalTimeoutMs } = call.policy;
    const has = (name: TimerName): boolean => this.#timers.has(name);
    if (isEnded(call)) {
      assert.equal(this.#timers.size, 0, "an ended call has no timer");
      return;
    }
    assert.equal(has("total"), totalTimeoutMs !== null, "the total timer runs from birth to end");
    switch (call.state) {
      case "queued":
        // A worker claims it, or the backoff ends.
        assert.equal(has("ready"), call.backingOff);
        assert.ok(!has("attempt") && !has("defer"));
        return;
      case "claimed":
        // Its worker answers, or its lease ends.
        assert.equal(has("attempt"), attemptTimeoutMs !== null);
        assert.ok(!has("ready") && !has("defer"));
        return;
      case "deferred":
        // It is settled, or a limit passes where the policy has one.
        assert.ok(!has("attempt") || !has("defer"), "a defer timeout switches the attempt timeout off");
        if (deferTimeoutMs !== null) assert.ok(has("defer"));
        if (attemptTimeoutMs !== null) assert.ok(has("attempt") || has("defer"));
        assert.ok(call.executor === "client" || !has("ready"));
        assert.ok(call.executor === "client" || call.tokens.some(({ attempt }) => attempt === call.attempt));
        return;
    }
  }

  /** Whoever sends an event again, because the reply was lost, changes nothing and is not told otherwise. */
  #checkResend(event: CallEvent, random: number): void {
    if (event.type === "due" || event.type === "issue_token") return;
    const retriesClient =
      event.type === "settle" && event.attempt === null && this.#call.executor === "client";
    if (retriesClient && !isEnded(this.#call)) return;
    const again = decide(this.#call, event, random);
    this.#seen(seenIn(this.#call, event, again));
    const { verdict, change } = again;
    assert.equal(change, null, `${event.type}, sent again, changed the call`);
    if (
      ["accept", "release", "answer", "defer", "settle", "settle_by_token", "cancel"].includes(event.type)
    ) {
      const stale = this.#call.executor === "client" && !verdict.ok && verdict.reason === "STALE_ATTEMPT";
      assert.ok(verdict.ok || stale, `${event.type}, sent again, was refused`);
    }
  }
}

function idOf(held: Held | undefined): string {
  return held?.id ?? "foreign";
}

/** Workers and nodes do not lie: what was started is neither released nor called undelivered. */
function canBeGone(held: Held | undefined): boolean {
  if (held === undefined) return true;
  held.gone ||= !held.started;
  return held.gone;
}

/** What is refused, and why. */
function checkVerdict(before: Call, event: CallEvent, { verdict, change }: Decision): void {
  const reason = verdict.ok ? null : verdict.reason;
  if (reason !== null) assert.equal(change, null, "what is refused changes nothing");
  if (event.type === "claim") {
    const claimable = before.state === "queued" && !before.backingOff;
    assert.equal(change !== null, claimable, "only what is queued and not backing off is claimed");
  } else if ("claimId" in event && event.claimId !== before.claim?.id) {
    assert.equal(reason, "CLAIM_LOST", "I2: under another claim than the last one");
  } else if (event.type === "settle" && event.attempt !== null && event.attempt !== before.attempt) {
    assert.equal(reason, "STALE_ATTEMPT");
  } else if (event.type === "settle_by_token") {
    const made = before.tokens.some(
      ({ attempt, hash }) => attempt === event.attempt && hash === event.tokenHash,
    );
    const stale = made && event.attempt !== before.attempt;
    assert.equal(reason === "TOKEN_INVALID", !made, "a token is one that was made, for its attempt");
    assert.equal(reason === "STALE_ATTEMPT", stale, "a token is of the last attempt");
  }
}

/** What holds of every change, whatever happened. */
function checkChange(before: Call, event: CallEvent, { verdict }: Decision, change: Change): void {
  const { next, failedAttempt, revoked } = change;
  assert.ok(!isEnded(before), "I1: an ended call never changes");
  assert.deepEqual(verdict, { ok: true, repeat: false }, "what changes is neither refused nor a repeat");
  assert.equal(next.version, before.version + 1);
  assert.deepEqual(factsIn(next), factsIn(before), "I4: what was fixed at open stays, the id above all");
  checkFence(before, event);
  if (isEnded(next)) {
    assert.deepEqual(countersIn(next), countersIn(before), "an end changes no counter");
  }
  assert.deepEqual(next.tokens.slice(0, before.tokens.length), before.tokens, "tokens are only added");

  const heldOn = next.state === "claimed" && next.claim.id === before.claim?.id;
  const ownWord =
    ["answer", "defer", "release"].includes(event.type) ||
    (event.type === "take_back" && event.cause === "disowned");
  const ended = before.state === "claimed" && !heldOn;
  assert.equal(revoked !== null, ended && !ownWord, "revoked: a live claim ended without its worker's word");

  if ("failure" in next) checkFailure(before, next.failure);
  if (failedAttempt === null) return;
  assert.equal(failedAttempt.number, before.attempt);
  assert.ok(failedAttempt.number > 0, "what was never claimed has no failed attempt");
  checkFailure(before, failedAttempt.failure);
  if ("failure" in next) assert.deepEqual(next.failure, failedAttempt.failure);
  assert.notEqual(next.state, "succeeded");
}

/** I2: only the last claim acts, and only as its standing allows. */
function checkFence(before: Call, event: CallEvent): void {
  if (!("claimId" in event) || event.type === "claim") return;
  const { claim } = before;
  assert.ok(claim !== null && claim.id === event.claimId, `I2: ${event.type} under another claim`);
  if (claim.standing === "live") return;
  assert.equal(claim.standing, "lapsed", `I2: ${event.type} under a claim that is ${claim.standing}`);
  assert.ok(
    event.type === "defer" || event.type === "answer",
    `I2: ${event.type} under a claim that has lapsed`,
  );
}

function checkFailure(before: Call, { kind, outcomeUnknown }: Failure): void {
  const unknowable = ["worker_lost", "attempt_timeout", "total_timeout", "canceled"].includes(kind);
  assert.equal(outcomeUnknown, unknowable && before.spent > 0, `${kind} with ${before.spent} spent`);
}

function factsIn(call: Call): unknown {
  const { projectId, runId, seq, key, turn, namespace, tool, executor, policy } = call;
  return { projectId, runId, seq, key, turn, namespace, tool, executor, policy };
}

function countersIn(call: Call): unknown {
  const { attempt, spent, failures, losses, offers, tokens } = call;
  return { attempt, spent, failures, losses, offers, tokens };
}

function seenIn(before: Call, event: CallEvent, { verdict, change }: Decision): string {
  const became = change === null ? "unchanged" : change.next.state;
  return `${before.policy.mode}: ${before.state}, ${event.type}: ${verdict.ok ? became : verdict.reason}`;
}

/** So that a transition which writes into what it was given throws. */
function deepFreeze<T>(value: T): T {
  if (typeof value === "object" && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value);
    Object.values(value).forEach(deepFreeze);
  }
  return value;
}
