import { CALL_STATES, type CallState, type KeyScope, type TokenScope } from "@trunkline/sdk";
import { parseWhole } from "../config.js";
import { RIGHTS } from "../core/caller.js";
import { parseDuration } from "../core/duration.js";
import { TrunklineError } from "../core/error.js";
import { quoted } from "../core/json-text.js";

/** Labels as `--label NAME=VALUE` gives them. */
export type Labels = Readonly<Record<string, string>>;

/** Reads one more `--label NAME=VALUE`. The value may be empty, and may have an `=` in it. */
export function addLabel(text: string, before: Labels = {}): Labels {
  const [, name, value] = /^([^=]+)=(.*)$/s.exec(text) ?? [];
  if (name === undefined || value === undefined) {
    throw refuse("--label", text, "NAME=VALUE, such as tenant=acme");
  }
  return { ...before, [name]: value };
}

/** Reads one more `--state STATE`. */
export function addState(text: string, before: readonly CallState[] = []): readonly CallState[] {
  const state = CALL_STATES.find((name) => name === text);
  if (state === undefined) throw refuse("--state", text, CALL_STATES.join(", "));
  return [...before, state];
}

/** Makes a reader of one more `--scope SCOPE`, each of which is given once. */
export function addScope<Scope extends KeyScope>(
  allowed: readonly Scope[],
): (text: string, before?: readonly Scope[]) => readonly Scope[] {
  return (text, before = []) => {
    const scope = allowed.find((name) => name === text);
    if (scope === undefined) throw refuse("--scope", text, allowed.join(", "));
    if (before.includes(scope)) throw refuse("--scope", text, "each scope once");
    return [...before, scope];
  };
}

/** What an API key may do. */
export const KEY_SCOPES: readonly KeyScope[] = RIGHTS;

/** What an end user's token may do. */
export const TOKEN_SCOPES: readonly TokenScope[] = ["worker", "harness"];

/** How `--project` is described in help. */
export const PROJECT_HELP = "another project than the key's own; with the root key only";

/** Makes a reader of texts: an empty one is a shell's variable that was never set, and would mean something else. */
export function filledText(flag: string): (text: string) => string {
  return (text) => {
    if (text === "") throw refuse(flag, text, "a text that is not empty");
    return text;
  };
}

/** Makes a reader of durations that keeps them as they were typed, for the SDK. */
export function durationText(flag: string): (text: string) => string {
  return (text) => {
    parseDuration(text, flag);
    return text;
  };
}

/** Makes a reader of whole numbers. */
export function wholeNumber(flag: string, min: number, max: number): (text: string) => number {
  return (text) => parseWhole(text, flag, min, max);
}

/** The error of a value that a flag or an argument does not take. */
export function refuse(field: string, value: string, allowed: string): TrunklineError {
  return new TrunklineError("INVALID_FIELD", `${field}: ${quoted(value)}; allowed: ${allowed}`, {
    metadata: { field },
  });
}
