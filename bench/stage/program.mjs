// Programs of `programs/`, each in a process of its own, that answer every message with one.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { end, nodeOptions } from "./child.mjs";

/**
 * Starts a program; resolves when it is ready.
 *
 * @param {string} name Of a file in `programs/`.
 * @param {{ key?: string, [name: string]: any }} config What it finds as `config` of `programs/answering.mjs`; with
 *   `key` the SDK in it shows that.
 */
export async function startProgram(name, { key, ...config }) {
  const file = fileURLToPath(new URL(`../programs/${name}.mjs`, import.meta.url));
  const child = spawn(process.execPath, [...nodeOptions(), file], {
    env: { ...process.env, BENCH_CONFIG: JSON.stringify(config), TRUNKLINE_KEY: key ?? "" },
    stdio: ["ignore", "inherit", "inherit", "ipc"],
  });
  const ended = once(child, "exit").then(([code]) => {
    throw new Error(`the program ${name} ended with ${code}`);
  });
  // Only whoever waits for an answer has to hear of it.
  ended.catch(() => undefined);
  const message = async () => {
    const listening = new AbortController();
    try {
      const [answer] = await Promise.race([once(child, "message", { signal: listening.signal }), ended]);
      return answer;
    } finally {
      listening.abort();
    }
  };
  const ready = await message();
  return {
    pid: child.pid,
    /** What the program said when it was ready. */
    ready,
    /**
     * Has the program do a job; resolves with its answer.
     *
     * @param {string} job
     * @param {object} [options]
     */
    ask: (job, options = {}) => {
      child.send({ job, ...options });
      return message();
    },
    stop: () => end(child),
  };
}
