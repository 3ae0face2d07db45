import { toJsonString } from "@bufbuild/protobuf";
import { Code, ConnectError, type Client } from "@connectrpc/connect";
import { CallSchema, CallState, type Call } from "@trunkline/proto/model";
import { ProblemSchema, Reason } from "@trunkline/proto/problem";
import type { Run, RunService, WatchRunResponse } from "@trunkline/proto/run";
import { within } from "../support/until.js";

/** One `WatchRun` stream, read to its end unless it is paused. */
export class WatchClient {
  readonly responses: WatchRunResponse[] = [];
  /** The calls as they were told last. */
  readonly calls = new Map<string, Call>();
  /** The states of each call, in the order of being told. */
  readonly states = new Map<string, string[]>();
  /** Calls that were told twice in the same state. */
  readonly repeats: string[] = [];
  run: Run | undefined;
  /** How it ended: `ok`, or its error's reason, or its code where it has no reason. */
  readonly over: Promise<string>;
  ended: string | undefined;
  readonly #abort = new AbortController();
  readonly #texts = new Map<string, string>();
  readonly #looks = new Set<() => void>();

  constructor(runs: Client<typeof RunService>, runId: string, cursor = "") {
    this.over = this.#read(runs.watchRun({ runId, cursor }, { signal: this.#abort.signal }));
  }

  /** Of the last response. */
  get cursor(): string {
    return this.responses.at(-1)?.cursor ?? "";
  }

  /** Goes away. */
  async cut(): Promise<void> {
    this.#abort.abort();
    await this.over;
  }

  /** Resolves when a look sees something; fails when the stream ends first. */
  when(what: string, look: () => unknown): Promise<void> {
    const seen = new Promise<void>((resolve, reject) => {
      const again = (): void => {
        if (Boolean(look())) resolve();
        else if (this.ended !== undefined)
          reject(new Error(`the stream ended (${this.ended}) before: ${what}`));
        else return;
        this.#looks.delete(again);
      };
      this.#looks.add(again);
      again();
    });
    return within(what, seen);
  }

  /** Resolves when the call is told in this state. */
  whenIn(callId: string, state: string): Promise<void> {
    return this.when(`call ${callId} is ${state}`, () => this.states.get(callId)?.includes(state));
  }

  end(): Promise<string> {
    return within("the end of the stream", this.over);
  }

  async #read(responses: AsyncIterable<WatchRunResponse>): Promise<string> {
    let end = "ok";
    try {
      for await (const response of responses) {
        this.#heard(response);
        for (const look of [...this.#looks]) look();
      }
    } catch (error) {
      end = endOf(ConnectError.from(error));
    }
    this.ended = end;
    for (const look of [...this.#looks]) look();
    return end;
  }

  #heard(response: WatchRunResponse): void {
    this.responses.push(response);
    this.run = response.run ?? this.run;
    const { call } = response;
    if (call === undefined) return;
    const text = toJsonString(CallSchema, call);
    if (this.#texts.get(call.id) === text) this.repeats.push(call.id);
    this.#texts.set(call.id, text);
    this.calls.set(call.id, call);
    this.states.set(call.id, [...(this.states.get(call.id) ?? []), CallState[call.state].toLowerCase()]);
  }
}

function endOf(error: ConnectError): string {
  const [problem] = error.findDetails(ProblemSchema);
  return problem === undefined ? Code[error.code] : Reason[problem.reason];
}
