import { afterEach, expect, test, vi } from "vitest";
import { choosePeers } from "../../bench/peers.mjs";
import { Report } from "../../bench/report.mjs";
import { settingsOf, type Subject } from "../../bench/subjects/subject.mjs";

afterEach(() => {
  vi.unstubAllEnvs();
  vi.restoreAllMocks();
});

test("peers on Redis are left out, and named, where there is no redis-server", () => {
  vi.stubEnv("PATH", "/nowhere");
  const log = vi.spyOn(console, "log").mockImplementation(() => undefined);
  const chosen = choosePeers(["bullmq", "pg-boss"], new Report());
  expect(chosen.map(({ subject }) => subject)).toEqual(["pg-boss"]);
  expect(log.mock.calls.map(([line]) => String(line).split(":")[0])).toEqual([
    "bullmq, fsync always",
    "bullmq, fsync everysec",
  ]);
});

test("a process has its subject's settings for its load, but for those that it was told", () => {
  const settings = (concurrency: number) => ({ concurrency, pool: 20 });
  const subject = {
    settings: { lone: settings(1), awaited: settings(100), unawaited: settings(500), bulk: settings(1_000) },
  } as unknown as Subject;
  expect(settingsOf(subject, { load: "bulk" })).toEqual({ concurrency: 1_000, pool: 20 });
  expect(settingsOf(subject, { concurrency: 7 })).toEqual({ concurrency: 7, pool: 20 });
  expect(settingsOf(subject, { load: "lone", settings: { pool: 5 } })).toEqual({ concurrency: 1, pool: 5 });
});
