/**
 * A worker of a Trunkline server: it takes calls from a stream, runs their handlers, and brings the answers back,
 * whatever happens to connections and servers. It follows docs/protocol.md, "Being a worker"; the numbers in comments
 * are the steps there.
 */
import { setTimeout as delay } from "node:timers/promises";
import { credentials, Metadata, status } from "@grpc/grpc-js";
import { Backoff } from "./backoff.js";
import type { Handler } from "./call.js";
import { Session } from "./session.js";
import { Stream, type Target } from "./stream.js";

/** A stream that asked to be replaced this soon is replaced with a pause, or both sides would go round in circles. */
const YOUNG_MS = 1_000;

/** Which tools to run, and for which server. */
export interface WorkerOptions {
  /** `http://HOST:PORT`, or `https://`. */
  readonly url: string;
  /** Sent as a bearer token; none for a server without keys. */
  readonly key?: string | undefined;
  /** For people. */
  readonly name: string;
  /** How many handlers run at once, 1 to 10,000. */
  readonly slots: number;
  readonly tools: Readonly<Record<string, Handler>>;
  readonly log: (line: string) => void;
}

/**
 * Works until `stop` is aborted. Then it takes no further call, hands back what has not started, finishes what runs,
 * delivers the answers however long that takes, and resolves. It rejects when the server refuses the key; everything
 * else is waited out.
 */
export async function runWorker(options: WorkerOptions, stop: AbortSignal): Promise<void> {
  const { slots, log } = options;
  if (!(Number.isInteger(slots) && slots >= 1 && slots <= 10_000)) {
    throw new RangeError(`slots is ${slots}; allowed are 1 to 10,000`);
  }
  const target = targetOf(options);
  const session = new Session(options);
  if (stop.aborted) return;
  stop.addEventListener("abort", () => session.drain(), { once: true });
  try {
    for (let backoff = new Backoff(); ;) {
      // A connection for each stream, so that one that is dead, or whose server leaves, carries nothing new (8, 9).
      const stream = new Stream(session, target);
      await stream.left;
      const { welcomed, replaced, error } = stream;
      if (isFinal(error)) throw error;
      if (session.finished.aborted) return;
      if (welcomed) backoff = new Backoff();
      if (replaced && performance.now() - stream.openedAt > YOUNG_MS) continue;
      const pauseMs = backoff.next(performance.now());
      log(
        `no stream: ${error instanceof Error ? error.message : error}; next try in ${Math.round(pauseMs)} ms`,
      );
      await delay(pauseMs, undefined, { signal: session.finished }).catch(() => {}); // it has drained meanwhile
      if (session.finished.aborted) return;
    }
  } finally {
    session.end(new Error("the worker has ended")); // also a stream that said goaway, and is read to its end
  }
}

/** Whether the server refuses the key (8). */
function isFinal(error: unknown): boolean {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  return code === status.UNAUTHENTICATED || code === status.PERMISSION_DENIED;
}

function targetOf({ url, key }: WorkerOptions): Target {
  const { protocol, hostname, port } = new URL(url);
  if (protocol !== "http:" && protocol !== "https:") {
    throw new RangeError(`url is ${url}; allowed are http://HOST:PORT and https://HOST:PORT`);
  }
  const metadata = new Metadata();
  if (key) metadata.set("authorization", `Bearer ${key}`);
  const secure = protocol === "https:";
  return {
    address: `dns:${hostname}:${port || (secure ? 443 : 80)}`,
    credentials: secure ? credentials.createSsl() : credentials.createInsecure(),
    metadata,
  };
}
