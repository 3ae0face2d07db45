import { randomBytes } from "node:crypto";
import { Trunkline } from "@trunkline/sdk";
import { anyBytes, hostileText } from "../input/values.mjs";
import { visible } from "../input/headers.mjs";
import { flipped } from "../input/binary.mjs";

/** @typedef {import("../../fault-run/random.mjs").Random} Random */

/** The root key of the server under test. */
export const ROOT_KEY = `root-${randomBytes(24).toString("base64url")}`;
/** Where keys and tokens are whose signing key no input is to replace. */
const PROJECT = "the fuzz run's own";

/** Good and bad ones. */
export class Credentials {
  #good;
  #able;
  #bad;
  #own;
  /** For the probe: with the scopes `worker` and `harness`, in the fuzz run's own project. */
  ownKey;

  /**
   * @param {readonly string[]} good
   * @param {{ worker: readonly string[], harness: readonly string[] }} able
   * @param {readonly string[]} bad
   * @param {ReadonlySet<string>} own
   * @param {string} ownKey
   */
  constructor(good, able, bad, own, ownKey) {
    this.#good = good;
    this.#able = able;
    this.#bad = bad;
    this.#own = own;
    this.ownKey = ownKey;
  }

  /**
   * Makes one of each sort.
   *
   * @param {string} url
   */
  static async make(url) {
    const root = new Trunkline({ url, key: ROOT_KEY });
    try {
      return await Credentials.#with(root);
    } finally {
      await root.close();
    }
  }

  /** @param {Trunkline} root */
  static async #with(root) {
    await root.projects.create(PROJECT);
    const key = (/** @type {import("@trunkline/sdk").KeyScope[]} */ ...scopes) =>
      root.keys.create({ name: "fuzz", scopes });
    const all = await key("worker", "harness", "admin");
    const [worker, harness, admin, revoked] = [
      await key("worker"),
      await key("harness"),
      await key("admin"),
      await key("worker", "harness"),
    ];
    await root.keys.revoke(revoked.id);
    const own = await root.keys.create({ name: "own", scopes: ["worker", "harness"], project: PROJECT });
    const token = await root.tokens.create({
      namespace: "end-user",
      scopes: ["worker", "harness"],
      ttl: "1d",
      project: PROJECT,
    });
    const expired = await root.tokens.create({
      namespace: "end-user",
      scopes: ["harness"],
      ttl: "1s",
      project: PROJECT,
    });
    const good = [
      ROOT_KEY,
      ROOT_KEY,
      all.key,
      all.key,
      worker.key,
      harness.key,
      admin.key,
      own.key,
      token.token,
      token.token,
    ];
    const ids = [all, worker, harness, admin, own, token].map(({ id }) => id);
    const both = [all.key, all.key, own.key, token.token];
    const able = { worker: [worker.key, ...both], harness: [harness.key, ...both] };
    const bad = [revoked.key, expired.token];
    return new Credentials(good, able, bad, new Set([...ids, PROJECT]), own.key);
  }

  /** Whether no input is to name it. */
  isOwn = (/** @type {string} */ text) => this.#own.has(text);

  /** What must be in no log. */
  get secrets() {
    return [...new Set([...this.#good, ...this.#bad])];
  }

  /**
   * The header of a request: mostly one that lets it in.
   *
   * @param {Random} random
   * @param {"worker" | "harness"} [right] What the request needs: mostly it has it.
   * @returns {[name: string, value: string][]}
   */
  header(random, right) {
    const roll = random.next();
    if (right !== undefined && roll < 0.8)
      return [["authorization", `Bearer ${random.pick(this.#able[right])}`]];
    if (roll < 0.9) return [["authorization", `Bearer ${random.pick(this.#good)}`]];
    if (roll < 0.93) return [];
    return [["authorization", this.hostile(random)]];
  }

  /**
   * A value that lets nobody in.
   *
   * @param {Random} random
   */
  hostile(random) {
    const good = random.pick(this.#good);
    switch (random.int(0, 9)) {
      case 0:
        return `Bearer ${random.pick(this.#bad)}`;
      case 1:
        return `Bearer ${visible(flipped(random, Buffer.from(good)).toString("latin1"))}`;
      case 2:
        return `Bearer ${good.slice(0, random.int(0, good.length - 1))}`;
      case 3:
        return `Bearer ${visible(hostileText(random))}`;
      case 4:
        return `Bearer ${"k".repeat(random.pick([100, 4_096, 4_097, 12_000]))}`;
      case 5:
        return visible(`Bearer ${anyBytes(random, 60).toString("latin1")}`);
      case 6:
        return random.pick([
          "",
          "Bearer",
          "Bearer ",
          "bearer  x",
          `Basic ${btoa(`a:${good}`)}`,
          `Bearer ${good} ${good}`,
          good,
        ]);
      case 7:
        return `Bearer ${forged(random, good)}`;
      default:
        return `Bearer ${"eyJ"}${visible(hostileText(random)).replaceAll(" ", "")}`;
    }
  }
}

/** Of tokens. */
const HEADERS = [
  ...[
    '{"alg":"none","kid":"1.000000000000000000000000"}',
    '{"alg":"HS256","kid":"1"}',
    '{"alg":"HS256"}',
    "{}",
    "[]",
    "null",
  ],
  ...[
    '{"alg":"RS256","kid":"1.0123456789abcdef01234567"}',
    '{"alg":"HS256","kid":1}',
    '{"alg":"HS256","kid":"99999999.0123456789abcdef01234567"}',
  ],
  ...[
    '{"alg":"HS256","kid":"1.0123456789abcdef01234567","b64":false,"crit":["b64"]}',
    '{"alg":"HS256","kid":{"__proto__":1}}',
    "1e999",
    '{"alg":["HS256"]}',
  ],
];

/**
 * @param {Random} random
 * @param {string} good
 */
function forged(random, good) {
  const [, payload = "e30", signature = "AAAA"] = good.split(".");
  const header = Buffer.from(random.pick(HEADERS)).toString("base64url");
  return [header, payload, signature, ""].slice(0, random.int(1, 4)).join(".");
}
