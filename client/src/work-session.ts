import { randomBytes, randomUUID } from "node:crypto";
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { Claim, HeartbeatSchema, HelloSchema, Welcome, WorkResponse } from "@trunkline/proto/worker";
import { Claims } from "./claims.js";
import { TrunklineError } from "./errors.js";
import type { HandlerPort } from "./handler.js";
import type { HeldClaim } from "./held-claim.js";
import { Parting } from "./parting.js";
import { errorFromRpc } from "./problem.js";
import { Refusals } from "./refusals.js";
import { StreamKeeper } from "./stream-keeper.js";
import type { Endpoint } from "./transport.js";
import { VERSION } from "./version.js";
import { StatusWatch, type WorkerStatus } from "./worker-status.js";
import type { WorkCarrier, WorkCarrierOwner } from "./work-carrier.js";
import { WorkPoll } from "./worker-poll.js";
import { WorkStream } from "./worker-stream.js";

/** How long a carrier that this side has closed may take to end. */
const END_MS = 2_000;

/** What a session says of itself. */
export interface WorkSessionOptions {
  readonly name: string;
  /** Empty: any. */
  readonly toolset: string;
  readonly concurrency: number;
  /** How long one request waits for claims, where no stream passes. */
  readonly pollWaitMs: number;
}

/** What a session asks and tells its worker. */
export interface WorkSessionHost {
  /** The tools that it runs now; see {@link WorkSession.toolsChanged}. */
  tools(): readonly string[];
  hasHandler(tool: string): boolean;
  /** Starts the claim's handler, with the session's side of it. */
  run(held: HeldClaim, port: HandlerPort): void;
  report(error: unknown, held?: HeldClaim): void;
  /** A word about an outage that has lasted a while. */
  warn(error: TrunklineError): void;
  /** A word about its end. */
  recovered(): void;
  /** The session stands elsewhere now. */
  onStatus(status: WorkerStatus): void;
  /** Once, when the session is over; with the error when the credential was refused. */
  closed(error: TrunklineError | undefined): void;
}

/** A worker as the server knows it, across streams: it keeps one open and passes on what it carries. */
export class WorkSession implements WorkCarrierOwner {
  readonly #endpoint: Endpoint;
  readonly #options: WorkSessionOptions;
  readonly #host: WorkSessionHost;
  readonly #id = randomUUID();
  readonly #nonce = randomBytes(24).toString("base64url");
  readonly #claims: Claims;
  readonly #carriers = new Set<WorkCarrier>();
  readonly #keeper: StreamKeeper<WorkCarrier>;
  readonly #parting: Parting;
  readonly #watch: StatusWatch;
  readonly #refusals: Refusals;
  readonly #forgetRoute: () => void;
  #hellos = 0;
  /** Counts the changes of the tools. */
  #toolsVersion = 0;
  /** Who said hello last. */
  #greeted: WorkCarrier | undefined;
  /** With which version of the tools each said hello. */
  readonly #said = new WeakMap<WorkCarrier, number>();
  /** What came on an older carrier after that hello had left: whether it counts is known at the welcome. */
  #late: { readonly carrier: WorkCarrier; readonly claim: Claim }[] = [];
  /** Slots that became free while another carrier was tried: where that comes to nothing, the older one is to know. */
  #owed = 0;
  #draining = false;
  #drained = false;
  #over = false;
  #told = false;
  #refused: TrunklineError | undefined;

  constructor(endpoint: Endpoint, options: WorkSessionOptions, host: WorkSessionHost) {
    this.#endpoint = endpoint;
    this.#options = options;
    this.#host = host;
    this.#refusals = new Refusals(endpoint.renewsKey);
    this.#claims = this.#makeClaims();
    this.#watch = new StatusWatch((status) => host.onStatus(status));
    this.#parting = new Parting(
      () => this.#close(),
      () => this.#giveUp(),
    );
    this.#keeper = new StreamKeeper<WorkCarrier>({
      open: () => this.#open(),
      spreadMs: () => this.#watch.intervalMs,
      wanted: () => !this.#over,
      explain: (cause) => this.#explain(cause),
      isFatal: (error) => this.#refusals.isFinal(error),
      onFatal: (error) => {
        this.#refused = error;
        this.abandon(error);
      },
      onTrouble: (error) => host.warn(error),
      onRecovery: () => host.recovered(),
    });
    this.#forgetRoute = endpoint.route.onRetry(() => {
      if (this.#keeper.active instanceof WorkPoll) this.#keeper.tryAnother();
    });
    this.#keeper.start();
  }

  // From the worker.

  get status(): WorkerStatus {
    return this.#watch.status;
  }

  /**
   * Takes claims of the tools that there are now: says hello with them, on another carrier where that is needed. The
   * present one goes on until that is welcomed.
   */
  toolsChanged(): void {
    this.#toolsVersion++;
    this.#greetAgain();
  }

  /** Takes no claim from now on, hands back what has not started, and closes when all is delivered. */
  drain(): void {
    if (this.#draining) return;
    this.#draining = true;
    this.#watch.drain();
    this.#claims.drain();
    this.#keeper.active?.drain();
    this.#considerParting();
  }

  /** Ends the session at once: running handlers are told to stop, and what they return is dropped. */
  abandon(error: Error): void {
    if (this.#over) return;
    this.#claims.abandon(error);
    this.#over = true;
    this.#keeper.close();
    for (const carrier of this.#carriers) carrier.drop(error);
    this.#close();
  }

  // From the streams.

  get freeSlots(): number {
    return this.#draining ? 0 : this.#claims.book.free;
  }

  named(): { readonly claimId: string; readonly callId: string }[] {
    return this.#claims.book.named();
  }

  buildHello(carrier: WorkCarrier): MessageInitShape<typeof HelloSchema> {
    const { name, toolset } = this.#options;
    this.#greeted = carrier;
    this.#said.set(carrier, this.#toolsVersion);
    return {
      sessionId: this.#id,
      nonce: this.#nonce,
      worker: name,
      sdk: `trunkline-sdk-js/${VERSION}`,
      tools: [...this.#host.tools()],
      toolset,
      slots: this.freeSlots,
      claims: this.named(),
      // Hellos of two carriers may reach the server in the other order.
      number: BigInt(++this.#hellos),
    };
  }

  buildHeartbeat(): MessageInitShape<typeof HeartbeatSchema> {
    const { beat, more } = this.#claims.book.heartbeat();
    if (more) this.#keeper.active?.heartbeat();
    return beat;
  }

  isActive(carrier: WorkCarrier): boolean {
    return carrier === this.#keeper.active;
  }

  onWelcome(carrier: WorkCarrier, welcome: Welcome): void {
    const { book, outbox } = this.#claims;
    this.#keeper.welcomed(carrier);
    this.#refusals.accepted();
    this.#owed = 0;
    // The server took back what the hello does not name, and offers it again.
    if (carrier === this.#greeted) this.#late = [];
    this.#watch.attached(carrier.intervalMs);
    if (welcome.maxResultBytes > 0) this.#claims.maxResultBytes = welcome.maxResultBytes;
    for (const { claimId, standing } of welcome.verdicts) this.#claims.judge(claimId, standing);
    for (const item of outbox.items()) carrier.send(item);
    for (const { id } of book.values()) {
      if (!carrier.hasNamed(id) && !outbox.has(id)) carrier.accept(id);
    }
    book.repeatProgress();
    for (const other of this.#carriers) if (other !== carrier) other.replaced();
    if (this.#draining) carrier.drain();
    this.#greetAgain();
  }

  onFrame(carrier: WorkCarrier, frame: WorkResponse): void {
    const claims = this.#claims;
    this.#watch.heard();
    for (const claim of frame.claims) {
      if (carrier === this.#greeted) this.#receive(carrier, claim);
      else this.#late.push({ carrier, claim });
    }
    for (const claimId of frame.confirmed) claims.confirm(claimId);
    for (const ack of frame.acks) claims.acknowledge(ack);
    for (const { claimId, reason } of frame.revoked) claims.revoke(claimId, reason);
    for (const claimId of frame.heartbeatAck?.lost ?? []) claims.lose(claimId, "the server took it back");
    if (frame.drained !== undefined) this.#drained = true;
    if (frame.goaway !== undefined) this.#keeper.goaway(carrier);
    // What was accepted goes out before a handler can keep the event loop busy.
    if (frame.claims.length > 0) carrier.flush();
    this.#considerParting();
  }

  onEnd(carrier: WorkCarrier, cause: unknown): void {
    this.#carriers.delete(carrier);
    if (this.#endpoint.route.next === "poll" && carrier instanceof WorkStream) this.#keeper.changeWay();
    this.#keeper.ended(carrier, cause);
    if (carrier === this.#greeted) this.#greetedInVain();
    this.#payOwed();
    if (this.#keeper.active === undefined) this.#watch.detached();
    if (this.#over) this.#tellClosed();
    else this.#considerParting();
  }

  #makeClaims(): Claims {
    const host = this.#host;
    return new Claims(this.#options.concurrency, {
      hasHandler: (tool) => host.hasHandler(tool),
      run: (held) => host.run(held, this.#claims),
      report: (error, held) => host.report(error, held),
      send: (item) => this.#keeper.active?.send(item),
      heartbeat: () => this.#keeper.active?.heartbeat(),
      freed: () => {
        if (!this.#draining) this.#grant();
        this.#considerParting();
      },
    });
  }

  #grant(): void {
    const { active, newest = active } = this.#keeper;
    newest?.grant(1);
    if (newest !== active) this.#owed++;
  }

  #greetAgain(): void {
    const { active, newest } = this.#keeper;
    // A carrier that is not welcomed yet has said what is so now, or is looked at when it is.
    if (active === undefined || active !== newest || this.#draining || this.#over) return;
    if (this.#said.get(active) === this.#toolsVersion || active.greetAgain()) return;
    this.#keeper.goaway(active);
  }

  /** The carrier of the last hello has ended: if it was not welcomed, an older one goes on. */
  #greetedInVain(): void {
    const { active } = this.#keeper;
    this.#greeted = active;
    const late = this.#late.filter(({ carrier }) => carrier === active);
    this.#late = [];
    if (active === undefined) return;
    for (const { carrier, claim } of late) this.#receive(carrier, claim);
    active.flush();
    this.#greetAgain();
  }

  #payOwed(): void {
    const { active } = this.#keeper;
    if (active === undefined) return;
    active.grant(this.#owed);
    this.#owed = 0;
  }

  #open(): WorkCarrier {
    this.#keeper.active?.rest();
    const carrier =
      this.#endpoint.route.next === "poll"
        ? new WorkPoll(this.#endpoint, this, this.#options.pollWaitMs)
        : new WorkStream(this.#endpoint, this);
    this.#carriers.add(carrier);
    this.#drained = false;
    return carrier;
  }

  #explain(cause: unknown): TrunklineError {
    const ended = new TrunklineError("UNAVAILABLE", "the server ended the stream");
    const error = errorFromRpc(cause ?? ended, this.#endpoint.url);
    if (error.reason === "FRAME_TOO_LARGE" || error.reason === "LIMIT_EXCEEDED") {
      this.#claims.shrinkLargest(error);
    }
    return error;
  }

  #receive(carrier: WorkCarrier, claim: Claim): void {
    switch (this.#claims.receive(claim)) {
      case "accepted":
        (this.#keeper.active ?? carrier).accept(claim.claimId);
        break;
      case "known":
        // It took credit of this carrier, but no slot.
        carrier.grant(1);
        break;
      case "handed_back":
        break;
    }
  }

  #considerParting(): void {
    if (!this.#draining || this.#over) return;
    const { book } = this.#claims;
    const opening = this.#keeper.newest === undefined ? "down" : "opening";
    const link = this.#keeper.active === undefined ? opening : "up";
    this.#parting.consider({ busy: book.busy, held: book.size, link, drained: this.#drained });
  }

  #giveUp(): void {
    const calls = this.#claims.book.values().map(({ claim }) => claim.callId);
    if (calls.length > 0) {
      const message = `stopped with answers undelivered: ${calls.join(", ")}`;
      this.#host.report(new TrunklineError("UNAVAILABLE", message));
    }
    this.#close();
  }

  /** Ends all streams; the last of them tells the worker. */
  #close(): void {
    this.#over = true;
    this.#forgetRoute();
    this.#parting.cancel();
    this.#keeper.close();
    const closed = new TrunklineError("CLOSED", "the worker has stopped");
    for (const carrier of this.#carriers) {
      if (this.isActive(carrier)) carrier.end();
      else carrier.drop(closed);
    }
    if (this.#carriers.size > 0) {
      const rest = setTimeout(() => {
        for (const carrier of this.#carriers) carrier.drop(closed);
      }, END_MS);
      rest.unref();
    }
    this.#tellClosed();
  }

  #tellClosed(): void {
    if (this.#carriers.size > 0 || this.#told) return;
    this.#told = true;
    this.#watch.stop();
    this.#host.closed(this.#refused);
  }
}
