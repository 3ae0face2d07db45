import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { SCENARIOS } from "../../server/src/conformance/catalog.js";
import type { ScenarioResult } from "../../server/src/conformance/conformance.js";
import { failures } from "./broken/failures.js";
import { MISTAKES, type Mistake } from "./broken/mistakes.mjs";

const NAMES = Object.keys(MISTAKES) as Mistake[];
/** How many mistakes are tried at once; they mostly wait. */
const AT_ONCE = 10;

describe("a worker with a mistake", { timeout: 60_000 }, () => {
  const caught = new Map<Mistake, Promise<ScenarioResult[]>>();
  const stop = new AbortController();

  beforeAll(() => {
    const left = [...NAMES];
    const settle = new Map<Mistake, (found: Promise<ScenarioResult[]>) => void>();
    for (const name of NAMES) caught.set(name, new Promise((resolve) => settle.set(name, resolve)));
    const work = async (): Promise<void> => {
      for (let name = left.shift(); name !== undefined && !stop.signal.aborted; name = left.shift()) {
        const found = failures(name, [MISTAKES[name].caughtBy[0]]);
        settle.get(name)?.(found);
        await found.catch(() => undefined);
      }
    };
    for (let index = 0; index < AT_ONCE; index++) void work();
  });

  afterAll(() => stop.abort());

  test.each(NAMES)("%s: is caught by the scenario that is about it, for the right reason", async (name) => {
    const { caughtBy, expected } = MISTAKES[name];
    const found = await caught.get(name);
    expect(found?.map(({ number }) => number)).toEqual([caughtBy[0]]);
    const fault = found?.[0]?.fault;
    expect(fault?.expected, JSON.stringify(fault, null, 2)).toContain(expected);
  });

  test("there is one for every scenario", () => {
    const first = new Set<number>(NAMES.map((name) => MISTAKES[name].caughtBy[0]));
    expect([...first].sort((a, b) => a - b)).toEqual(SCENARIOS.map(({ number }) => number));
  });
});
