// Trunkline's server as a process of its own.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { end, nodeOptions } from "./child.mjs";

const BIN = fileURLToPath(new URL("../../server/bin/trunkline.js", import.meta.url));

const PAUSE_WATCH = new URL("../programs/pause-watch.mjs", import.meta.url).href;
const MEMORY_WATCH = new URL("../programs/memory-watch.mjs", import.meta.url).href;

/**
 * `trunkline serve` on a free port.
 *
 * @param {string} databaseUrl
 * @param {{ watched?: boolean, settles?: boolean, rootKey?: string }} [options] `watched`: its pauses can be asked for,
 *   which costs it a little; `settles`: its memory without garbage can; `rootKey`: it asks callers who they are.
 */
export async function startServer(databaseUrl, { watched = false, settles = false, rootKey } = {}) {
  const watches = [...(watched ? [PAUSE_WATCH] : []), ...(settles ? [MEMORY_WATCH] : [])];
  const watch = watches.flatMap((file) => ["--import", file]);
  const child = spawn(
    process.execPath,
    [
      ...nodeOptions(),
      ...watch,
      BIN,
      "serve",
      ...(rootKey === undefined ? ["--insecure"] : []),
      ...["--port", "0", "--log-level", "error"],
    ],
    {
      env: { ...process.env, DATABASE_URL: databaseUrl, TRUNKLINE_ROOT_KEY: rootKey ?? "" },
      stdio: ["ignore", "pipe", "inherit", ...(watches.length > 0 ? [/** @type {const} */ ("ipc")] : [])],
    },
  );
  const lines = createInterface({ input: child.stdout });
  const [line] = await Promise.race([
    once(lines, "line"),
    once(child, "exit").then(() => {
      throw new Error("the server ended before it was ready");
    }),
  ]);
  return {
    url: line.replace(/^ready /, ""),
    pid: child.pid,
    /** The longest pause of its event loop, in milliseconds, since this was asked last. */
    longestPauseMs: async () => {
      child.send("pause?");
      const [{ longestMs }] = await once(child, "message");
      return longestMs;
    },
    /** Its bytes in memory after it was made to collect its garbage. */
    settledMemory: async () => {
      child.send("memory?");
      const [{ bytes }] = await once(child, "message");
      return bytes;
    },
    stop: () => end(child),
  };
}
