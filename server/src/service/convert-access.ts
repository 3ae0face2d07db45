import { KeyScope, type Key, type Project } from "@trunkline/proto/admin";
import { RIGHTS, type Right } from "../core/caller.js";
import type { KeyRecord } from "../store/access.js";
import type { ProjectRecord } from "../store/projects.js";
import { toTimestamp } from "./convert.js";
import { checkCount, invalidField } from "./door-field.js";

const TO_SCOPE: Readonly<Record<Right, KeyScope>> = {
  worker: KeyScope.WORKER,
  harness: KeyScope.HARNESS,
  admin: KeyScope.ADMIN,
};

/**
 * The rights that a request names, each once.
 *
 * @throws TrunklineError INVALID_FIELD
 */
export function toRights(scopes: readonly KeyScope[], field: string): Right[] {
  checkCount(scopes.length, field, RIGHTS.length);
  const rights = RIGHTS.filter((right) => scopes.includes(TO_SCOPE[right]));
  const unknown = scopes.find((scope) => !RIGHTS.some((right) => TO_SCOPE[right] === scope));
  if (unknown === undefined) return rights;
  throw invalidField(field, unknown, "are KEY_SCOPE_WORKER, KEY_SCOPE_HARNESS and KEY_SCOPE_ADMIN");
}

/** A key as it is shown: without its secret. */
export function toKeyMessage(key: KeyRecord): Key {
  const { id, name, rights, createdAt, lastUsedAt, revokedAt } = key;
  return {
    $typeName: "trunkline.v1.Key",
    id,
    name,
    scopes: rights.map((right) => TO_SCOPE[right]),
    createdAt: toTimestamp(createdAt),
    ...(lastUsedAt !== null && { lastUsedAt: toTimestamp(lastUsedAt) }),
    ...(revokedAt !== null && { revokedAt: toTimestamp(revokedAt) }),
  };
}

/** A project as it is shown. */
export function toProjectMessage({ name, createdAt }: ProjectRecord): Project {
  return { $typeName: "trunkline.v1.Project", name, createdAt: toTimestamp(createdAt) };
}
