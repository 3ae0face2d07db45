import { parseArgs } from "node:util";

/** How the demo is called. */
export const USAGE = `usage: npm run demo -- [--workers LANGUAGE[,LANGUAGE]]

  --workers    in which languages the shop's two workers are: node, python, go (default: node)
  --help       this text`;

/** The demo was called wrongly. */
export class UsageError extends Error {
  /** @override */
  name = "UsageError";
}

/**
 * Reads what the demo was called with.
 *
 * @param {readonly string[]} args
 * @returns {{ help: boolean, workers: string | undefined }}
 * @throws {UsageError}
 */
export function readOptions(args) {
  const { values, positionals } = parse(args);
  const [stray] = positionals;
  if (stray !== undefined) {
    // npm keeps options for itself that come before `--`, and hands on their values.
    throw new UsageError(`unexpected ${JSON.stringify(stray)}; options come after --, as in the usage`);
  }
  return { help: values.help ?? false, workers: values.workers?.join(",") };
}

/** @param {readonly string[]} args */
function parse(args) {
  try {
    return parseArgs({
      args: [...args],
      allowPositionals: true,
      options: { workers: { type: "string", multiple: true }, help: { type: "boolean" } },
    });
  } catch (error) {
    throw error instanceof TypeError ? new UsageError(error.message) : error;
  }
}
