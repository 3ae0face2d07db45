import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { EmbeddedPostgresOptions } from "../../server/src/embedded/embedded-postgres.js";

/** A process of its own that has started an embedded PostgreSQL, or found one. */
export interface StarterProcess {
  readonly url: string;
  readonly pid: number;
  readonly reused: boolean;
  /** Calls `stop()` there and waits until the process has ended. */
  stop(): Promise<void>;
  /** Kills the process (SIGKILL), which leaves its PostgreSQL behind, and waits until it is gone. */
  kill(): Promise<void>;
}

/** The build, because Node cannot run the sources; `npm test` renews it first. */
const MODULE = new URL("../../server/dist/embedded/embedded-postgres.js", import.meta.url).href;
const PROGRAM = `
  const { startEmbeddedPostgres } = await import(process.argv[1]);
  const postgres = await startEmbeddedPostgres(JSON.parse(process.argv[2]));
  const { url, pid, reused } = postgres;
  console.log(JSON.stringify({ url, pid, reused }));
  process.stdin.resume().once("end", () => postgres.stop());`;

/** Starts an embedded PostgreSQL from another process, under another account if `account` says so. */
export async function startInProcess(
  options: Pick<EmbeddedPostgresOptions, "dataDir" | "durable">,
  account: { readonly uid?: number; readonly gid?: number } = {},
): Promise<StarterProcess> {
  const child = spawn(
    process.execPath,
    ["--input-type=module", "--eval", PROGRAM, MODULE, JSON.stringify(options)],
    { ...account, cwd: fileURLToPath(new URL("../..", import.meta.url)), stdio: ["pipe", "pipe", "inherit"] },
  );
  const line = await firstLine(child);
  const found = JSON.parse(line) as Pick<StarterProcess, "url" | "pid" | "reused">;
  return {
    ...found,
    stop: async () => {
      child.stdin.end();
      await once(child, "exit");
    },
    kill: async () => {
      child.kill("SIGKILL");
      await once(child, "exit");
    },
  };
}

async function firstLine(child: ChildProcess): Promise<string> {
  if (child.stdout === null) throw new Error("the starter has no standard output");
  for await (const line of createInterface({ input: child.stdout })) return line;
  throw new Error("the starter ended before PostgreSQL was ready; its message is above");
}
