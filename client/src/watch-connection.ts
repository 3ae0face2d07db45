import { durationMs } from "@bufbuild/protobuf/wkt";
import { createClient, type Client } from "@connectrpc/connect";
import { RunService, type WatchRunResponse } from "@trunkline/proto/run";
import { abortReason, onAbort } from "./abort.js";
import { callFromWire } from "./call.js";
import { TrunklineError } from "./errors.js";
import { errorFromRpc } from "./problem.js";
import type { Way } from "./route.js";
import { runFromWire } from "./run-info.js";
import type { Connection, Endpoint } from "./transport.js";
import type { RunEvent, WatchFrame, WatchPort } from "./watch.js";

/**
 * What a client watches runs over: one connection for all of them, or HTTP/1.1 where that is the way. It is not that
 * of requests, so that giving it up interrupts none of them.
 */
export class WatchConnection implements WatchPort {
  readonly renewsKey: boolean;
  readonly warn: (message: string) => void;
  readonly #endpoint: Endpoint;
  readonly #connections: Readonly<Record<Way, Connection>>;
  readonly #clients: Readonly<Record<Way, Client<typeof RunService>>>;
  readonly #closing = new AbortController();

  /** @param warn told once per outage, when it has lasted a while */
  constructor(endpoint: Endpoint, warn: (message: string) => void) {
    this.#endpoint = endpoint;
    this.warn = warn;
    this.renewsKey = endpoint.renewsKey;
    const [stream, poll] = [endpoint.shared(), endpoint.plain()];
    this.#connections = { stream, poll };
    this.#clients = {
      stream: createClient(RunService, stream.transport),
      poll: createClient(RunService, poll.transport),
    };
  }

  async *open(
    request: { readonly runId: string; readonly cursor: string },
    signal: AbortSignal,
  ): AsyncGenerator<WatchFrame, void, undefined> {
    const closing = this.#closing.signal;
    closing.throwIfAborted();
    const own = new AbortController();
    const forgets = [signal, closing].map((each) => onAbort(each, () => own.abort(abortReason(each))));
    const { route } = this.#endpoint;
    const [way, begunAt] = [route.way, performance.now()];
    let answered = false;
    try {
      for await (const response of this.#clients[way].watchRun(request, { signal: own.signal })) {
        // It tells of the way as any other request does.
        if (!answered && way === "stream") route.passed("request");
        answered = true;
        yield frameOf(response);
      }
    } catch (thrown) {
      closing.throwIfAborted();
      if (!answered && way === "stream" && !signal.aborted) route.failed("request", thrown, begunAt);
      throw thrown;
    } finally {
      for (const forget of forgets) forget();
      own.abort();
    }
  }

  explain(thrown: unknown): TrunklineError {
    return errorFromRpc(thrown, this.#endpoint.url);
  }

  giveUp(): void {
    for (const connection of Object.values(this.#connections)) connection.abort();
  }

  /** Ends what is watched, and what is to come, with CLOSED. */
  close(): void {
    this.#closing.abort(new TrunklineError("CLOSED", "the client was closed"));
    this.giveUp();
  }
}

function frameOf(response: WatchRunResponse): WatchFrame {
  const { cursor, heartbeatInterval } = response;
  const heartbeatMs = heartbeatInterval === undefined ? undefined : durationMs(heartbeatInterval);
  return { cursor, heartbeatMs, event: eventOf(response) };
}

function eventOf({ call, run, cursor }: WatchRunResponse): RunEvent | undefined {
  if (call !== undefined) return { type: "call", call: callFromWire(call), cursor };
  if (run !== undefined) return { type: "run", run: runFromWire(run), cursor };
  return undefined;
}
