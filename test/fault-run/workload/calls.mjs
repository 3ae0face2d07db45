import { TrunklineError } from "@trunkline/sdk";
import { sleep } from "./program.mjs";
import { seenOutcome } from "./seen.mjs";
import { sumOf, toolOf } from "./tools.mjs";

/** @typedef {import("../events.mjs").EventOf<"opening">} OpeningEvent */
/** @typedef {Omit<OpeningEvent, "type" | "t" | "p" | "at">} Opening */
/** @typedef {import("../events.mjs").Said} Said */

/** Opens calls and does with them what harnesses do: waits, cancels, settles, opens them again. */
export class Calls {
  #trunkline;
  #history;
  #random;
  /** What is waited for; by run, so that a run can be ended after its last call. @type {Map<string, number>} */
  #byRun = new Map();
  /** @type {Set<string>} */
  #waiting = new Set();
  #count = 0;

  /**
   * @param {object} options
   * @param {import("@trunkline/sdk").Trunkline} options.trunkline
   * @param {import("../history.mjs").History} options.history
   * @param {import("../random.mjs").Random} options.random
   */
  constructor({ trunkline, history, random }) {
    this.#trunkline = trunkline;
    this.#history = history;
    this.#random = random;
  }

  /** How much is waited for. */
  get pending() {
    return this.#waiting.size;
  }

  /** What is waited for. */
  waiting() {
    return [...this.#waiting];
  }

  /**
   * Resolves when nothing of a run is waited for any more.
   *
   * @param {string} run
   */
  async allEnded(run) {
    while ((this.#byRun.get(run) ?? 0) > 0) await sleep(100);
  }

  /**
   * Opens a call and sees it to its end.
   *
   * @param {Opening} opening
   */
  open(opening) {
    this.#history.write({ type: "opening", ...opening });
    this.pursue(opening);
  }

  /**
   * Sees a call to its end that is opened, or may have been opened by an earlier life.
   *
   * @param {Opening} opening
   */
  pursue(opening) {
    void this.#track(opening.run, `call ${opening.run} ${opening.key}`, () => this.#pursue(opening));
  }

  /**
   * Opens the calls of one turn, and waits until it is settled: once from the first open on, once from the
   * last.
   *
   * @param {import("@trunkline/sdk").Turn} turn
   * @param {readonly Opening[]} openings
   */
  openTurn(turn, openings) {
    const { runId, number } = turn;
    void this.#track(runId, `turn ${runId} ${number}`, async () => {
      const opens = openings.map((opening) => {
        this.#history.write({ type: "opening", ...opening });
        return this.#track(runId, `call ${runId} ${opening.key}`, () => this.#openOne(opening, turn));
      });
      const first = await Promise.race(opens);
      const waits = first ? [this.#settled(turn)] : [];
      const opened = await Promise.all(opens);
      if (opened.some(Boolean)) waits.push(this.#settled(turn));
      await Promise.all(waits);
    });
  }

  /** @param {import("@trunkline/sdk").Turn} turn */
  async #settled(turn) {
    const { runId: run, number } = turn;
    const since = this.#history.write({ type: "turn-waiting", run, turn: number });
    try {
      // Of a handle of its own: this one would wait for its own opens first.
      const outcomes = await this.#trunkline.runs.open(run).turn(number).settled();
      const seen = outcomes.map(seenOutcome);
      this.#history.write({ type: "turn-settled", run, turn: number, since, outcomes: seen });
    } catch (error) {
      this.#refused("settled", `turn ${run} ${number}`, error);
    }
  }

  /**
   * Resolves at the call's acknowledgement, and goes on to its end.
   *
   * @param {Opening} opening
   * @param {import("@trunkline/sdk").Turn} [turn]
   * @returns {Promise<boolean>} Whether it was opened.
   */
  async #openOne(opening, turn) {
    const handle = await this.#send(opening, turn);
    if (handle === undefined) return false;
    this.#follow(opening, handle);
    void this.#track(opening.run, `outcome ${handle.id}`, () => this.#see(handle));
    return true;
  }

  /** @param {Opening} opening */
  async #pursue(opening) {
    const handle = await this.#send(opening);
    if (handle === undefined) return;
    this.#follow(opening, handle);
    await this.#see(handle);
  }

  /**
   * @param {Opening} opening
   * @param {import("@trunkline/sdk").Turn} [within]
   */
  async #send({ run, key, tool, turn, inputJson }, within) {
    const input = JSON.parse(inputJson);
    const options = { key, policy: toolOf(tool).policy };
    try {
      const handle =
        within === undefined
          ? await this.#trunkline.runs.open(run).open(tool, input, {
              ...options,
              ...(turn !== null && { turn }),
            })
          : await within.open(tool, input, options);
      this.#history.write({ type: "opened", run, key, id: handle.id });
      return handle;
    } catch (error) {
      this.#refused("open", `${run} ${key}`, error);
      return undefined;
    }
  }

  /** @param {import("@trunkline/sdk").CallHandle} handle */
  async #see(handle) {
    try {
      this.#history.write({ type: "outcome", ...seenOutcome(await handle.outcome()) });
    } catch (error) {
      this.#refused("outcome", handle.id, error);
    }
  }

  /**
   * @param {Opening} opening
   * @param {import("@trunkline/sdk").CallHandle} handle
   */
  #follow(opening, handle) {
    const { run, inputJson, client } = opening;
    /** @type {import("./tools.mjs").Input} */
    const plan = JSON.parse(inputJson);
    const lengthy = plan.ms > 20 || plan.answer !== undefined;
    if (this.#random.chance(lengthy ? 0.06 : 0.005)) {
      void this.#track(run, `cancel ${handle.id}`, () => this.#cancel(handle));
    }
    if (this.#random.chance(0.02)) {
      void this.#track(run, `reopen ${handle.id}`, async () => {
        await sleep(this.#random.int(0, 1_500));
        const again = await this.#send(opening);
        if (again !== undefined) await this.#see(again);
      });
    }
    if (client && plan.answer !== undefined) {
      const { answer } = plan;
      const sides = answer.contested ? ["a", "b"] : ["a"];
      for (const side of sides) {
        void this.#track(run, `settle ${handle.id} ${side}`, () =>
          this.#settle(handle.id, side, answer, inputJson),
        );
      }
    } else if (this.#random.chance(plan.ms > 20 ? 0.03 : 0.002)) {
      const answer = { delayMs: plan.ms, how: /** @type {const} */ ("settle"), retries: 0 };
      void this.#track(run, `settle ${handle.id}`, () =>
        this.#settle(handle.id, "from outside", answer, inputJson),
      );
    }
  }

  /** @param {import("@trunkline/sdk").CallHandle} handle */
  async #cancel(handle) {
    await sleep(this.#random.int(0, 600));
    this.#history.write({ type: "canceling", id: handle.id });
    try {
      this.#history.write({ type: "canceled", id: handle.id, state: await handle.cancel() });
    } catch (error) {
      this.#refused("cancel", handle.id, error);
    }
  }

  /**
   * @param {string} id
   * @param {string} side
   * @param {Pick<import("./tools.mjs").AnswerPlan, "delayMs" | "retries">} answer
   * @param {string} inputJson
   */
  async #settle(id, side, { delayMs, retries }, inputJson) {
    for (let round = 1; round <= retries + 1; round++) {
      await sleep(delayMs);
      const by = `round ${round} of side ${side}, process ${process.pid}`;
      /** @type {Said} */
      const said =
        round <= retries
          ? { failure: { kind: "tool", message: `again: ${by}`, retryable: true } }
          : { resultJson: JSON.stringify({ sum: sumOf(inputJson), by }) };
      if (!(await this.#settleOnce(id, said))) return;
    }
  }

  /**
   * @param {string} id
   * @param {Said} said
   */
  async #settleOnce(id, said) {
    this.#history.write({ type: "answering", id, by: "id", said });
    const { failure } = said;
    try {
      const state = await this.#trunkline.calls.settle(
        id,
        failure === undefined
          ? { type: "tool.result", result: JSON.parse(said.resultJson) }
          : { type: "tool.error", error: failure.message, retryable: failure.retryable },
      );
      this.#history.write({ type: "answered", id, by: "id", said, state });
      return true;
    } catch (error) {
      this.#refused("answer", id, error);
      // Another attempt has begun meanwhile: that one still wants an answer.
      return error instanceof TrunklineError && error.reason === "STALE_ATTEMPT";
    }
  }

  /**
   * @template T
   * @param {string} run
   * @param {string} what
   * @param {() => Promise<T>} work
   * @returns {Promise<T>}
   */
  async #track(run, what, work) {
    const entry = `${what} (${++this.#count})`;
    this.#waiting.add(entry);
    this.#byRun.set(run, (this.#byRun.get(run) ?? 0) + 1);
    try {
      return await work();
    } finally {
      this.#waiting.delete(entry);
      const left = (this.#byRun.get(run) ?? 1) - 1;
      if (left === 0) this.#byRun.delete(run);
      else this.#byRun.set(run, left);
    }
  }

  /**
   * @param {string} what
   * @param {string} subject
   * @param {unknown} error
   */
  #refused(what, subject, error) {
    const reason = error instanceof TrunklineError ? error.reason : "EXCEPTION";
    this.#history.write({ type: "refused", what, subject, reason, message: String(error) });
  }
}
