import type { Claim, ClaimCallsResponse, Hello } from "@trunkline/proto/worker";
import type { ClaimedCall } from "../core/call.js";
import type { TrunklineError } from "../core/error.js";
import type { Caller } from "../core/caller.js";
import { noDatabase } from "../exchange/availability.js";
import type { Delivery, WorkSink } from "../exchange/delivery.js";
import type { Welcomed } from "../exchange/hello.js";
import type { Session } from "../exchange/session.js";
import type { ServiceDeps } from "./deps.js";
import { shuttingDown, type EndableStream } from "./open-streams.js";
import { labelBytes, textBytes } from "./page-bytes.js";
import { PAGE_PAYLOAD_BYTES } from "./page-token.js";
import { endedEarly } from "./request-end.js";
import { toClaim, toHelloRequest, toWelcome } from "./work-convert.js";

/** What a claim takes of a response beside what varies in it, roughly. */
const CLAIM_BYTES = 192;
/** A wait is no shorter than this, so that what is queued is looked for at all. */
const LEAST_WAIT_MS = 20;
/** How long a poll that ends waits for claims that are being written, which it would have to take back. */
const LAST_CLAIMS_MS = 2_000;

/**
 * One request of a worker that waits for claims: a hello, and a stream's credit until the first claims come. When
 * it has ended, no node has the session: what its worker holds lives by its heartbeats alone.
 */
export class WorkPoll implements WorkSink, EndableStream {
  readonly polls = true;
  readonly #deps: ServiceDeps;
  readonly #caller: Caller;
  readonly #signal: AbortSignal;
  readonly #offered = new Map<string, { readonly claim: Claim; readonly call: ClaimedCall }>();
  #bytes = 0;
  /** A later hello of the session came, here or on another node. */
  #superseded: TrunklineError | null = null;
  /** What it ends with, if there are no claims to end with. */
  #refusal: TrunklineError | null = null;
  /** What it ends with, whatever there is. */
  #expulsion: TrunklineError | null = null;
  #wake = (): void => undefined;

  constructor(deps: ServiceDeps, caller: Caller, signal: AbortSignal) {
    this.#deps = deps;
    this.#caller = caller;
    this.#signal = signal;
  }

  /**
   * Says hello and waits for claims, at most so long; not at all for a hello without free slots.
   *
   * @throws TrunklineError for what the hello says; SESSION_IN_USE; SUPERSEDED; UNAVAILABLE when the node goes down
   *   or loses its database; ConnectError CANCELED when the client has gone, or DEADLINE_EXCEEDED
   */
  async run(hello: Hello, waitMs: number): Promise<ClaimCallsResponse> {
    const { exchange, streams } = this.#deps;
    const { sessions } = exchange;
    const onAbort = (): void => this.#wake();
    streams.add(this, this.#caller);
    this.#signal.addEventListener("abort", onAbort, { once: true });
    let session: Session | null = null;
    try {
      const welcomed = await sessions.hello(toHelloRequest(hello, this.#caller.scope), this);
      session = welcomed.session;
      if (hello.slots > 0 && !this.#isOver) {
        welcomed.start();
        await this.#first(waitMs);
        await this.#last(session);
      }
      return this.#response(welcomed);
    } finally {
      if (session !== null) sessions.pollEnded(session, this);
      this.#signal.removeEventListener("abort", onAbort);
      streams.remove(this);
    }
  }

  offer(delivery: Delivery): void {
    const { call } = delivery;
    const claim = toClaim(delivery);
    const bytes =
      CLAIM_BYTES + textBytes(claim.inputJson, claim.tool, claim.namespace) + labelBytes(claim.labels);
    if (this.#offered.size > 0 && this.#bytes + bytes > PAGE_PAYLOAD_BYTES) {
      // More than one response holds: for others, or for the next poll.
      this.#deps.exchange.sessions.takeBackUnframed(call);
      return;
    }
    this.#bytes += bytes;
    this.#offered.set(claim.claimId, { claim, call });
    // What is offered in the same turn goes along.
    if (this.#offered.size === 1) setImmediate(() => this.#wake());
  }

  revoke(claimId: string): void {
    this.#offered.delete(claimId);
  }

  confirm(): void {
    // Heartbeats tell it.
  }

  drained(): void {
    // It cannot be asked to drain.
  }

  end(error: TrunklineError): void {
    this.#superseded = error;
    this.#wake();
  }

  shutDown(): void {
    this.#refusal = shuttingDown();
    this.#wake();
  }

  databaseLost(): void {
    this.#refusal = noDatabase();
    this.#wake();
  }

  expelled(refusal: TrunklineError): void {
    this.#expulsion = refusal;
    this.#wake();
  }

  get #isOver(): boolean {
    const end = this.#superseded ?? this.#expulsion ?? this.#refusal;
    return end !== null || this.#signal.aborted;
  }

  /** Waits for the first claims, or the end. */
  async #first(waitMs: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, Math.max(waitMs, LEAST_WAIT_MS));
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  /** Waits for the claims that are being written. */
  async #last(session: Session): Promise<void> {
    if (this.#superseded !== null) return;
    await new Promise<void>((resolve) => {
      this.#wake = () => {
        if (this.#superseded !== null) resolve();
      };
      this.#deps.exchange.sessions.lastClaims(session, this, LAST_CLAIMS_MS, resolve);
    });
  }

  #response({ verdicts }: Welcomed): ClaimCallsResponse {
    const { exchange } = this.#deps;
    // The later hello has settled what became of claims that it does not name.
    if (this.#superseded !== null) throw this.#superseded;
    const offered = [...this.#offered.values()];
    const cut = this.#signal.aborted ? endedEarly(this.#signal) : this.#expulsion;
    if (cut !== null) {
      for (const { call } of offered) exchange.sessions.takeBackUnframed(call);
      throw cut;
    }
    if (offered.length === 0 && this.#refusal !== null) throw this.#refusal;
    return {
      $typeName: "trunkline.v1.ClaimCallsResponse",
      welcome: toWelcome(exchange, verdicts),
      claims: offered.map(({ claim }) => claim),
    };
  }
}
