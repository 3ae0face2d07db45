import { decodeProtectedHeader, errors, jwtVerify, SignJWT } from "jose";
import { RIGHTS, type Caller, type Right } from "../core/caller.js";
import { TrunklineError } from "../core/error.js";
import type { AccessBook } from "./access-book.js";

/** Who makes and reads them. */
const ISSUER = "trunkline";
const ALGORITHM = "HS256";
/** A token is longer by its namespace and run alone. */
const MOST_CHARACTERS = 4_096;
/** Tokens whose signature was checked are remembered, the newest so many. */
const REMEMBERED = 10_000;

/** What a new token says. */
export interface TokenClaims {
  readonly projectId: number;
  readonly namespace: string;
  /** Null: all runs of the end user. */
  readonly runId: string | null;
  readonly rights: readonly Right[];
  /** Names it. */
  readonly id: string;
  /** Seconds since 1970. */
  readonly expiresAt: number;
}

/** A token whose signature was checked. */
export interface VerifiedToken {
  readonly caller: Caller;
  readonly signingKeyId: string;
}

/**
 * End users' tokens: JWTs, signed with a key of their project (HS256). The header's `kid` is `{project}.{key}`, so the
 * project is never taken from what is not signed: a kid of another project names another key.
 */
export class EndUserTokens {
  readonly #book: AccessBook;
  readonly #now: () => number;
  readonly #verified = new Map<string, VerifiedToken>();

  /** `now` is in milliseconds since 1970. */
  constructor(book: AccessBook, now: () => number) {
    this.#book = book;
    this.#now = now;
  }

  /** Whether a credential looks like a token, and not like a key. */
  static looksLike(text: string): boolean {
    return text.startsWith("eyJ");
  }

  /**
   * Signs a token.
   *
   * @throws TrunklineError INTERNAL where its project has nothing to sign with
   */
  async sign({ projectId, namespace, runId, rights, id, expiresAt }: TokenClaims): Promise<string> {
    const signer = this.#book.signer(projectId);
    if (signer === undefined) throw new TrunklineError("INTERNAL", "the project has no signing key");
    return new SignJWT({ scope: rights.join(" "), ...(runId !== null && { run: runId }) })
      .setProtectedHeader({ alg: ALGORITHM, typ: "JWT", kid: `${projectId}.${signer.id}` })
      .setIssuer(ISSUER)
      .setSubject(namespace)
      .setJti(id)
      .setIssuedAt(new Date(this.#now()))
      .setExpirationTime(expiresAt)
      .sign(signer.secret);
  }

  /**
   * Who holds this token. Without a read: its signature is checked once, whether it still stands each time.
   *
   * @throws TrunklineError UNAUTHENTICATED
   */
  async verify(token: string): Promise<VerifiedToken> {
    let verified = this.#verified.get(token);
    if (verified === undefined) {
      verified = await this.#check(token);
      this.#remember(token, verified);
    }
    const refusal = this.refusalOf(verified);
    if (refusal === null) return verified;
    this.#verified.delete(token);
    throw refusal;
  }

  /** Why a token that was good is so no more; null while it is. */
  refusalOf({ caller, signingKeyId }: VerifiedToken): TrunklineError | null {
    const { scope, id, expiresAt } = caller;
    if (expiresAt !== null && expiresAt <= this.#now()) return refused("the token has expired");
    const key = this.#book.signingKey(scope.projectId, signingKeyId);
    if (key === undefined || (key.retiresAt !== null && key.retiresAt / 1_000 <= this.#now())) {
      return refused("the key that signed the token was replaced");
    }
    return this.#book.isRevoked(scope.projectId, id) ? refused("the token was revoked") : null;
  }

  async #check(token: string): Promise<VerifiedToken> {
    const { projectId, signingKeyId } = kidOf(token);
    const key = this.#book.signingKey(projectId, signingKeyId);
    if (key === undefined) throw invalid();
    const { payload } = await jwtVerify(token, key.secret, {
      algorithms: [ALGORITHM],
      currentDate: new Date(this.#now()),
      issuer: ISSUER,
      requiredClaims: ["sub", "jti", "exp", "scope"],
    }).catch((error: unknown) => {
      throw error instanceof errors.JWTExpired ? refused("the token has expired") : invalid();
    });
    const { sub, jti, exp, scope, run } = payload;
    if (sub === undefined || jti === undefined || exp === undefined || typeof scope !== "string") {
      throw invalid();
    }
    const named = scope.split(" ");
    const caller: Caller = {
      kind: "token",
      id: jti,
      scope: { projectId, namespace: sub, ...(typeof run === "string" && { runId: run }) },
      rights: new Set(RIGHTS.filter((right) => named.includes(right))),
      expiresAt: exp * 1_000,
    };
    return { caller, signingKeyId };
  }

  #remember(token: string, verified: VerifiedToken): void {
    const [oldest] = this.#verified.keys();
    if (this.#verified.size >= REMEMBERED && oldest !== undefined) this.#verified.delete(oldest);
    this.#verified.set(token, verified);
  }
}

/** The key that a token says it is signed with. Nothing that it says is believed yet. */
function kidOf(token: string): { readonly projectId: number; readonly signingKeyId: string } {
  if (token.length > MOST_CHARACTERS) throw invalid();
  let kid: string | undefined;
  try {
    ({ kid } = decodeProtectedHeader(token));
  } catch {
    throw invalid();
  }
  const [, project, signingKeyId] = /^([1-9][0-9]{0,8})\.([0-9a-f]{24})$/.exec(kid ?? "") ?? [];
  if (project === undefined || signingKeyId === undefined) throw invalid();
  return { projectId: Number(project), signingKeyId };
}

function refused(why: string): TrunklineError {
  return new TrunklineError("UNAUTHENTICATED", `${why}; get a new one`);
}

function invalid(): TrunklineError {
  return new TrunklineError("UNAUTHENTICATED", "the token was not signed by this server");
}
