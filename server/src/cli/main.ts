import { loggedText } from "../core/logged-error.js";
import { diagnose, usageDiagnosis, type Diagnosis } from "./diagnosis.js";

import { Output } from "./output.js";
import { makeProgram, ParseEnd } from "./program.js";

/**
 * Runs the command line and ends the process: status 0 when it was done, 1 when it failed, 2 when it was
 * called wrongly.
 *
 * @param args without Node and the script
 */
export async function main(args: readonly string[] = process.argv.slice(2)): Promise<never> {
  for (const stream of [process.stdout, process.stderr]) stream.on("error", endUnlessPipeBroke);
  const status = await run(args);
  await Promise.all([drained(process.stdout), drained(process.stderr)]);
  return process.exit(status);
}

async function run(args: readonly string[]): Promise<number> {
  try {
    await makeProgram().parseAsync(args, { from: "user" });
    return Number(process.exitCode ?? 0);
  } catch (error) {
    const diagnosis = error instanceof ParseEnd ? parseDiagnosis(error) : diagnose(error);
    if (diagnosis === undefined) return 0;
    const { status, text, document } = diagnosis;
    const output = new Output(args.includes("--json"));
    if (output.json) output.errorDocument(document);
    else if (text !== "") output.error(text);
    if ((process.env["TRUNKLINE_DEBUG"] ?? "") !== "") console.error(loggedText(error));
    return status;
  }
}

/** Undefined: what was asked for, such as help, was shown. */
function parseDiagnosis({ end, command }: ParseEnd): Diagnosis | undefined {
  if (end.exitCode === 0) return undefined;
  // A command that only groups others has shown its help instead of an error.
  if (end.code === "commander.help") return { ...usageDiagnosis("a command is missing", command), text: "" };
  return usageDiagnosis(end.message, command);
}

/** A reader that has seen enough, such as `head`, is no error. */
function endUnlessPipeBroke(error: NodeJS.ErrnoException): void {
  if (error.code !== "EPIPE") process.exit(1);
}

/** Resolves when what was written has been handed to the system. */
function drained(stream: NodeJS.WriteStream): Promise<void> {
  return new Promise((resolve) => {
    stream.write("", () => resolve());
  });
}
