import { KeyScope as WireScope } from "@trunkline/proto/admin";
import { oneOf, refuseArgument } from "./argument.js";
import { typeOf } from "./text.js";

/**
 * What an API key may do. `worker`: claim and answer calls. `harness`: make runs, open and settle calls, declare
 * toolsets. `admin`: make and revoke keys and tokens.
 */
export type KeyScope = "worker" | "harness" | "admin";

/** What an end user's token may do, among that user's calls alone. */
export type TokenScope = Exclude<KeyScope, "admin">;

/** The scopes of tokens, as the wire has them. */
export const TOKEN_SCOPES: Readonly<Record<TokenScope, WireScope>> = {
  worker: WireScope.WORKER,
  harness: WireScope.HARNESS,
};

/** The scopes of keys, as the wire has them. */
export const KEY_SCOPES: Readonly<Record<KeyScope, WireScope>> = {
  ...TOKEN_SCOPES,
  admin: WireScope.ADMIN,
};

/**
 * Scopes as the wire has them.
 *
 * @throws TrunklineError INVALID_FIELD for none, for one that is not in the table, and for one that is there twice
 */
export function scopesToWire<Scope extends KeyScope>(
  table: Readonly<Record<Scope, WireScope>>,
  scopes: readonly Scope[],
): WireScope[] {
  const given: unknown = scopes;
  const allowed = `allowed are ${Object.keys(table).join(", ")}`;
  if (!Array.isArray(given)) throw refuseArgument("scopes", `${typeOf(given)} is not a list`, allowed);
  if (given.length === 0) throw refuseArgument("scopes", "there is none", allowed);
  const wire = scopes.map((scope) => oneOf(table, scope, "scopes"));
  const twice = scopes.find((scope, index) => scopes.indexOf(scope) < index);
  if (twice === undefined) return wire;
  throw refuseArgument("scopes", `${JSON.stringify(twice)} is there twice`, `${allowed}, each once`);
}

/** Scopes as the server tells them; those that this SDK does not know are left out. */
export function scopesFromWire(wire: readonly WireScope[]): KeyScope[] {
  return (["worker", "harness", "admin"] as const).filter((scope) => wire.includes(KEY_SCOPES[scope]));
}
