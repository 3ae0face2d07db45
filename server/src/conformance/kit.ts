import { randomBytes } from "node:crypto";
import { create } from "@bufbuild/protobuf";
import type { ConnectError } from "@connectrpc/connect";
import {
  ClaimSchema,
  RevokeReason,
  type Answer,
  type Claim,
  type WorkRequest,
  type WorkResponse,
} from "@trunkline/proto/worker";
import type { Link } from "./door.js";
import { requestText, responseText } from "./frame-text.js";
import { Mismatch, short } from "./mismatch.js";
import { KEY_PREFIX, Peer, type PeerEvents, type Refusal } from "./peer.js";
import { INTERVAL_MS, type PeerStream } from "./peer-stream.js";
import { Program, type ProgramEnd, type ProgramEvents } from "./program.js";
import type { Trace } from "./trace.js";
import { Watch } from "./watch.js";

/** Within which a worker is back: tries are at most 2 s apart, and a machine may be busy. */
export const RETURN_MS = 2_500;

/** How long a program may take to end once it was asked to, in milliseconds, before it is ended. */
const PARTING_MS = 1_000;

const TOLD = /^(?:started|stopped|token) /;
const RUN_ID = "01990000-0000-7000-8000-00000000c0de";

/** How a {@link Kit} works. */
export interface KitOptions {
  readonly command: readonly string[];
  /** What the program gets beside the kit's own variables. */
  readonly environment: NodeJS.ProcessEnv;
  /** The worker's name and the number of its slots. */
  readonly worker: string;
  readonly concurrency: number;
  /** How long to wait for what has to come at once, and for the first hello of a program, in milliseconds. */
  readonly patienceMs: number;
  readonly helloMs: number;
  readonly trace: Trace;
}

/** Something that happened and was not foreseen, such as a program that cannot be started. */
export class Unstartable extends Error {
  override readonly name = "Unstartable";
  readonly code: string | undefined;

  constructor(cause: NodeJS.ErrnoException) {
    super(cause.message, { cause });
    this.code = cause.code;
  }
}

/** What one scenario plays with: a server whose part it takes, the program, and a record of all that happened. */
export class Kit implements PeerEvents, ProgramEvents {
  /** What the program has to send with every request. */
  readonly key = KEY_PREFIX + randomBytes(16).toString("hex");
  readonly worker: string;
  readonly concurrency: number;
  readonly patienceMs: number;
  readonly helloMs: number;
  readonly peer = new Peer(this, this.key);
  readonly streams: PeerStream[] = [];
  /** What the program has printed of what it has to print. */
  readonly lines: string[] = [];
  /** Streams that were refused. */
  refusals = 0;
  /** Whether the program may end by itself now. */
  mayExit = false;
  readonly #options: KitOptions;
  readonly #programs: Program[] = [];
  readonly #claims: Claim[] = [];
  readonly #lastBeats = new Map<PeerStream, string>();
  readonly #watch = new Watch();
  #arrivals = 0;
  #links = 0;
  #ending = false;

  constructor(options: KitOptions) {
    this.#options = options;
    this.worker = options.worker;
    this.concurrency = options.concurrency;
    this.patienceMs = options.patienceMs;
    this.helloMs = options.helloMs;
  }

  get nowMs(): number {
    return this.#options.trace.nowMs;
  }

  /** Whether a program has opened a stream. */
  get met(): boolean {
    return this.streams.length + this.refusals > 0;
  }

  /** What the programs wrote last on standard error. */
  get lastWords(): readonly string[] {
    return this.#programs.flatMap(({ lastWords }) => lastWords);
  }

  // The program.

  /** Starts the program; again, beside the one that runs. */
  start(): Program {
    const { command, environment, worker, concurrency } = this.#options;
    const told = {
      TRUNKLINE_URL: this.peer.door.url,
      TRUNKLINE_KEY: this.key,
      TRUNKLINE_WORKER: worker,
      TRUNKLINE_CONCURRENCY: String(concurrency),
    };
    const program = new Program(command, { ...environment, ...told }, this);
    this.#programs.push(program);
    return program;
  }

  /** Starts the program and welcomes it. */
  async begin(): Promise<PeerStream> {
    this.start();
    const stream = await this.arrival(this.helloMs);
    stream.welcome();
    return stream;
  }

  /** Waits for the next stream, and its hello. It is for the scenario to welcome it. */
  async arrival(ms = this.helloMs): Promise<PeerStream> {
    const index = this.#arrivals++;
    return this.until(
      index === 0 ? "a stream with a hello" : "a hello on a new stream",
      () => {
        const stream = this.streams[index];
        return stream?.hello === undefined ? undefined : stream;
      },
      ms,
      () => (this.#links === 0 ? "; no connection came to the address in TRUNKLINE_URL" : ""),
    );
  }

  /** Waits for the program's end. */
  async exit(program: Program, why: string): Promise<ProgramEnd> {
    this.mayExit = true;
    return this.until(`the program to end ${why}`, () => program.end);
  }

  // Claims.

  /** Makes a claim; the next attempt of the same call when it is given that call's last one. */
  claim(tool: string, inputJson: string, more: { confirm?: boolean; after?: Claim } = {}): Claim {
    const number = this.#claims.length + 1;
    const { after, confirm = false } = more;
    const claim = create(ClaimSchema, {
      claimId: `claim-${number}`,
      callId: after?.callId ?? `${RUN_ID}/${number}`,
      attempt: (after?.attempt ?? 0) + 1,
      tool,
      inputJson,
      namespace: "conformance",
      confirm,
    });
    this.#claims.push(claim);
    return claim;
  }

  /** How often the claim's attempt was started, by what the program printed. */
  starts({ callId, attempt }: Claim): number {
    return this.lines.filter((line) => line === `started ${callId} ${attempt}`).length;
  }

  hasStopped({ callId }: Claim): boolean {
    return this.lines.includes(`stopped ${callId}`);
  }

  /** Waits until the program has printed a line. */
  async printed(line: string): Promise<void> {
    const silent = (): string =>
      this.lines.length === 0 ? "; it has printed no such line so far: is it flushed?" : "";
    const expected = `the program to print \`${line}\``;
    await this.until(expected, () => this.lines.includes(line), this.patienceMs, silent);
  }

  async started(claim: Claim): Promise<void> {
    await this.printed(`started ${claim.callId} ${claim.attempt}`);
  }

  async stopped(claim: Claim): Promise<void> {
    await this.printed(`stopped ${claim.callId}`);
  }

  /** Waits for the answer of a claim on a stream; `ms` is what its handler takes. */
  async answer(stream: PeerStream, claim: Claim, ms = 0): Promise<Answer> {
    const what = `an answer to ${claim.claimId} (${claim.tool}) on stream ${stream.number}`;
    return this.heard(stream, what, () => stream.answersTo(claim)[0], ms + this.patienceMs);
  }

  /** Waits until a claim was accepted. */
  async accepted(stream: PeerStream, claim: Claim): Promise<void> {
    await this.heard(stream, `${claim.claimId} to be accepted`, () => stream.hasAccepted(claim));
  }

  /** Waits until the worker has read an ack: it names the claim in no heartbeat any more. */
  async dropped(stream: PeerStream, ...claims: readonly Claim[]): Promise<void> {
    const from = stream.beats.length;
    const ids = claims.map(({ claimId }) => claimId);
    await this.heard(stream, `a heartbeat without ${ids.join(", ")}`, () =>
      stream.beats.slice(from).some(({ claims: named }) => !ids.some((id) => named.includes(id))),
    );
  }

  /** As {@link until}, for what has to come on a stream: not any more once it is over, or its worker has closed it. */
  async heard<T>(
    stream: PeerStream,
    expected: string,
    look: () => T | undefined | false,
    ms?: number,
  ): Promise<T> {
    return this.until(
      expected,
      () => {
        const seen = look();
        const isThere = seen !== undefined && seen !== false;
        if (!isThere && stream.halfClosed) throw new Mismatch(expected, "the worker closed its side");
        if (!isThere && stream.over) throw new Mismatch(expected, "the stream is over");
        return seen;
      },
      ms,
    );
  }

  /** Gives a call of `echo`, and wants it answered: the worker goes on. */
  async goesOn(stream: PeerStream): Promise<void> {
    const claim = this.claim("echo", '{"still":"there"}');
    stream.give(claim);
    await this.answer(stream, claim);
    stream.ack(claim);
  }

  // Waiting.

  /** As {@link Watch.until}, with the kit's own patience. */
  async until<T>(
    expected: string,
    look: () => T | undefined | false,
    ms = this.patienceMs,
    hint?: () => string,
  ): Promise<T> {
    return this.#watch.until(expected, look, ms, hint);
  }

  /** As {@link Watch.nothing}. */
  async nothing(expected: string, unwanted: () => string | undefined, ms: number): Promise<void> {
    await this.#watch.nothing(expected, unwanted, ms);
  }

  /** As {@link nothing}, for two heartbeats of the stream, or three intervals where they do not come. */
  async calm(stream: PeerStream, expected: string, unwanted: () => string | undefined): Promise<void> {
    const from = stream.beats.length;
    await this.#watch.nothing(expected, unwanted, 3 * INTERVAL_MS, () => stream.beats.length >= from + 2);
  }

  /** Ends what is being waited for with an error. */
  fail(error: Error): void {
    if (!this.#ending) this.#watch.fail(error);
  }

  /** Refuses streams from now on; undefined: takes them again. */
  refuse(refusal: Refusal | undefined): void {
    this.peer.refusal = refusal;
    this.refusals = 0;
  }

  /** Ends the programs, in order where they are able to, and the server. */
  async close(): Promise<void> {
    this.#ending = true;
    for (const program of this.#programs) program.terminate();
    // A scenario that has failed ends this wait at once.
    await this.#watch
      .until("the programs to end", () => this.#programs.every(({ end }) => end !== undefined), PARTING_MS)
      .catch(() => undefined);
    for (const program of this.#programs) program.kill();
    await this.peer.close();
  }

  // From the peer and the programs.

  onOpen({ number }: Link): void {
    this.#links++;
    this.#note(`connection ${number} opened`);
  }

  onEnd({ number, endedBy }: Link): void {
    this.#note(`connection ${number} ended by the ${endedBy ?? "network"}`);
  }

  onStream(stream: PeerStream): void {
    this.streams.push(stream);
    this.#note(`stream ${stream.number} on connection ${stream.link.number}`);
  }

  onRefusal({ number }: Link): void {
    this.refusals++;
    this.#note(`a stream on connection ${number} is refused with ${this.peer.refusal ?? ""}`);
  }

  onStranger({ number }: Link): void {
    this.#note(`a stream on connection ${number} is refused: it has the key of another run`);
  }

  onStray(path: string): void {
    this.#note(`${path} was asked for; there is nothing`);
  }

  onRequest(stream: PeerStream, frame: WorkRequest): void {
    const text = requestText(frame);
    const isBeat = text.startsWith("heartbeat");
    this.#options.trace.add(`#${stream.number} → ${text}`, isBeat && text === this.#lastBeats.get(stream));
    if (isBeat) this.#lastBeats.set(stream, text);
    const fault = breach(stream, frame);
    if (fault !== undefined) this.fail(fault);
    const { lost } = stream;
    if (frame.heartbeat !== undefined && !stream.over) {
      stream.lost = [];
      stream.send({ heartbeatAck: { lost } });
    }
    if (this.#ending && frame.drain !== undefined) this.#letGo(stream);
    this.#watch.changed();
  }

  onResponse(stream: PeerStream, frame: WorkResponse): void {
    const text = responseText(frame);
    this.#options.trace.add(`#${stream.number} ← ${text}`, text === "heartbeat_ack");
  }

  onChange(stream: PeerStream, unreadable?: ConnectError): void {
    const what = stream.over
      ? "is over"
      : unreadable === undefined
        ? "was closed on the worker's side"
        : "is broken";
    this.#note(`stream ${stream.number} ${what}`);
    if (unreadable !== undefined) this.fail(new Mismatch("frames that can be read", unreadable.message));
    if (this.#ending && stream.halfClosed) stream.end();
  }

  onLine(line: string): void {
    // Other lines are for people.
    if (TOLD.test(line)) this.lines.push(line);
    this.#note(`| ${line}`);
  }

  onErrorLine(line: string): void {
    this.#note(`! ${line}`);
  }

  onFlood(max: number): void {
    this.fail(new Mismatch(`a program that prints at most ${max} bytes`, "more"));
  }

  onExit(program: Program, { status, signal }: ProgramEnd): void {
    const how = status === null ? `by ${signal ?? "a signal"}` : `with status ${status}`;
    this.#note(`the program ended ${how}`);
    if (this.mayExit) return;
    const words = program.lastWords.at(-1);
    const said = words === undefined ? "" : `; its last words: ${short(words)}`;
    this.fail(new Mismatch("the program to keep running", `it ended ${how}${said}`));
  }

  onUnstartable(error: NodeJS.ErrnoException): void {
    this.fail(new Unstartable(error));
  }

  #note(text: string): void {
    this.#options.trace.add(text);
    this.#watch.changed();
  }

  /** What a worker that drains waits for: all that it still has is over. */
  #letGo(stream: PeerStream): void {
    const revoked = this.#claims.map(({ claimId }) => ({ claimId, reason: RevokeReason.RUN_ENDED }));
    stream.send({ acks: this.#claims.map(({ claimId }) => ({ claimId })), revoked });
    stream.send({ drained: {} });
  }
}

/** What no worker may do in any scenario. */
function breach(stream: PeerStream, frame: WorkRequest): Mismatch | undefined {
  const first = stream.requests.length === 1;
  if (first !== (frame.hello !== undefined)) {
    const expected = first ? "a hello in the first frame" : "a hello in the first frame only";
    return new Mismatch(expected, requestText(frame));
  }
  if (stream.welcomedAtMs !== undefined) return undefined;
  const { accepted, deferrals, answers, releases, heartbeat, drain } = frame;
  const items = accepted.length + deferrals.length + answers.length + releases.length;
  const isEarly = items > 0 || heartbeat !== undefined || drain !== undefined;
  return isEarly ? new Mismatch("nothing but grants before the welcome", requestText(frame)) : undefined;
}
