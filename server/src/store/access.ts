import { RIGHTS, type Right } from "../core/caller.js";
import type { Database } from "./database.js";
import type { Instant } from "./rows.js";
import { statement } from "./statement.js";

/** An API key, without its secret. */
export interface KeyRecord {
  readonly projectId: number;
  readonly id: string;
  readonly name: string;
  readonly rights: readonly Right[];
  readonly createdAt: Instant;
  readonly lastUsedAt: Instant | null;
  readonly revokedAt: Instant | null;
}

/** What a node needs to know a key by. */
export interface KeySecret {
  readonly projectId: number;
  readonly id: string;
  readonly rights: readonly Right[];
  /** SHA-256. */
  readonly hash: Buffer;
  /** The secret before the last rotation, as long as it is good. */
  readonly oldHash: Buffer | null;
  readonly oldUntil: Instant | null;
}

/** What end users' tokens are signed and verified with. */
export interface SigningKey {
  readonly projectId: number;
  readonly id: string;
  readonly secret: Buffer;
  /** Null for the one that signs. */
  readonly retiresAt: Instant | null;
}

/** A token that is refused before it expires. */
export interface RevokedToken {
  readonly projectId: number;
  readonly id: string;
}

/** All that a node needs to tell callers apart. */
export interface AccessRecords {
  /** Goes up with every change; read before the rest, so that what is missed makes it go up again. */
  readonly version: number;
  readonly keys: readonly KeySecret[];
  readonly signingKeys: readonly SigningKey[];
  readonly revokedTokens: readonly RevokedToken[];
}

/**
 * The part of a statement that tells all nodes of its change: they read everything again within a heartbeat
 * interval. Changes at once wait for each other here.
 */
export const CHANGED = "changed AS (UPDATE access_state SET version = version + 1 RETURNING version)";

/** As {@link CHANGED}, where there is such a key: a key that nobody has makes no node read anything. */
const KEY_CHANGED = `changed AS (
    UPDATE access_state SET version = version + 1
    WHERE EXISTS (SELECT FROM api_keys k WHERE k.project_id = $1 AND k.id = $2)
    RETURNING version
  )`;

const VERSION = statement("access_version", "SELECT version FROM access_state");

const SECRETS = statement(
  "access_secrets",
  `SELECT project_id, id, rights, secret_hash, old_hash, micros(old_until) AS old_until FROM api_keys
  WHERE revoked_at IS NULL`,
);

const SIGNING_KEYS = statement(
  "access_signing_keys",
  `SELECT project_id, id, secret, micros(retires_at) AS retires_at FROM signing_keys
  WHERE retires_at IS NULL OR retires_at > now()`,
);

const REVOKED_TOKENS = statement(
  "access_revoked_tokens",
  "SELECT project_id, id FROM revoked_tokens WHERE expires_at > now()",
);

interface SecretRow {
  readonly project_id: number;
  readonly id: string;
  readonly rights: readonly string[];
  readonly secret_hash: Buffer;
  readonly old_hash: Buffer | null;
  readonly old_until: Instant | null;
}

interface SigningKeyRow {
  readonly project_id: number;
  readonly id: string;
  readonly secret: Buffer;
  readonly retires_at: Instant | null;
}

/** The number of the last change to what {@link readAccess} reads. */
export async function accessVersion(db: Database): Promise<number> {
  const [row] = await db.query<{ readonly version: number }>(VERSION, []);
  return row?.version ?? 0;
}

/** Reads all keys that are good, what signs tokens, and the tokens that are refused. */
export async function readAccess(db: Database): Promise<AccessRecords> {
  const version = await accessVersion(db);
  const [keys, signingKeys, revokedTokens] = await Promise.all([
    db.query<SecretRow>(SECRETS, []),
    db.query<SigningKeyRow>(SIGNING_KEYS, []),
    db.query<{ readonly project_id: number; readonly id: string }>(REVOKED_TOKENS, []),
  ]);
  return {
    version,
    keys: keys.map((row) => ({
      projectId: row.project_id,
      id: row.id,
      rights: toRights(row.rights),
      hash: row.secret_hash,
      oldHash: row.old_hash,
      oldUntil: row.old_until,
    })),
    signingKeys: signingKeys.map(toSigningKey),
    revokedTokens: revokedTokens.map((row) => ({ projectId: row.project_id, id: row.id })),
  };
}

const KEY_COLUMNS = `project_id, id, name, rights, micros(created_at) AS created_at,
  micros(last_used_at) AS last_used_at, micros(revoked_at) AS revoked_at`;

interface KeyRow {
  readonly project_id: number;
  readonly id: string;
  readonly name: string;
  readonly rights: readonly string[];
  readonly created_at: Instant;
  readonly last_used_at: Instant | null;
  readonly revoked_at: Instant | null;
}

const CREATE_KEY = statement(
  "key_create",
  `WITH ${CHANGED}
  INSERT INTO api_keys (project_id, id, name, rights, secret_hash) VALUES ($1, $2, $3, $4::text[], $5)
  RETURNING ${KEY_COLUMNS}`,
);

/** What a key is made of. */
export interface NewKey {
  readonly projectId: number;
  readonly id: string;
  readonly name: string;
  readonly rights: readonly Right[];
  /** SHA-256. */
  readonly hash: Buffer;
}

/** Stores a new key. */
export async function createKey(db: Database, key: NewKey): Promise<KeyRecord | null> {
  return firstKey(
    await db.query<KeyRow>(CREATE_KEY, [key.projectId, key.id, key.name, key.rights, key.hash]),
  );
}

const LOCK = statement("access_lock", "SELECT version FROM access_state FOR UPDATE");

/** Keeps keys and tokens as they are until the end of this transaction. */
export async function lockAccess(tx: Database): Promise<void> {
  await tx.query(LOCK, []);
}

const HAS_ADMIN_KEY = statement(
  "key_has_admin",
  `SELECT EXISTS (
    SELECT FROM api_keys WHERE project_id = $1 AND revoked_at IS NULL AND 'admin' = ANY (rights)
  ) AS present`,
);

/** Whether a project has a key that is good and can make others. */
export async function hasAdminKey(db: Database, projectId: number): Promise<boolean> {
  const [row] = await db.query<{ readonly present: boolean }>(HAS_ADMIN_KEY, [projectId]);
  return row?.present === true;
}

const LIST_KEYS = statement(
  "key_list",
  `SELECT ${KEY_COLUMNS} FROM api_keys WHERE project_id = $1 AND id > $2 ORDER BY id LIMIT $3`,
);

/** A project's keys by id, after `after`; revoked ones as well. */
export async function listKeys(
  db: Database,
  projectId: number,
  after: string,
  limit: number,
): Promise<KeyRecord[]> {
  return (await db.query<KeyRow>(LIST_KEYS, [projectId, after, limit])).map(toKey);
}

const REVOKE_KEY = statement(
  "key_revoke",
  `WITH ${KEY_CHANGED}
  UPDATE api_keys SET revoked_at = coalesce(revoked_at, now()), old_hash = NULL, old_until = NULL
  WHERE project_id = $1 AND id = $2
  RETURNING ${KEY_COLUMNS}`,
);

/** Revokes a key, again if need be; null where there is none. */
export async function revokeKey(db: Database, projectId: number, id: string): Promise<KeyRecord | null> {
  return firstKey(await db.query<KeyRow>(REVOKE_KEY, [projectId, id]));
}

const ROTATE_KEY = statement(
  "key_rotate",
  `WITH ${KEY_CHANGED}
  UPDATE api_keys SET secret_hash = $3,
    old_hash = CASE WHEN $4::bigint > 0 THEN secret_hash END,
    old_until = CASE WHEN $4::bigint > 0 THEN now() + $4::bigint * interval '1 millisecond' END
  WHERE project_id = $1 AND id = $2 AND revoked_at IS NULL
  RETURNING ${KEY_COLUMNS}`,
);

/** Gives a key another secret; the one before stays good for so long. Null where no such key is good. */
export async function rotateKey(
  db: Database,
  key: { readonly projectId: number; readonly id: string; readonly hash: Buffer },
  graceMs: number,
): Promise<KeyRecord | null> {
  return firstKey(await db.query<KeyRow>(ROTATE_KEY, [key.projectId, key.id, key.hash, graceMs]));
}

const TOUCH_KEYS = statement(
  "key_touch",
  `UPDATE api_keys k SET last_used_at = date_trunc('minute', now() - i.ago_ms * interval '1 millisecond')
  FROM unnest($1::integer[], $2::text[], $3::bigint[]) AS i (project_id, id, ago_ms)
  WHERE k.project_id = i.project_id AND k.id = i.id
    AND (k.last_used_at IS NULL
      OR k.last_used_at < date_trunc('minute', now() - i.ago_ms * interval '1 millisecond'))`,
);

/** When a key was last used. */
export interface KeyUse {
  readonly projectId: number;
  readonly id: string;
  readonly agoMs: number;
}

/** Notes when keys were last used, to the minute; all in one statement. */
export async function touchKeys(db: Database, uses: readonly KeyUse[]): Promise<void> {
  const sorted = [...uses].sort((a, b) => a.projectId - b.projectId || (a.id < b.id ? -1 : 1));
  await db.query(TOUCH_KEYS, [
    sorted.map(({ projectId }) => projectId),
    sorted.map(({ id }) => id),
    sorted.map(({ agoMs }) => Math.max(0, Math.round(agoMs))),
  ]);
}

function toRights(texts: readonly string[]): Right[] {
  return RIGHTS.filter((right) => texts.includes(right));
}

function toKey(row: KeyRow): KeyRecord {
  return {
    projectId: row.project_id,
    id: row.id,
    name: row.name,
    rights: toRights(row.rights),
    createdAt: row.created_at,
    lastUsedAt: row.last_used_at,
    revokedAt: row.revoked_at,
  };
}

function firstKey([row]: readonly KeyRow[]): KeyRecord | null {
  return row === undefined ? null : toKey(row);
}

function toSigningKey(row: SigningKeyRow): SigningKey {
  return { projectId: row.project_id, id: row.id, secret: row.secret, retiresAt: row.retires_at };
}
