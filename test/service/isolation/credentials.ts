import { KeyScope } from "@trunkline/proto/admin";
import { SignJWT } from "jose";
import type pg from "pg";
import { expect } from "vitest";
import { ADA, ALL_SCOPES, clientsOf, EVE, OTHER, VICTIM } from "./stage.js";

/** A credential that is not the victim's, as the whole header. */
export interface Credential {
  readonly name: string;
  /** Null: none. */
  readonly header: string | null;
}

/** One that is good, for something else. */
export interface GoodCredential extends Credential {
  readonly kind: "key" | "token";
  readonly scopes: readonly KeyScope[];
  /** Whose: another project's, or another end user's or run's of the victim's project. */
  readonly of: "another project" | "the project";
  /** Whether it is bound to one run. */
  readonly ofRun: boolean;
}

const { WORKER, HARNESS, ADMIN } = KeyScope;

/** What signs a project's tokens. */
interface Signer {
  readonly kid: string;
  readonly secret: Uint8Array;
}

async function signerOf(pool: pg.Pool, project: string): Promise<Signer> {
  const { rows } = await pool.query<{ kid: string; secret: Buffer }>(
    `SELECT k.project_id || '.' || k.id AS kid, k.secret FROM signing_keys k
    JOIN projects p ON p.id = k.project_id WHERE p.name = $1 AND k.retires_at IS NULL`,
    [project],
  );
  return rows[0] ?? expect.fail(`project ${project} signs nothing`);
}

/** A token of the end user with all that one may have, as its server would sign it. */
function signed(
  { kid, secret }: Signer,
  options: { readonly alg?: string; readonly expiresAt?: number } = {},
) {
  return new SignJWT({ scope: "worker harness admin" })
    .setProtectedHeader({ alg: options.alg ?? "HS256", typ: "JWT", kid })
    .setIssuer("trunkline")
    .setSubject(ADA)
    .setJti("0123456789abcdef01234567")
    .setIssuedAt()
    .setExpirationTime(options.expiresAt ?? Math.floor(Date.now() / 1_000) + 3_600)
    .sign(secret);
}

const encoded = (json: object): string => Buffer.from(JSON.stringify(json)).toString("base64url");
const parts = (token: string): [string, string, string] => {
  const [head, payload, signature] = token.split(".");
  return [head!, payload!, signature!];
};
/** A text whose last character is another one, and so with other bits where it is base64. */
const withOtherEnd = (text: string): string => text.slice(0, -1) + (/[A-Da-d]$/.test(text) ? "z" : "A");

/** Credentials that are nobody's, or nobody's any more: whoever shows one is not let in at all. */
export async function badCredentials(url: string, rootKey: string, pool: pg.Pool): Promise<Credential[]> {
  const root = clientsOf(url, rootKey).admin;
  const newKey = () => root.createKey({ name: "gone", scopes: ALL_SCOPES, project: VICTIM });
  const newToken = () => root.createToken({ namespace: ADA, scopes: [WORKER, HARNESS], project: VICTIM });
  const replaced = await newToken();
  await root.rotateSigningKey({ project: VICTIM });
  const [revoked, rotated, good] = [await newKey(), await newKey(), await newKey()];
  await root.revokeKey({ keyId: revoked.key!.id, project: VICTIM });
  await root.rotateKey({ keyId: rotated.key!.id, project: VICTIM });
  const [token, revokedToken] = [await newToken(), await newToken()];
  await root.revokeToken({ tokenId: revokedToken.tokenId, project: VICTIM });
  const others = await root.createKey({ name: "theirs", scopes: ALL_SCOPES, project: OTHER });
  const [victim, other] = [await signerOf(pool, VICTIM), await signerOf(pool, OTHER)];
  const [head, payload, signature] = parts(token.token);
  const theirs = parts(await signed(other));
  const secretOf = (key: string): string => key.split("_").slice(2).join("_");
  const credentials: Record<string, string> = {
    "a revoked key": revoked.secret,
    "a key's old secret": rotated.secret,
    "a key with another last character": withOtherEnd(good.secret),
    "a key with a character more": `${good.secret}A`,
    "a key with the secret of another project's": good.secret.replace(
      secretOf(good.secret),
      secretOf(others.secret),
    ),
    "the root key with a character more": `${rootKey}x`,
    "the root key but for a character": rootKey.slice(0, -1),
    "an expired token": await signed(victim, { expiresAt: Math.floor(Date.now() / 1_000) - 5 }),
    "a revoked token": revokedToken.token,
    "a token of a replaced signing key": replaced.token,
    "a token with another last character": withOtherEnd(token.token),
    "a token with another payload": [head, encoded({ ...payloadOf(payload), sub: EVE }), signature].join("."),
    "a token with no signature": `${encoded({ alg: "none", typ: "JWT", kid: victim.kid })}.${payload}.`,
    "a token that names another project's key": [theirs[0], payload, signature].join("."),
    "another project's token that names the victim's key": [head, theirs[1], theirs[2]].join("."),
    "a token signed by another project in the name of the victim": await signed({
      ...other,
      kid: victim.kid,
    }),
    "a token of another algorithm": await signed(victim, { alg: "HS512" }),
    "a token without a key's name": `${encoded({ alg: "HS256" })}.${payload}.${signature}`,
  };
  return [
    { name: "none", header: null },
    { name: "an empty header", header: "" },
    { name: "no key in the header", header: "Bearer" },
    { name: "another scheme", header: `Basic ${Buffer.from(good.secret).toString("base64")}` },
    { name: "the key alone", header: good.secret },
    { name: "two keys", header: `Bearer ${good.secret} ${good.secret}` },
    { name: "two keys with a comma", header: `Bearer ${good.secret},Bearer ${good.secret}` },
    ...Object.entries(credentials).map(([name, text]) => ({ name, header: `Bearer ${text}` })),
  ];
}

function payloadOf(text: string): object {
  return JSON.parse(Buffer.from(text, "base64url").toString("utf8")) as object;
}

/** The victim's own project's, but for one thing: they may not do what is asked. */
export async function narrowCredentials(url: string, rootKey: string): Promise<GoodCredential[]> {
  const root = clientsOf(url, rootKey).admin;
  const [key, token] = makers(root, VICTIM);
  return Promise.all([
    key("a key of all but worker", [HARNESS, ADMIN]),
    key("a key of all but harness", [WORKER, ADMIN]),
    key("a key of all but admin", [WORKER, HARNESS]),
    key("a key of all", ALL_SCOPES),
    token("the end user's token of a worker", [WORKER], { namespace: ADA }),
    token("the end user's token of a harness", [HARNESS], { namespace: ADA }),
  ]);
}

/** Credentials that are good for all they can be, but not for what is the victim's. */
export async function foreignCredentials(
  url: string,
  rootKey: string,
  { runId, otherRunId }: { readonly runId: string; readonly otherRunId: string },
): Promise<GoodCredential[]> {
  const root = clientsOf(url, rootKey).admin;
  const [key, token] = makers(root, OTHER);
  const [, ownToken] = makers(root, VICTIM);
  const both = [WORKER, HARNESS];
  return Promise.all([
    key("another project's key", ALL_SCOPES),
    token("another project's token of an end user with the same name", both, { namespace: ADA }),
    token("another project's token of the same run", both, { namespace: ADA, runId }),
    ownToken("another end user's token", both, { namespace: EVE }),
    ownToken("another end user's token of the same run", both, { namespace: EVE, runId }),
    ownToken("a token of another run", both, { namespace: ADA, runId: otherRunId }),
  ]);
}

function makers(root: ReturnType<typeof clientsOf>["admin"], project: string) {
  const of = project === VICTIM ? ("the project" as const) : ("another project" as const);
  const key = async (name: string, scopes: KeyScope[]): Promise<GoodCredential> => {
    const { secret } = await root.createKey({ name, scopes, project });
    return { name, header: `Bearer ${secret}`, kind: "key", scopes, of, ofRun: false };
  };
  const token = async (
    name: string,
    scopes: KeyScope[],
    bound: { readonly namespace: string; readonly runId?: string },
  ): Promise<GoodCredential> => {
    const made = await root.createToken({ ...bound, scopes, project });
    return {
      name,
      header: `Bearer ${made.token}`,
      kind: "token",
      scopes,
      of,
      ofRun: bound.runId !== undefined,
    };
  };
  return [key, token] as const;
}
