import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { cleanEnvironment, TestProcess } from "./child-process.js";
import { EventLog } from "./event-log.js";

const PROGRAM = fileURLToPath(new URL("./worker-program.mjs", import.meta.url));

/**
 * What a handler of the worker program does next; a call's input is a list of these. Without an end of its own
 * it returns its worker's name, its attempt and its key, or nothing when it has deferred.
 */
export type Step =
  /** Waits until the test says `go`. */
  | { readonly wait: string }
  /** Makes the token that the next `defer` uses. */
  | { readonly token: true }
  | { readonly defer: { readonly timeout?: `${number}s` | `${number}d` } }
  /** An ordinary error; a HostToolError with `retryable` or `data`. */
  | { readonly throw: string; readonly retryable?: boolean; readonly data?: unknown }
  | { readonly return: unknown }
  /** JSON text, as it is. */
  | { readonly returnRaw: string }
  /** Arrays, nested so deep. */
  | { readonly returnNested: number }
  /** A text, so long as JSON. */
  | { readonly returnBytes: number };

interface OfCall {
  readonly callId: string;
  readonly attempt: number;
  readonly tool: string;
}

/** What a worker program tells. */
export type WorkerEvent =
  | ({ readonly type: "start"; readonly key: string } & OfCall)
  | ({ readonly type: "waiting"; readonly gate: string } & OfCall)
  | ({ readonly type: "token"; readonly token: string } & OfCall)
  /** The deferral was handed to the SDK. */
  | ({ readonly type: "deferring" } & OfCall)
  /** The server has said that it is stored. */
  | ({
      readonly type: "deferred";
      readonly token: string;
      readonly expiresAt: number | undefined;
    } & OfCall)
  | ({ readonly type: "aborted"; readonly reason: string } & OfCall)
  /** The handler is about to return or to throw. */
  | ({ readonly type: "end" } & OfCall)
  /** What `onError` was told. */
  | {
      readonly type: "error";
      readonly message: string;
      readonly reason: string | undefined;
      readonly callId: string | undefined;
    }
  | { readonly type: "stopped" }
  | { readonly type: "refused"; readonly message: string }
  /** The answer to a `ping`: everything before it has been told. */
  | { readonly type: "pong"; readonly number: number };

/** What a worker program is told. */
export type WorkerCommand =
  | { readonly type: "go"; readonly gate: string }
  | { readonly type: "stop" }
  | { readonly type: "ping"; readonly number: number };

/** What a worker program is started with. */
export interface WorkerProgramOptions {
  readonly url: string;
  readonly name: string;
  readonly tools: readonly string[];
  readonly concurrency?: number;
}

type Typed<T extends WorkerEvent["type"]> = Extract<WorkerEvent, { readonly type: T }>;

/** A worker in a process of its own. */
export class WorkerProcess extends TestProcess {
  readonly name: string;
  readonly #events = new EventLog<WorkerEvent>();
  readonly #send: (command: WorkerCommand) => void;
  #pings = 0;

  /** With more of its environment, if any is given. */
  constructor(options: WorkerProgramOptions, env: NodeJS.ProcessEnv = {}) {
    const child = fork(PROGRAM, [JSON.stringify(options)], {
      env: cleanEnvironment(env),
      execArgv: [],
      stdio: ["ignore", "inherit", "pipe", "ipc"],
    });
    super(child);
    this.name = options.name;
    this.#send = (command) => {
      if (child.connected) child.send(command, () => undefined);
    };
    // What comes over the channel is what the program sends.
    child.on("message", (event) => this.#events.add(event as WorkerEvent));
  }

  /** Everything that it told. */
  get events(): readonly WorkerEvent[] {
    return this.#events.all;
  }

  /** How often a handler was started until now: of this call, or of any. */
  async starts(callId?: string): Promise<number> {
    if (this.isAlive) {
      const number = ++this.#pings;
      this.#send({ type: "ping", number });
      const pong = this.#events.first("a pong", (event) => event.type === "pong" && event.number === number);
      await Promise.race([pong, this.ended]);
      pong.catch(() => undefined);
    } else await this.ended;
    return this.#of("start").filter((event) => callId === undefined || event.callId === callId).length;
  }

  /** What `onError` was told; of one whose end was awaited, all. */
  get errors(): readonly Typed<"error">[] {
    return this.#of("error");
  }

  /** The first event of a type, of this call if one is named; it may have come already. */
  async told<T extends WorkerEvent["type"]>(type: T, callId?: string, withinMs?: number): Promise<Typed<T>> {
    const event = await this.#events.first(
      `${this.name} tells "${type}"${callId === undefined ? "" : ` of ${callId}`}`,
      (each) => each.type === type && (callId === undefined || ("callId" in each && each.callId === callId)),
      withinMs,
    );
    // It was chosen by its type.
    return event as Typed<T>;
  }

  /** Lets handlers pass that wait at this gate, now and later. */
  go(gate: string): void {
    this.#send({ type: "go", gate });
  }

  /** Has it call `stop()`. The process ends when the worker has stopped. */
  stop(): void {
    this.#send({ type: "stop" });
  }

  #of<T extends WorkerEvent["type"]>(type: T): Typed<T>[] {
    return this.#events.all.filter((event): event is Typed<T> => event.type === type);
  }
}
