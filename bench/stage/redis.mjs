// A Redis of its own for a measurement, from the system's packages.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { accessSync, constants } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { createInterface } from "node:readline";
import { end } from "./child.mjs";

/** The path of `redis-server`, or undefined where there is none. */
export function findRedis() {
  const folders = (process.env.PATH ?? "").split(delimiter);
  return folders.map((folder) => join(folder, "redis-server")).find(isExecutable);
}

function isExecutable(file) {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

const PORTS = { first: 20_000, count: 10_000 };

/**
 * A Redis that appends every command to its file, in a temporary folder.
 *
 * @param {"always" | "everysec"} appendfsync When that file is flushed to disk.
 */
export async function startRedis(appendfsync) {
  const folder = await mkdtemp(join(tmpdir(), "trunkline-bench-redis-"));
  const port = PORTS.first + Math.floor(Math.random() * PORTS.count);
  const args = ["--bind", "127.0.0.1", "--port", String(port), "--dir", folder];
  const durable = ["--appendonly", "yes", "--appendfsync", appendfsync, "--save", ""];
  const child = spawn(findRedis(), [...args, ...durable, "--maxmemory-policy", "noeviction"], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const lines = createInterface({ input: child.stdout });
  const ready = new Promise((resolve, reject) => {
    lines.on("line", (line) => line.includes("Ready to accept connections") && resolve(undefined));
    void once(child, "exit").then(() => reject(new Error("redis-server ended before it was ready")));
  });
  await ready;
  const stop = async () => {
    await end(child);
    await rm(folder, { recursive: true, force: true });
  };
  return { url: `redis://127.0.0.1:${port}`, pid: child.pid, stop };
}
