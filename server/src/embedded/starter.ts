import { randomBytes } from "node:crypto";
import { readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { TrunklineError } from "../core/error.js";
import { inspectProcess, isSameProcess } from "./process-info.js";

/** Who is to stop the server of a data folder: one handle of one process, by a file in the folder. */
interface StarterRecord {
  readonly pid: number;
  readonly startedAt: string;
  readonly token: string;
}

/** A mark in the data folder that says who is to stop its server. */
export interface Starter {
  readonly pid: number;
  /** Says two handles of one process apart. */
  readonly token: string;
}

/**
 * The live process that is to stop the server of the folder; undefined when it has died, so that the
 * server is an orphan and whoever finds it may take it over.
 */
export async function findStarter(dataDir: string): Promise<Starter | undefined> {
  const record = await readRecord(dataDir);
  return record !== undefined && (await isSameProcess(record)) ? record : undefined;
}

/** Makes this process the one that is to stop the server; the last to say so is. Returns its token. */
export async function becomeStarter(dataDir: string): Promise<string> {
  const self = await inspectProcess(process.pid);
  if (self === undefined) {
    throw new TrunklineError("INTERNAL", `the system does not list this process (pid ${process.pid})`);
  }
  const token = randomBytes(12).toString("hex");
  const record: StarterRecord = { pid: self.pid, startedAt: self.startedAt, token };
  // A new file put in place by rename is never read half written, and never follows a planted link.
  const fresh = `${recordPath(dataDir)}.${token}`;
  await writeFile(fresh, JSON.stringify(record), { flag: "wx", mode: 0o600 });
  await rename(fresh, recordPath(dataDir));
  return token;
}

/** Takes the mark away, after the server was stopped. */
export async function forgetStarter(dataDir: string): Promise<void> {
  await rm(recordPath(dataDir), { force: true });
}

function recordPath(dataDir: string): string {
  return join(dataDir, "trunkline-starter.json");
}

async function readRecord(dataDir: string): Promise<StarterRecord | undefined> {
  try {
    const value: unknown = JSON.parse(await readFile(recordPath(dataDir), "utf8"));
    return isRecord(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function isRecord(value: unknown): value is StarterRecord {
  if (typeof value !== "object" || value === null) return false;
  const fields = value as Readonly<Record<string, unknown>>; // any object may be looked at by name
  return (
    typeof fields["pid"] === "number" &&
    typeof fields["startedAt"] === "string" &&
    typeof fields["token"] === "string"
  );
}
