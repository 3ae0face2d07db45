import { TrunklineError as SdkError } from "@trunkline/sdk";
import { TrunklineError } from "../core/error.js";
import { loggedError } from "../core/logged-error.js";
import type { Json } from "./json-document.js";

/** What an error comes to: the status of the process, a line for people and a document for machines. */
export interface Diagnosis {
  /** 1: it failed; 2: it was called wrongly. */
  readonly status: 1 | 2;
  readonly text: string;
  readonly document: Json;
}

/** Reasons that mean, before anything was sent, that the command was called wrongly. */
const USAGE: readonly string[] = ["INVALID_FIELD", "INVALID_JSON", "LIMIT_EXCEEDED"];

/** Sorts out an error. What a server refused is a failure, even where the caller is at fault. */
export function diagnose(error: unknown): Diagnosis {
  if (error instanceof TrunklineError || error instanceof SdkError) {
    const { reason, message, metadata } = error;
    const local = error instanceof TrunklineError || error.code === undefined;
    return {
      status: local && USAGE.includes(reason) ? 2 : 1,
      text: message,
      document: { reason, message, metadata },
    };
  }
  const logged = loggedError(error);
  const message = `${logged.type}: ${logged.message}`;
  const text = `${message} (a fault of trunkline itself; TRUNKLINE_DEBUG=1 shows where)`;
  return { status: 1, text, document: { reason: "INTERNAL", message, metadata: {} } };
}

/** The diagnosis of a command line that cannot be read; `command` is what to ask for help about. */
export function usageDiagnosis(message: string, command: string): Diagnosis {
  // The parser puts its suggestion on a line of its own.
  const said = message.replace(/^error: /, "").replaceAll("\n", " ");
  return {
    status: 2,
    text: `${said}; see \`${command} --help\``,
    document: { reason: "INVALID_FIELD", message: said, metadata: {} },
  };
}
