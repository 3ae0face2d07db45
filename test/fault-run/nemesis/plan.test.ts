import { describe, expect, test } from "vitest";
import { Random } from "../random.mjs";
import { KINDS, makePlan } from "./plan.mjs";

const TOPOLOGY = {
  nodes: ["node-1", "node-2", "node-3"],
  workers: ["worker-1", "worker-2"],
  harnesses: ["harness-1"],
  answerers: ["answerer-1"],
  ownPostgres: true,
  faketime: true,
};
const MINUTE = { durationMs: 90_000, only: null };

const planOf = (seed: string, options: Parameters<typeof makePlan>[2] = MINUTE, topology = TOPOLOGY) =>
  makePlan(new Random(seed), topology, options);

describe("a plan of faults", () => {
  test("is the same for the same seed, and another for another", () => {
    expect(planOf("a")).toEqual(planOf("a"));
    expect(planOf("a")).not.toEqual(planOf("b"));
  });

  test("has every kind once before any comes again, one every 1 to 3 seconds", () => {
    const plan = planOf("a");
    const kinds = Object.keys(KINDS);
    expect(new Set(plan.slice(0, kinds.length).map(({ kind }) => kind))).toEqual(new Set(kinds));
    for (const [index, { atMs }] of plan.slice(1).entries()) {
      const apartMs = atMs - (plan[index]?.atMs ?? 0);
      expect(apartMs).toBeGreaterThanOrEqual(1_000);
      expect(apartMs).toBeLessThanOrEqual(3_000);
    }
  });

  test("leaves out what cannot be done here: another's PostgreSQL, clocks without libfaketime", () => {
    const plan = planOf("a", MINUTE, { ...TOPOLOGY, ownPostgres: false, faketime: false });
    const kinds = new Set(plan.map(({ kind }) => kind));
    for (const kind of ["restart-postgres-fast", "kill-postgres", "pause-postgres", "shift-clock"]) {
      expect(kinds).not.toContain(kind);
    }
    expect(kinds).toContain("kill-backends");
  });

  test("has only the kinds that were asked for, or none", () => {
    const plan = planOf("a", { ...MINUTE, only: ["kill-node"] });
    expect(new Set(plan.map(({ kind }) => kind))).toEqual(new Set(["kill-node"]));
    expect(planOf("a", { ...MINUTE, only: [] })).toEqual([]);
  });
});
