import type { WatchRunResponseJson } from "@trunkline/proto/run";
import { onAbort, orAborted, pause } from "../abort.js";
import { TrunklineError } from "../errors.js";
import type { RunEvent, WatchFrame, WatchPort } from "../watch.js";
import { readCall, readDuration, readRun } from "./call-json.js";
import { readAhead } from "./read-ahead.js";
import type { Requests } from "./requests.js";

/** Whether a page holds streams open, or looks again and again. */
export type Way = "stream" | "poll";

/** A stream that brings nothing for so long has told all that there was. */
const TOLD_MS = 500;
/** Until the next look at the same run. */
const AGAIN_MS = 2_000;

interface WatchRequest {
  readonly runId: string;
  readonly cursor: string;
}

/**
 * What a page watches runs over: a stream for each run, or one stream at a time that is left as soon as it has told
 * what was new. Over HTTP/1.1 a browser has six connections to a server for all of its tabs, and a stream takes one.
 */
export class BrowserWatchPort implements WatchPort {
  readonly renewsKey: boolean;
  readonly #requests: Requests;
  readonly #way: Way;
  /** Resolves when the look that was asked for last is over, and all before it. */
  #looks: Promise<void> = Promise.resolve();

  constructor(requests: Requests, way: Way) {
    this.#requests = requests;
    this.renewsKey = requests.renewsToken;
    this.#way = way;
  }

  async open(request: WatchRequest, signal: AbortSignal): Promise<AsyncIterable<WatchFrame>> {
    if (this.#way === "stream") return this.#stream(request, signal);
    // Read ahead: who takes long over what happens to one run does not hold up those who watch others.
    return readAhead(this.#look(request, await this.#turn(signal)));
  }

  explain(thrown: unknown): TrunklineError {
    if (thrown instanceof TrunklineError) return thrown;
    const why = thrown instanceof Error ? thrown.message : String(thrown);
    return new TrunklineError("UNAVAILABLE", why, { cause: thrown });
  }

  /** The stream is aborted, and connections are the browser's. */
  giveUp(): void {
    return;
  }

  warn(message: string): void {
    this.#requests.tell(message);
  }

  async *#stream(
    { runId, cursor }: WatchRequest,
    signal: AbortSignal,
  ): AsyncGenerator<WatchFrame, void, undefined> {
    const request = { runId, cursor };
    for await (const response of this.#requests.rpc.stream("RunService/WatchRun", request, signal)) {
      yield frameOf(response);
    }
  }

  /** Waits until no other look is under way. What it gives is to be aborted when this one is over. */
  async #turn(signal: AbortSignal): Promise<AbortController> {
    const over = new AbortController();
    onAbort(signal, () => over.abort());
    const before = this.#looks;
    const own = new Promise<void>((resolve) => onAbort(over.signal, resolve));
    this.#looks = before.then(() => own);
    await orAborted(before, signal);
    return over;
  }

  async *#look(request: WatchRequest, over: AbortController): AsyncGenerator<WatchFrame, void, undefined> {
    try {
      const frames = this.#stream(request, over.signal);
      let next = await frames.next();
      while (next.done !== true) {
        yield next.value;
        next = await told(frames.next());
        // A sign of life, but for the first response, says that there is nothing more.
        if (next.done !== true && next.value.event === undefined) throw allTold();
      }
    } finally {
      over.abort();
    }
  }
}

/** The run is to be looked at again. */
function allTold(): TrunklineError {
  return new TrunklineError("UNAVAILABLE", "all is told", { retryAfterMs: AGAIN_MS });
}

/** What comes next, unless nothing does for a while. */
async function told<T>(next: Promise<T>): Promise<T> {
  const enough = new AbortController();
  const silence = pause(TOLD_MS, enough.signal).then(() => {
    throw allTold();
  });
  // Whichever loses is of no interest any more.
  silence.catch(() => undefined);
  next.catch(() => undefined);
  try {
    return await Promise.race([next, silence]);
  } finally {
    enough.abort();
  }
}

function frameOf(response: WatchRunResponseJson): WatchFrame {
  const { cursor = "", heartbeatInterval } = response;
  const heartbeatMs = heartbeatInterval === undefined ? undefined : readDuration(heartbeatInterval);
  return { cursor, heartbeatMs, event: eventOf(response, cursor) };
}

function eventOf({ call, run }: WatchRunResponseJson, cursor: string): RunEvent | undefined {
  if (call !== undefined) return { type: "call", call: readCall(call), cursor };
  if (run !== undefined) return { type: "run", run: readRun(run), cursor };
  return undefined;
}
