import { CHANGED } from "./access.js";
import type { Database } from "./database.js";
import { statement } from "./statement.js";

const FIRST_SIGNING_KEY = statement(
  "signing_key_first",
  `WITH ${CHANGED}
  INSERT INTO signing_keys (project_id, id, secret)
  SELECT $1, $2, $3 FROM changed
  WHERE NOT EXISTS (SELECT FROM signing_keys k WHERE k.project_id = $1 AND k.retires_at IS NULL)`,
);

/** Gives a project what signs its tokens, unless it has that already. */
export async function addFirstSigningKey(
  db: Database,
  projectId: number,
  id: string,
  secret: Buffer,
): Promise<void> {
  await db.query(FIRST_SIGNING_KEY, [projectId, id, secret]);
}

const ROTATE = statement(
  "signing_key_rotate",
  `WITH ${CHANGED}, retired AS (
    UPDATE signing_keys k SET retires_at = now() + $4::bigint * interval '1 millisecond'
    FROM changed
    WHERE k.project_id = $1 AND (k.retires_at IS NULL OR k.retires_at > now() + $4::bigint * interval '1 millisecond')
  )
  INSERT INTO signing_keys (project_id, id, secret) SELECT $1, $2, $3 FROM changed`,
);

/** Signs a project's tokens with a new key; what was signed before stays good for so long at most. */
export async function rotateSigningKey(
  db: Database,
  key: { readonly projectId: number; readonly id: string; readonly secret: Buffer },
  graceMs: number,
): Promise<void> {
  await db.query(ROTATE, [key.projectId, key.id, key.secret, graceMs]);
}

const REVOKE = statement(
  "token_revoke",
  `WITH ${CHANGED}
  INSERT INTO revoked_tokens (project_id, id, expires_at)
  SELECT $1, $2, now() + $3::bigint * interval '1 millisecond' FROM changed
  ON CONFLICT DO NOTHING`,
);

/** Refuses a token from now on, for at most so long as a token can live. */
export async function revokeToken(
  db: Database,
  projectId: number,
  id: string,
  longestMs: number,
): Promise<void> {
  await db.query(REVOKE, [projectId, id, longestMs]);
}
