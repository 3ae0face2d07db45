import { RIGHTS } from "../core/caller.js";
import { TrunklineError } from "../core/error.js";
import { quoted } from "../core/json-text.js";
import { checkName } from "../core/name.js";
import { hasAdminKey, lockAccess } from "../store/access.js";
import type { Database } from "../store/database.js";
import { createProject } from "../store/projects.js";
import { makeKey, type IssuedKey } from "./issue.js";

/** What the first key is for people. */
const NAME = "init";

/** Whose first key is made. */
export interface FirstKeySpec {
  /** The project's name; it is made where there is none. */
  readonly project: string;
  /** Makes one beside the keys that are there. */
  readonly force: boolean;
}

/**
 * Makes a key with all rights for a project that has none which could make others. Of two at once, one is refused.
 *
 * @throws TrunklineError PERMISSION_DENIED where it has one and `force` is not given, INVALID_FIELD
 */
export async function makeFirstKey(db: Database, { project, force }: FirstKeySpec): Promise<IssuedKey> {
  checkName(project, "project");
  const found = await createProject(db, project);
  if (found === null) throw new TrunklineError("INTERNAL", "the project was not stored");
  return db.transaction(async (tx) => {
    await lockAccess(tx);
    if (force || !(await hasAdminKey(tx, found.id))) {
      return makeKey(tx, null, { projectId: found.id, name: NAME, rights: RIGHTS });
    }
    throw new TrunklineError(
      "PERMISSION_DENIED",
      `the project ${quoted(project)} has a key with the scope admin already, which makes others ` +
        "(`trunkline key create`); where it was lost, --force makes another one here",
    );
  });
}
