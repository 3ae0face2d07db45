import { create } from "@bufbuild/protobuf";
import { ProblemSchema, type Reason } from "@trunkline/proto/problem";
import {
  AckSchema,
  type Ack,
  type Answer,
  type Claim,
  type ClaimVerdict_Standing as Standing,
  type WorkResponse,
} from "@trunkline/proto/worker";
import { afterEach, beforeEach, expect } from "vitest";
import { Trunkline, type Worker, type WorkerOptions } from "../../../client/src/index.js";
import { Peer, type Carriage, type WorkPeer } from "./peer.js";

/** How long the worker's polls wait, so that slots which became free are soon heard of. */
const POLL_WAIT = "20ms";

/** A scripted server and a worker for each test of a file. */
export class Bench {
  readonly peer: Peer;
  /** What `onError` was told. */
  readonly errors: unknown[] = [];
  readonly #carriage: Carriage;
  readonly #waiting: ((error: unknown) => void)[] = [];
  #worker: Worker | undefined;

  constructor(peer: Peer, carriage: Carriage) {
    this.peer = peer;
    this.#carriage = carriage;
  }

  start(tools: WorkerOptions["tools"], options: Omit<WorkerOptions, "tools"> = {}): Worker {
    const { url } = this.peer;
    const client = new Trunkline({ url, key: "k1", transport: this.#carriage, onWarning: () => undefined });
    this.#worker = client.worker({
      tools,
      pollWait: POLL_WAIT,
      onError: (error) => {
        this.errors.push(error);
        this.#waiting.shift()?.(error);
      },
      ...options,
    });
    return this.#worker;
  }

  /** The next error that `onError` is told. */
  nextError(): Promise<unknown> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
    });
  }

  async dispose(): Promise<void> {
    // Nobody answers a worker that a test has left holding something.
    await this.#worker?.stop({ timeout: "1ms" }).catch(() => undefined);
    await this.peer.stop();
  }
}

/** Makes a {@link Bench} for each test of this file or block. */
export function benches(carriage: Carriage = "stream"): () => Bench {
  let bench: Bench | undefined;
  beforeEach(async () => {
    bench = new Bench(await Peer.start({}, undefined, carriage), carriage);
  });
  afterEach(() => bench?.dispose());
  return () => bench!;
}

/** That an item was stored, or refused. */
export function ackOf(claimId: string, reason?: Reason): Ack {
  const problem =
    reason === undefined ? {} : { problem: create(ProblemSchema, { reason, message: "refused" }) };
  return create(AckSchema, { claimId, ...problem });
}

/** The claims that the worker accepts next; it has not answered before. */
export async function acceptedOn(stream: WorkPeer): Promise<string[]> {
  const frame = await stream.until(({ accepted, answers }) => accepted.length + answers.length > 0);
  return frame.accepted;
}

/** Waits until the worker names these claims, and no other, as held. */
export async function holdingOn(stream: WorkPeer, ...claims: readonly Claim[]): Promise<void> {
  const ids = claims.map(({ claimId }) => claimId).join();
  await stream.until(({ heartbeat }) => heartbeat?.claims.join() === ids);
}

/** How many slots came back, once some have; no answer has come with them. */
export async function freedOn(stream: WorkPeer): Promise<number> {
  const frame = await stream.until(({ grant, answers }) => grant > 0 || answers.length > 0);
  expect(frame.answers).toEqual([]);
  return frame.grant;
}

/** The next answer and the slots that came back with it, in whichever order. */
export async function doneOn(stream: WorkPeer): Promise<{ readonly answer: Answer; readonly grant: number }> {
  let answer: Answer | undefined;
  let grant = 0;
  while (answer === undefined || grant === 0) {
    const frame = await stream.next();
    answer ??= frame.answers[0];
    grant += frame.grant;
  }
  return { answer, grant };
}

/** The next answer; frames without one are passed over. */
export async function answerOn(stream: WorkPeer): Promise<Answer> {
  const frame = await stream.until(({ answers }) => answers.length > 0);
  expect(frame.answers).toHaveLength(1);
  return frame.answers[0]!;
}

/** A welcome's word on one claim. */
export const verdicts = (claimId: string, standing: Standing) => ({ verdicts: [{ claimId, standing }] });

/** The end of a drain. */
export const DRAINED: Partial<WorkResponse> = { drained: { $typeName: "trunkline.v1.Drained" } };
