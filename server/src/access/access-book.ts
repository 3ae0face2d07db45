import { setTimeout } from "node:timers/promises";
import {
  accessVersion,
  readAccess,
  type AccessRecords,
  type KeySecret,
  type SigningKey,
} from "../store/access.js";
import type { Database } from "../store/database.js";

/** Whoever shows what nobody knows makes a node look for new keys at most this often, and waits for so long. */
const LOOK_EVERY_MS = 100;

const NOTHING: AccessRecords = { version: 0, keys: [], signingKeys: [], revokedTokens: [] };

/**
 * What this node knows of keys and tokens: all of it, in memory, so that requests are told apart without a read.
 * The renewal of the node's lease tells the number of the last change; a new number has everything read again.
 */
export class AccessBook {
  readonly #db: Database;
  #version = 0;
  #keys = new Map<string, KeySecret>();
  #signingKeys = new Map<string, SigningKey>();
  #signers = new Map<number, SigningKey>();
  #revokedTokens = new Set<string>();
  #lookedAt = -Infinity;
  #looking: Promise<void> | null = null;
  #reading: Promise<void> | null = null;
  readonly #listeners = new Set<() => void>();

  constructor(db: Database) {
    this.#db = db;
    this.#take(NOTHING);
  }

  /** The number of the last change that is known. */
  get version(): number {
    return this.#version;
  }

  /** Whether there is any key that is good. */
  get hasKeys(): boolean {
    return this.#keys.size > 0;
  }

  /** The key of this id that is good, as far as is known. */
  key(id: string): KeySecret | undefined {
    return this.#keys.get(id);
  }

  /** The key that verifies tokens which name it. */
  signingKey(projectId: number, id: string): SigningKey | undefined {
    return this.#signingKeys.get(`${projectId}:${id}`);
  }

  /** The key that signs a project's next token. */
  signer(projectId: number): SigningKey | undefined {
    return this.#signers.get(projectId);
  }

  /** Whether a token is refused although it has not expired. */
  isRevoked(projectId: number, tokenId: string): boolean {
    return this.#revokedTokens.has(`${projectId}:${tokenId}`);
  }

  /** Calls `listener` after each change, since callers that were let in may not be any more. */
  onChange(listener: () => void): void {
    this.#listeners.add(listener);
  }

  /** Reads everything, as it is now or later. */
  async read(): Promise<void> {
    // One that is under way may have begun before the change that this one is about.
    await this.#reading?.catch(() => undefined);
    await (this.#reading ??= this.#readAll().finally(() => {
      this.#reading = null;
    }));
  }

  /** The number of the last change, as the database tells it; whether it is a new one. */
  async heard(version: number): Promise<boolean> {
    if (version === this.#version) return false;
    await this.read();
    return true;
  }

  /**
   * Looks for what other nodes have changed; whether anything is new since that version. A look begins after this was
   * asked, and serves all who ask until then, so that guessing costs the database ten small reads a second at most.
   */
  async lookAgain(since: number): Promise<boolean> {
    await (this.#looking ??= this.#lookLater());
    return this.#version !== since;
  }

  async #lookLater(): Promise<void> {
    // Always a pause: it is over only after this look was noted as the one that others may share.
    const inMs = Math.max(0, this.#lookedAt + LOOK_EVERY_MS - performance.now());
    await setTimeout(inMs, undefined, { ref: false });
    this.#lookedAt = performance.now();
    this.#looking = null;
    await this.heard(await accessVersion(this.#db));
  }

  async #readAll(): Promise<void> {
    this.#take(await readAccess(this.#db));
    for (const listener of this.#listeners) listener();
  }

  #take({ version, keys, signingKeys, revokedTokens }: AccessRecords): void {
    this.#version = version;
    this.#keys = new Map(keys.map((key) => [key.id, key]));
    this.#signingKeys = new Map(signingKeys.map((key) => [`${key.projectId}:${key.id}`, key]));
    this.#signers = new Map(
      signingKeys.filter(({ retiresAt }) => retiresAt === null).map((key) => [key.projectId, key]),
    );
    this.#revokedTokens = new Set(revokedTokens.map(({ projectId, id }) => `${projectId}:${id}`));
  }
}
