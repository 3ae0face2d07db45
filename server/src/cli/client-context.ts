import { Trunkline, TrunklineError as SdkError } from "@trunkline/sdk";
import type { Command } from "commander";
import { TrunklineError } from "../core/error.js";
import { Output } from "./output.js";

/** Flags that every command takes. */
interface GlobalFlags {
  readonly url?: string;
  readonly apiKey?: string;
  readonly json?: boolean;
}

/** What a command that talks to a server is given. */
export interface ClientContext {
  readonly client: Trunkline;
  readonly output: Output;
}

/** How long a request is tried again: long enough for a hiccup, short enough for a person who waits. */
const RETRY_FOR = "1s";

const FAULTS: Readonly<Record<string, string>> = {
  ECONNREFUSED: "connection refused",
  ECONNRESET: "the connection was reset: does it want https://?",
  ENOTFOUND: "no such host",
  EAI_AGAIN: "the host's name could not be looked up",
  ETIMEDOUT: "no answer",
  EHOSTUNREACH: "the host cannot be reached",
  ENETUNREACH: "the network cannot be reached",
};

/** The output of a command, as its `--json` asks. */
export function outputOf(command: Command): Output {
  return new Output(command.optsWithGlobals<GlobalFlags>().json ?? false);
}

/**
 * Refuses the flags of clients on a command that starts a server, where they would mean nothing.
 *
 * @throws TrunklineError INVALID_FIELD
 */
export function refuseClientFlags(command: Command): void {
  const { url, apiKey } = command.optsWithGlobals<GlobalFlags>();
  const flag = url !== undefined ? "--url" : apiKey !== undefined ? "--api-key" : undefined;
  if (flag === undefined) return;
  throw new TrunklineError(
    "INVALID_FIELD",
    `${flag}: is for commands that talk to a server, and ${command.name()} does not`,
    { metadata: { field: flag } },
  );
}

/**
 * Does a command's work with a client of the server that its flags or else the environment name, and
 * closes it.
 *
 * @throws TrunklineError UNAVAILABLE, with what to do, when there is no server
 */
export async function withClient(
  command: Command,
  work: (context: ClientContext) => Promise<void>,
): Promise<void> {
  const { url, apiKey } = command.optsWithGlobals<GlobalFlags>();
  const output = outputOf(command);
  const client = new Trunkline({
    ...(url !== undefined && { url }),
    ...(apiKey !== undefined && { key: apiKey }),
    retryFor: RETRY_FOR,
    onWarning: (message) => output.note(message),
  });
  try {
    await work({ client, output });
  } catch (error) {
    throw explain(error, client.url);
  } finally {
    await client.close();
  }
}

/** Says what to do about errors that have nothing to do with what was asked. */
function explain(error: unknown, url: string): unknown {
  if (!(error instanceof SdkError)) return error;
  if (error.reason === "UNAUTHENTICATED") {
    const message = `${error.message}; give one of the server's keys in TRUNKLINE_KEY`;
    return new TrunklineError("UNAUTHENTICATED", message, { cause: error });
  }
  if (error.reason !== "UNAVAILABLE") return error;
  const fault = faultOf(error);
  if (fault === undefined) return error;
  return new TrunklineError(
    "UNAVAILABLE",
    `no server at ${url} (${fault}); start one with \`trunkline dev\`, or name another in TRUNKLINE_URL or by --url`,
    { cause: error },
  );
}

/** What the operating system said at the bottom of an error; undefined when it said nothing. */
function faultOf(error: unknown): string | undefined {
  for (let at = error; at instanceof Error; at = at.cause) {
    if ("code" in at && typeof at.code === "string" && Object.hasOwn(FAULTS, at.code)) return FAULTS[at.code];
  }
  return undefined;
}
