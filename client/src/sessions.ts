import { orAborted } from "./abort.js";
import { declarationsOf, readStarted, SESSION_START, toolsetIdOf, type Agent } from "./agent.js";
import { checkSignal, onlyFields, refuseArgument } from "./argument.js";
import type { Outcome } from "./call.js";
import type { Duration } from "./duration.js";
import { ToolError } from "./errors.js";
import { orderedKeys } from "./ordered-keys.js";
import type { Run } from "./run.js";
import type { Runs } from "./runs.js";
import { wellFormed } from "./text.js";
import type { Toolsets } from "./toolsets.js";

/** What starts a session. */
export interface SessionOptions {
  /** The end user that it acts for. Default `default`. */
  readonly namespace?: string;
  /** Of its run; who decides on the agent sees them as well. */
  readonly labels?: Readonly<Record<string, string>>;
  /** When it has passed, the session's run ends. It bounds the wait for the agent too. Default: no limit. */
  readonly ttl?: Duration;
  /**
   * The caller's own name for the session, unique in its namespace, at most 240 bytes: the same key with the same
   * content is the same session, with the same agent and the same run. Its run has it as its key.
   */
  readonly key?: string;
  /** For whoever decides on the agent: anything that JSON can carry. Default null. */
  readonly input?: unknown;
  /** Aborting it ends the wait for the agent. With a key, starting again goes on with it. */
  readonly signal?: AbortSignal;
}

/** A session that has started. */
export interface Session {
  /** Takes the calls of its agent's tools. */
  readonly run: Run;
  readonly agent: Agent;
}

const OPTIONS: Record<keyof SessionOptions, true> = {
  namespace: true,
  labels: true,
  ttl: true,
  key: true,
  input: true,
  signal: true,
};

/** Leaves room for what the key of the run that asks has before it. */
const MAX_KEY_BYTES = 240;

/** Sessions whose agent a worker decides on: `client.sessions`. */
export class Sessions {
  readonly #newKey = orderedKeys("session");
  readonly #runs: Runs;
  readonly #toolsets: Toolsets;

  /** Use `Trunkline.sessions`. */
  constructor(runs: Runs, toolsets: Toolsets) {
    this.#runs = runs;
    this.#toolsets = toolsets;
  }

  /**
   * Asks a worker for an agent, as long as that takes, and makes a run with the agent's tools. It asks by a call of
   * `session.start`, in a run of its own, which then ends. Under the same key all of that is found again: after a crash
   * at any point, start the session again.
   *
   * @throws ToolError when the worker refused or failed; under the same key it stays so
   * @throws TrunklineError for an answer that is no agent, KEY_REUSED for a key that names a session with other content
   */
  async start(options: SessionOptions = {}): Promise<Session> {
    onlyFields(options, OPTIONS, "options");
    const { input = null, signal, key = this.#newKey(), ...run } = options;
    checkSignal(signal);
    const bytes = Buffer.byteLength(wellFormed(key, "key"));
    if (bytes === 0 || bytes > MAX_KEY_BYTES) {
      throw refuseArgument("key", `${bytes} bytes`, `allowed are 1 to ${MAX_KEY_BYTES}`);
    }
    const asking = await this.#runs.create({ ...run, key: `${SESSION_START}:${key}` });
    const outcome = await ask(asking, input, options);
    // The answer stays readable.
    await asking.end();
    if (outcome.state !== "succeeded") throw new ToolError(outcome.callId, outcome.error);
    const agent = readStarted(outcome.result);
    const declarations = declarationsOf(agent);
    const toolset = toolsetIdOf(declarations);
    await this.#toolsets.put(toolset, declarations);
    return { run: await this.#runs.create({ ...run, key, toolset }), agent };
  }
}

async function ask(run: Run, input: unknown, { key, signal }: SessionOptions): Promise<Outcome> {
  try {
    const call = await orAborted(run.open(SESSION_START, input, { key: SESSION_START }), signal);
    return await call.outcome(signal === undefined ? {} : { signal });
  } catch (error) {
    // Without a key of the caller's, nobody will ask again in this run.
    if (key === undefined) await run.end().catch(() => undefined);
    throw error;
  }
}
