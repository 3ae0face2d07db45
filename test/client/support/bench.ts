import { create } from "@bufbuild/protobuf";
import { ProblemSchema, type Reason } from "@trunkline/proto/problem";
import {
  AckSchema,
  type Ack,
  type Answer,
  type ClaimVerdict_Standing as Standing,
  type WorkResponse,
} from "@trunkline/proto/worker";
import { afterEach, beforeEach, expect } from "vitest";
import { Trunkline, type Worker, type WorkerOptions } from "../../../client/src/index.js";
import { Peer, type WorkPeer } from "./peer.js";

/** A scripted server and a worker for each test of a file. */
export class Bench {
  readonly peer: Peer;
  /** What `onError` was told. */
  readonly errors: unknown[] = [];
  readonly #waiting: ((error: unknown) => void)[] = [];
  #worker: Worker | undefined;

  constructor(peer: Peer) {
    this.peer = peer;
  }

  start(tools: WorkerOptions["tools"], options: Omit<WorkerOptions, "tools"> = {}): Worker {
    const client = new Trunkline({ url: this.peer.url, key: "k1", onWarning: () => undefined });
    this.#worker = client.worker({
      tools,
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

/** Makes a {@link Bench} for each test of this file. */
export function benches(): () => Bench {
  let bench: Bench | undefined;
  beforeEach(async () => {
    bench = new Bench(await Peer.start());
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
