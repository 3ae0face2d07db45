import { abortReason } from "../abort.js";
import type { Call } from "../call.js";
import { watchRun, type WatchPort } from "../watch.js";
import { readCall } from "./call-json.js";
import type { Pace } from "./pace.js";
import type { Requests } from "./requests.js";

/** Which calls are wanted. */
export interface Wanted {
  /** Empty: of every run of the token's end user. */
  readonly run: string;
  readonly signal: AbortSignal | undefined;
}

const PAGE = 100;

/** The calls that wait for a page, as they stand. */
export class OpenCalls implements AsyncIterable<readonly Call[]> {
  readonly #requests: Requests;
  readonly #pace: Pace;
  readonly #watch: WatchPort | undefined;
  readonly #wanted: Wanted;

  /** @param watch given where changes of the wanted run come by a stream */
  constructor(requests: Requests, pace: Pace, watch: WatchPort | undefined, wanted: Wanted) {
    this.#requests = requests;
    this.#pace = pace;
    this.#watch = watch;
    this.#wanted = wanted;
  }

  [Symbol.asyncIterator](): AsyncIterator<readonly Call[], void, undefined> {
    return this.#watch === undefined ? this.#polled() : this.#streamed(this.#watch);
  }

  async *#polled(): AsyncGenerator<readonly Call[], void, undefined> {
    const { run, signal } = this.#wanted;
    let shown: string | undefined;
    for (;;) {
      const { news } = this.#pace;
      const calls = await this.#list();
      const names = namesOf(calls);
      if (names !== shown) {
        shown = names;
        yield calls;
      }
      if (run !== "" && calls.length === 0 && (await this.#hasEnded())) return;
      await this.#pace.rest(news, signal);
    }
  }

  /** Ends when the run has ended, and then there are none. */
  async *#streamed(watch: WatchPort): AsyncGenerator<readonly Call[], void, undefined> {
    const { run, signal } = this.#wanted;
    const open = new Map((await this.#list()).map((call) => [call.id, call]));
    let shown = namesOf([...open.values()]);
    yield [...open.values()];
    for await (const event of watchRun(watch, run, signal === undefined ? {} : { signal })) {
      if (event.type !== "call") continue;
      const { call } = event;
      if (isOpen(call)) open.set(call.id, call);
      else open.delete(call.id);
      const calls = [...open.values()].sort(byAge);
      const names = namesOf(calls);
      if (names === shown) continue;
      shown = names;
      yield calls;
    }
  }

  async #hasEnded(): Promise<boolean> {
    const { run, signal } = this.#wanted;
    const answer = await this.#requests.send(
      (rpc) => rpc.unary("RunService/GetRun", { runId: run }, signal),
      { signal, retryForMs: Infinity },
    );
    return answer.run?.state === "RUN_STATE_ENDED";
  }

  /** The oldest first. */
  async #list(): Promise<Call[]> {
    const { run, signal } = this.#wanted;
    const calls: Call[] = [];
    let pageToken = "";
    do {
      const request = {
        runId: run,
        states: ["CALL_STATE_DEFERRED" as const],
        payloads: true,
        pageSize: PAGE,
        pageToken,
      };
      const answer = await this.#requests.send((rpc) => rpc.unary("CallService/ListCalls", request, signal), {
        signal,
        retryForMs: Infinity,
      });
      calls.push(...(answer.calls ?? []).map(readCall).filter(isOpen));
      pageToken = answer.nextPageToken ?? "";
      if (signal?.aborted) throw abortReason(signal);
    } while (pageToken !== "");
    return calls.sort(byAge);
  }
}

const isOpen = ({ executor, state }: Call): boolean => executor === "client" && state === "deferred";

/** What is shown of an open call changes with its attempt alone. */
const namesOf = (calls: readonly Call[]): string => calls.map(({ id, attempt }) => `${id}/${attempt}`).join();

function byAge(one: Call, other: Call): number {
  const [older, newer] = [one.openedAt?.getTime() ?? 0, other.openedAt?.getTime() ?? 0];
  if (older !== newer) return older - newer;
  return one.id < other.id ? -1 : 1;
}
