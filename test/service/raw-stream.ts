import { randomBytes, randomUUID } from "node:crypto";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { Code, ConnectError, createClient, type Transport } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import {
  CallService,
  DriveRequestSchema,
  type DriveRequest,
  type DriveResponse,
  type Opened,
} from "@trunkline/proto/call";
import type { Outcome } from "@trunkline/proto/model";
import { ProblemSchema, Reason } from "@trunkline/proto/problem";
import {
  ClaimVerdict_Standing as Standing,
  WorkerService,
  WorkRequestSchema,
  type Ack,
  type Claim,
  type HelloSchema,
  type Revocation,
  type WorkRequest,
  type WorkResponse,
} from "@trunkline/proto/worker";
import { expect } from "vitest";
import { within } from "../support/until.js";

type Truthy<T> = Exclude<T, undefined | null | false | 0 | "">;

/** How a stream ended for its client: `ok`, or its error's reason, or its code where it has no reason. */
export type End = string;

/** Makes the transport of a stream, on a connection of its own. */
export type MakeTransport = (options: {
  readonly baseUrl: string;
  readonly sessionManager: Http2SessionManager;
  readonly acceptCompression: [];
}) => Transport;

/** A bidirectional stream of a client that knows the generated types and nothing else. */
class RawStream<Up, Down> {
  readonly frames: Down[] = [];
  /** Resolves when the stream is over. */
  readonly over: Promise<End>;
  ended: End | undefined;
  readonly #session: Http2SessionManager;
  readonly #unsent: Up[] = [];
  readonly #abort = new AbortController();
  #halfClosed = false;
  #wake = (): void => undefined;
  readonly #looks = new Set<() => void>();
  #paused: Promise<void> | null = null;
  #resume = (): void => undefined;

  constructor(
    url: string,
    makeTransport: MakeTransport,
    call: (transport: Transport, frames: AsyncIterable<Up>, signal: AbortSignal) => AsyncIterable<Down>,
  ) {
    this.#session = new Http2SessionManager(url);
    // Compressed, what a test makes large would be small.
    const transport = makeTransport({ baseUrl: url, sessionManager: this.#session, acceptCompression: [] });
    this.over = this.#read(call(transport, this.#outgoing(), this.#abort.signal));
  }

  protected push(frame: Up): void {
    this.#unsent.push(frame);
    this.#wake();
  }

  /** Closes the sending half. */
  halfClose(): void {
    this.#halfClosed = true;
    this.#wake();
  }

  /** Ends the connection, as a process that dies does. */
  cut(): void {
    this.#session.abort();
  }

  /** Resets the stream; its connection stays. */
  reset(): void {
    this.#abort.abort();
  }

  /** Reads no more until {@link resume}. */
  pause(): void {
    this.#paused = new Promise((resolve) => (this.#resume = resolve));
  }

  resume(): void {
    this.#paused = null;
    this.#resume();
  }

  /** Cuts, if that has not happened, and waits for the end. */
  async close(): Promise<void> {
    this.resume();
    this.halfClose();
    this.cut();
    await this.over;
  }

  /** Looks at every frame until there is something to see; fails when the stream ends first. */
  async when<T>(what: string, look: () => T, ms?: number): Promise<Truthy<T>> {
    const seen = new Promise<Truthy<T>>((resolve, reject) => {
      const again = (): void => {
        const found = look();
        // Falsy values are what the type leaves out.
        if (found) resolve(found as Truthy<T>);
        else if (this.ended !== undefined)
          reject(new Error(`the stream ended (${this.ended}) before: ${what}`));
        else return;
        this.#looks.delete(again);
      };
      this.#looks.add(again);
      again();
    });
    return within(what, seen, ms);
  }

  /** How the stream ends. */
  end(ms?: number): Promise<End> {
    return within("the end of the stream", this.over, ms);
  }

  protected heard(_frame: Down): void {
    // For those who keep what is in it.
  }

  async *#outgoing(): AsyncGenerator<Up> {
    for (;;) {
      const next = this.#unsent.shift();
      if (next !== undefined) yield next;
      else if (this.#halfClosed) return;
      else await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }

  async #read(frames: AsyncIterable<Down>): Promise<End> {
    let end: End = "ok";
    try {
      for await (const frame of frames) {
        this.frames.push(frame);
        this.heard(frame);
        for (const look of [...this.#looks]) look();
        if (this.#paused !== null) await this.#paused;
      }
    } catch (error) {
      end = endOf(ConnectError.from(error));
    }
    this.ended = end;
    for (const look of [...this.#looks]) look();
    this.halfClose();
    this.#session.abort();
    return end;
  }
}

function endOf(error: ConnectError): End {
  const [problem] = error.findDetails(ProblemSchema);
  return problem === undefined ? Code[error.code] : Reason[problem.reason];
}

/** A claim that a worker holds. */
export interface Held {
  readonly callId: string;
  readonly claimId: string;
}

/** One `Work` stream. */
export class WorkClient extends RawStream<WorkRequest, WorkResponse> {
  readonly claims: Claim[] = [];
  readonly confirmed: string[] = [];
  readonly acks: Ack[] = [];
  readonly revoked: Revocation[] = [];
  readonly lost: string[] = [];
  /** Heartbeats that were answered. */
  beats = 0;

  constructor(url: string, makeTransport: MakeTransport = createGrpcTransport) {
    super(url, makeTransport, (transport, frames, signal) =>
      createClient(WorkerService, transport).work(frames, { signal }),
    );
  }

  /** A stream that has been welcomed. */
  static async open(
    url: string,
    hello: MessageInitShape<typeof HelloSchema> = {},
    makeTransport?: MakeTransport,
  ): Promise<WorkClient> {
    const client = new WorkClient(url, makeTransport);
    client.send({ hello: newHello(hello) });
    await client.welcomed();
    return client;
  }

  send(frame: MessageInitShape<typeof WorkRequestSchema>): void {
    this.push(create(WorkRequestSchema, frame));
  }

  async welcomed() {
    return this.when("a welcome", () => this.frames[0]?.welcome);
  }

  /** The verdicts of its welcome, by claim. */
  async verdicts(): Promise<Record<string, string>> {
    const { verdicts } = await this.welcomed();
    return Object.fromEntries(verdicts.map(({ claimId, standing }) => [claimId, Standing[standing]]));
  }

  /** Its next claim of this call. */
  async claimOf(callId: string, attempt = 1): Promise<Claim> {
    return this.when(`attempt ${attempt} of call ${callId}`, () =>
      this.claims.find((claim) => claim.callId === callId && claim.attempt >= attempt),
    );
  }

  ackOf(claimId: string): Promise<Ack> {
    return this.when(`an ack of claim ${claimId}`, () => this.acks.find((ack) => ack.claimId === claimId));
  }

  /** The reason with which an item was refused; undefined when it was done. */
  async refusal(claimId: string): Promise<string | undefined> {
    const { problem } = await this.ackOf(claimId);
    return problem === undefined ? undefined : Reason[problem.reason];
  }

  async revocation(claimId: string): Promise<Revocation> {
    return this.when(`a revocation of claim ${claimId}`, () =>
      this.revoked.find((each) => each.claimId === claimId),
    );
  }

  accept(...claims: Held[]): void {
    this.send({ accepted: claims.map(({ claimId }) => claimId) });
  }

  answer({ callId, claimId }: Held, resultJson: string): void {
    this.send({ answers: [{ callId, claimId, outcome: { case: "resultJson", value: resultJson } }] });
  }

  /** Sends a heartbeat and waits for its answer. */
  async beat(...claims: Held[]): Promise<readonly string[]> {
    const before = this.beats;
    this.send({ heartbeat: { claims: claims.map(({ claimId }) => claimId) } });
    await this.when("a heartbeat_ack", () => this.beats > before);
    return this.lost;
  }

  protected override heard(frame: WorkResponse): void {
    this.claims.push(...frame.claims);
    this.confirmed.push(...frame.confirmed);
    this.acks.push(...frame.acks);
    this.revoked.push(...frame.revoked);
    if (frame.heartbeatAck === undefined) return;
    this.beats++;
    this.lost.push(...frame.heartbeatAck.lost);
  }
}

/** The hello of a worker that nobody knows yet. */
export function newHello(
  hello: MessageInitShape<typeof HelloSchema> = {},
): MessageInitShape<typeof HelloSchema> {
  return {
    sessionId: randomUUID(),
    nonce: randomBytes(16).toString("base64url"),
    worker: "raw",
    sdk: "raw/1",
    tools: ["t"],
    slots: 10,
    ...hello,
  };
}

/** One `Drive` stream. */
export class DriveClient extends RawStream<DriveRequest, DriveResponse> {
  readonly opened = new Map<number, Opened>();
  readonly outcomes: Outcome[] = [];
  #requests = 0;

  constructor(url: string, makeTransport: MakeTransport = createGrpcTransport) {
    super(url, makeTransport, (transport, frames, signal) =>
      createClient(CallService, transport).drive(frames, { signal }),
    );
  }

  send(frame: MessageInitShape<typeof DriveRequestSchema>): void {
    this.push(create(DriveRequestSchema, frame));
  }

  /** A number for a request that no other has. */
  number(): number {
    return ++this.#requests;
  }

  /** Makes a run. */
  async newRun(): Promise<string> {
    const request = this.number();
    this.send({ runs: [{ request, spec: {} }] });
    const made = await this.when("a run", () =>
      this.all(({ runs }) => runs).find((run) => run.request === request),
    );
    return made.run?.id ?? expect.fail("no run was made");
  }

  /** Everything of one kind that has come. */
  all<T>(items: (frame: DriveResponse) => readonly T[]): T[] {
    return this.frames.flatMap((frame) => [...items(frame)]);
  }

  async openedAs(request: number): Promise<Opened> {
    return this.when(`an answer to open ${request}`, () => this.opened.get(request));
  }

  /** The reason with which a request was refused. */
  async refusal(request: number): Promise<string> {
    const refused = await this.when(`a refusal of request ${request}`, () =>
      this.all(({ refused }) => refused).find((each) => each.request === request),
    );
    return Reason[refused.problem?.reason ?? Reason.UNSPECIFIED];
  }

  async outcomeOf(callId: string): Promise<Outcome> {
    return this.when(`the outcome of ${callId}`, () => this.outcomes.find((each) => each.callId === callId));
  }

  protected override heard(frame: DriveResponse): void {
    for (const opened of frame.opened) this.opened.set(opened.request, opened);
    this.outcomes.push(...frame.outcomes);
  }
}
