import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { onlyFields, refuseArgument } from "./argument.js";
import { dateFromWire } from "./call.js";
import { parseDuration, type Duration } from "./duration.js";
import { TrunklineError } from "./errors.js";
import { rotationToWire, type RotateOptions } from "./keys.js";
import { projectToWire, type ProjectChoice } from "./projects.js";
import { scopesToWire, TOKEN_SCOPES, type TokenScope } from "./scopes.js";
import { present, wellFormed } from "./text.js";
import type { Unary } from "./unary.js";

/** What makes a token. */
export interface TokenOptions extends ProjectChoice {
  /** The end user that it is bound to, 1 to 256 bytes: it reaches the calls of that namespace's runs alone. */
  readonly namespace: string;
  /** At least one, each once; only what the key that asks may do itself, unless it has the scope `admin`. */
  readonly scopes: readonly TokenScope[];
  /** The id of one run, outside which it sees nothing. Default: all runs of the end user. */
  readonly run?: string;
  /** How long it is good, at most 10 years. Default 1 h. */
  readonly ttl?: Duration;
}

/** A token that was just made. */
export interface NewToken {
  /** For `new Trunkline({ key: token })`, or as `Authorization: Bearer`. It is not kept. */
  readonly token: string;
  /** Names the token, to revoke it; not a secret. */
  readonly id: string;
  readonly expiresAt: Date;
}

const OPTIONS: Record<keyof TokenOptions, true> = {
  namespace: true,
  scopes: true,
  run: true,
  ttl: true,
  project: true,
};

/** How a JWT, not its id, begins. */
const JWT_PREFIX = "eyJ";

/** Tokens of end users, which any API key makes: `client.tokens`. */
export class Tokens {
  readonly #unary: Unary;

  /** Use `Trunkline.tokens`. */
  constructor(unary: Unary) {
    this.#unary = unary;
  }

  /** Makes a signed token for one end user, for a worker or a browser that acts for nobody else. */
  async create(options: TokenOptions): Promise<NewToken> {
    onlyFields(options, OPTIONS, "options");
    const { namespace, scopes, run, ttl } = options;
    const request = {
      namespace: wellFormed(present(namespace, "namespace"), "namespace"),
      scopes: scopesToWire(TOKEN_SCOPES, scopes),
      // An empty one would mean all runs.
      runId: run === undefined ? "" : wellFormed(present(run, "run"), "run"),
      ...(ttl !== undefined && { ttl: durationFromMs(parseDuration(ttl, "ttl")) }),
      project: projectToWire(options),
    };
    const made = await this.#unary.send((callOptions) => this.#unary.admin.createToken(request, callOptions));
    const expiresAt = dateFromWire(made.expiresAt);
    if (expiresAt === undefined) throw new TrunklineError("INTERNAL", "create: the answer had no expiry");
    return { token: made.token, id: made.tokenId, expiresAt };
  }

  /**
   * Makes one token useless, and ends its streams within 30 s. For keys with the scope `admin`. Again is fine, and so
   * is an id that nobody has.
   *
   * @param id as {@link NewToken} has it
   */
  async revoke(id: string, options: ProjectChoice = {}): Promise<void> {
    onlyFields(options, { project: true }, "options");
    const tokenId = wellFormed(present(id, "id"), "id");
    if (tokenId.startsWith(JWT_PREFIX)) {
      throw refuseArgument(
        "id",
        "it is the token itself",
        "allowed is the id with which it was made, its jti",
      );
    }
    const request = { tokenId, project: projectToWire(options) };
    await this.#unary.send((callOptions) => this.#unary.admin.revokeToken(request, callOptions));
  }

  /**
   * Signs tokens with a new key from now on, so that all earlier ones of the project are useless: at once, or when
   * the grace has passed. For keys with the scope `admin`.
   */
  async rotateSigningKey(options: RotateOptions = {}): Promise<void> {
    const request = rotationToWire(options);
    await this.#unary.send((callOptions) => this.#unary.admin.rotateSigningKey(request, callOptions));
  }
}
