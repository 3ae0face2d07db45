import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Trunkline } from "@trunkline/sdk";
import { expect, onTestFinished, test } from "vitest";
import { until } from "../../support/until.js";
import { History, readHistories } from "../history.mjs";
import { Random } from "../random.mjs";
import { freePort } from "../stage/postgres.mjs";
import { Calls } from "./calls.mjs";
import { RunMaker } from "./runs.mjs";

test("a harness of a fault run is not done while one of its runs is being made", async () => {
  const folder = mkdtempSync(join(tmpdir(), "trunkline-runs-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const history = new History(folder, "harness", 1);
  const random = new Random("runs");
  // Nobody listens there.
  const url = `http://127.0.0.1:${await freePort()}`;
  const trunkline = new Trunkline({ url, retryFor: "10m", onWarning: () => undefined });
  const calls = new Calls({ trunkline, history, random });
  const runs = new RunMaker({ trunkline, history, random, name: "harness-1", calls });
  expect(runs.pending).toBe(0);
  expect(runs.current()).toBeUndefined();
  expect(runs.pending).toBe(2);
  expect(runs.waiting()).toEqual(["the making of run harness-1-run-1", "the making of run harness-1-run-2"]);
  await trunkline.close();
  await until("the making is given up", () => runs.pending === 0);
  history.close();
  expect(readHistories(folder).filter(({ type }) => type === "refused")).toHaveLength(2);
});
