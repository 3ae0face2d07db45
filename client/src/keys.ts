import { durationFromMs } from "@bufbuild/protobuf/wkt";
import type { CreateKeyResponse, Key as WireKey, RotateKeyResponse } from "@trunkline/proto/admin";
import { onlyFields, refuseArgument } from "./argument.js";
import { dateFromWire } from "./call.js";
import { parseDuration, type Duration } from "./duration.js";
import { TrunklineError } from "./errors.js";
import { Page, pageToWire, type PageOptions } from "./page.js";
import { projectToWire, type ProjectChoice } from "./projects.js";
import { KEY_SCOPES, scopesFromWire, scopesToWire, type KeyScope } from "./scopes.js";
import { present, wellFormed } from "./text.js";
import type { Unary } from "./unary.js";

/** An API key as it stands, without its secret. */
export interface KeyInfo {
  /** Names the key; not a secret. */
  readonly id: string;
  /** For people. */
  readonly name: string;
  readonly scopes: readonly KeyScope[];
  readonly createdAt: Date | undefined;
  /** To the minute; undefined when never. */
  readonly lastUsedAt: Date | undefined;
  /** Undefined while the key is good. */
  readonly revokedAt: Date | undefined;
}

/** An API key that was just made. */
export interface NewKey extends KeyInfo {
  /** The key itself, for `new Trunkline({ key })`. The server keeps a hash alone: store it now. */
  readonly key: string;
}

/** What makes a key. */
export interface KeyOptions extends ProjectChoice {
  /** For people; 1 to 256 bytes. */
  readonly name: string;
  /** At least one, each once. */
  readonly scopes: readonly KeyScope[];
}

/** Which keys to list. */
export interface KeyFilter extends PageOptions, ProjectChoice {}

/** How to rotate what is secret. */
export interface RotateOptions extends ProjectChoice {
  /** How long what was good before stays good, at most 30 days. Default: it is useless at once. */
  readonly grace?: Duration;
}

const KEY_OPTIONS: Record<keyof KeyOptions, true> = { name: true, scopes: true, project: true };
const FILTER: Record<keyof KeyFilter, true> = { pageSize: true, pageToken: true, project: true };
const ROTATE_OPTIONS: Record<keyof RotateOptions, true> = { grace: true, project: true };

/** What a key, not its id, begins with. */
const KEY_PREFIX = "tlk_";

/** API keys of the project, for keys with the scope `admin`: `client.keys`. */
export class Keys {
  readonly #unary: Unary;

  /** Use `Trunkline.keys`. */
  constructor(unary: Unary) {
    this.#unary = unary;
  }

  /** Makes a key. Where the answer is lost and the request repeated, a key that nobody has stays in the list. */
  async create(options: KeyOptions): Promise<NewKey> {
    onlyFields(options, KEY_OPTIONS, "options");
    const request = {
      name: wellFormed(present(options.name, "name"), "name"),
      scopes: scopesToWire(KEY_SCOPES, options.scopes),
      project: projectToWire(options),
    };
    return newKeyFromWire(
      await this.#unary.send((callOptions) => this.#unary.admin.createKey(request, callOptions)),
    );
  }

  /** Keys by id, revoked ones as well. */
  async list(filter: KeyFilter = {}): Promise<Page<KeyInfo>> {
    onlyFields(filter, FILTER, "filter");
    const request = { ...pageToWire(filter), project: projectToWire(filter) };
    const { keys, nextPageToken } = await this.#unary.send((options) =>
      this.#unary.admin.listKeys(request, options),
    );
    return new Page(keys.map(keyFromWire), nextPageToken, (pageToken) => this.list({ ...filter, pageToken }));
  }

  /** Makes a key useless, and ends its streams within 30 s. Again is fine. */
  async revoke(id: string, options: ProjectChoice = {}): Promise<KeyInfo> {
    onlyFields(options, { project: true }, "options");
    const request = { keyId: keyId(id), project: projectToWire(options) };
    const { key } = await this.#unary.send((callOptions) =>
      this.#unary.admin.revokeKey(request, callOptions),
    );
    if (key === undefined) throw new TrunklineError("INTERNAL", "revoke: the answer was empty");
    return keyFromWire(key);
  }

  /**
   * Gives a key another secret; its id, name and scopes stay. With a grace it is sent once, whatever `retryFor`
   * says: where no answer comes the key may have a new secret that nobody has, and the grace has begun.
   */
  async rotate(id: string, options: RotateOptions = {}): Promise<NewKey> {
    const request = { keyId: keyId(id), ...rotationToWire(options) };
    // Repeated, it would end the grace of the secret that is in use: that is given to the last one only.
    const sending = request.grace === undefined ? {} : { retryForMs: 0 };
    return newKeyFromWire(
      await this.#unary.send((callOptions) => this.#unary.admin.rotateKey(request, callOptions), sending),
    );
  }
}

/**
 * How to rotate, as requests have it.
 *
 * @throws TrunklineError INVALID_FIELD
 */
export function rotationToWire(options: RotateOptions): {
  readonly project: string;
  readonly grace?: ReturnType<typeof durationFromMs>;
} {
  onlyFields(options, ROTATE_OPTIONS, "options");
  const { grace } = options;
  return {
    project: projectToWire(options),
    ...(grace !== undefined && { grace: durationFromMs(parseDuration(grace, "grace")) }),
  };
}

/** What names a key. The key itself is refused here: the server's refusal would show it. */
function keyId(id: string): string {
  const given = present(id, "id");
  if (!given.startsWith(KEY_PREFIX)) return wellFormed(given, "id");
  throw refuseArgument(
    "id",
    "it is the key itself",
    `allowed is its id, between ${KEY_PREFIX} and the next _`,
  );
}

function newKeyFromWire({ key, secret }: CreateKeyResponse | RotateKeyResponse): NewKey {
  if (key === undefined || secret === "") throw new TrunklineError("INTERNAL", "the answer had no key");
  return { ...keyFromWire(key), key: secret };
}

function keyFromWire({ id, name, scopes, createdAt, lastUsedAt, revokedAt }: WireKey): KeyInfo {
  return {
    ...{ id, name },
    scopes: scopesFromWire(scopes),
    createdAt: dateFromWire(createdAt),
    lastUsedAt: dateFromWire(lastUsedAt),
    revokedAt: dateFromWire(revokedAt),
  };
}
