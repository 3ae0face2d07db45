import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { cleanEnvironment } from "../../support/child-process.js";
import { folderOf } from "../support/example-workers.js";
import { reasonIn, type End, type ForeignClient } from "./client.js";

const HARNESS = fileURLToPath(new URL("./harness.py", import.meta.url));
const PYTHON = `${folderOf("python")}/.venv/bin/python`;

/** As `harness.py` writes it. */
interface RawEnd {
  readonly code: string;
  readonly message: string;
  readonly details: string;
}

/** grpcio, in a process of its own for each case, with the stubs that the example worker in Python has generated. */
export function grpcioClient(address: string): ForeignClient {
  const run = async <T>(name: string, told: unknown): Promise<T> => {
    const env = cleanEnvironment({ PYTHONPATH: folderOf("python"), PYTHONDONTWRITEBYTECODE: "1" });
    const running = promisify(execFile)(PYTHON, [HARNESS, address, name], {
      env,
      maxBuffer: 64 * 1024 * 1024,
    });
    running.child.stdin?.end(JSON.stringify(told));
    // What it prints has the shape that its caller awaits, but for the ends.
    return JSON.parse((await running).stdout) as T;
  };
  const streamed = async <T>(name: string, told: unknown): Promise<T & { readonly end: End }> => {
    const came = await run<T & { readonly end: RawEnd }>(name, told);
    return { ...came, end: readable(came.end) };
  };
  const ends = async (name: string, told: unknown): Promise<End[]> =>
    (await run<RawEnd[]>(name, told)).map(readable);
  return {
    tokens: (tokens) => ends("tokens", tokens),
    drive: (asked) => streamed("drive", asked),
    frame: (asked) => streamed("frame", asked),
    work: (told) => streamed("work", told),
    pages: (told) => run("pages", told),
    deep: (asked) => run("deep", asked),
    groups: (depth) => ends("groups", { depth }),
  };
}

function readable({ code, message, details }: RawEnd): End {
  return { code, message, reason: reasonIn(Buffer.from(details, "base64")) };
}
