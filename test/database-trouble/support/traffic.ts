import { Trunkline, type Run, type Worker } from "../../../client/src/index.js";
import { until } from "../../support/until.js";

/** What a handler of a {@link Traffic} was told: which call, and which attempt. */
export interface Start {
  readonly callId: string;
  readonly attempt: number;
}

/**
 * A harness and a worker that use a server all the time: callers which open one call after the other and wait for
 * each, and calls of the tool `held` which end when the test says so.
 */
export class Traffic implements AsyncDisposable {
  /** Every start of a handler. */
  readonly starts: Start[] = [];
  /** What a caller got, by its input. */
  readonly results = new Map<number, unknown>();
  /** When the last result came, by `performance.now()`. */
  lastResultAt = 0;
  /** What a caller was told instead of a result. */
  readonly failures: unknown[] = [];
  readonly client: Trunkline;
  readonly run: Run;
  readonly worker: Worker;
  readonly workerErrors: unknown[] = [];
  readonly #gate = withResolvers();
  readonly #callers: Promise<void>[];
  #next = 0;
  #stopping = false;

  private constructor(client: Trunkline, run: Run, callers: number) {
    this.client = client;
    this.run = run;
    this.worker = client.worker({
      tools: {
        echo: (input, { idempotencyKey: callId, attempt }) => {
          this.starts.push({ callId, attempt });
          return input;
        },
        held: async (input, { idempotencyKey: callId, attempt }) => {
          this.starts.push({ callId, attempt });
          await this.#gate.promise;
          return input;
        },
      },
      concurrency: 100,
      onError: (error) => this.workerErrors.push(error),
    });
    this.#callers = Array.from({ length: callers }, () => this.#call());
  }

  static async start(url: string, callers = 20): Promise<Traffic> {
    const client = new Trunkline({ url, onWarning: () => undefined });
    const traffic = new Traffic(client, await client.runs.create(), callers);
    await until("the first results", () => traffic.results.size >= callers);
    return traffic;
  }

  /** Lets the `held` calls end. */
  letGo(): void {
    this.#gate.resolve();
  }

  /** How often handlers of a call were started. */
  startsOf(callId: string): number {
    return this.starts.filter((start) => start.callId === callId).length;
  }

  /** Resolves once a call that is opened from now on has its result; says how long that took. */
  async flows(): Promise<number> {
    const from = performance.now();
    await this.run.call("echo", "again");
    return performance.now() - from;
  }

  /** Resolves when every call that was opened has its result. */
  async stop(): Promise<void> {
    this.#stopping = true;
    await Promise.all(this.#callers);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.letGo();
    this.#stopping = true;
    await this.client.close();
    await Promise.all(this.#callers);
  }

  async #call(): Promise<void> {
    while (!this.#stopping) {
      const input = this.#next++;
      try {
        this.results.set(input, await this.run.call("echo", input));
        this.lastResultAt = performance.now();
      } catch (error) {
        this.failures.push(error);
      }
    }
  }
}

function withResolvers(): { readonly promise: Promise<void>; readonly resolve: () => void } {
  let resolve = (): void => undefined;
  const promise = new Promise<void>((settle) => (resolve = settle));
  return { promise, resolve };
}
