import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const EXAMPLES = fileURLToPath(new URL("../", import.meta.url));

/**
 * How a worker is started.
 *
 * @typedef {object} Command
 * @property {readonly [program: string, ...args: string[]]} argv
 * @property {string} [cwd] Default: any.
 */

/**
 * A language in which there are workers that play in the story.
 *
 * @typedef {object} Language
 * @property {string} folder In `examples/`, of what must be built before, with the README that says how.
 * @property {readonly string[]} built What there is in the folder when it was.
 * @property {(folder: string) => Command} shop Runs the shop's tools; gets its name as argument.
 * @property {(folder: string) => Command} reports Takes on reports; gets its name as argument.
 */

/** @type {Readonly<Record<string, Language>>} */
const LANGUAGES = {
  node: {
    folder: ".",
    built: [],
    shop: (folder) => ({ argv: [process.execPath, join(folder, "host-tools/worker.mjs")] }),
    reports: (folder) => ({ argv: [process.execPath, join(folder, "async-tools/worker.mjs")] }),
  },
  python: {
    folder: "workers/python",
    built: [".venv/bin/python", "trunkline/v1/worker_pb2_grpc.py"],
    shop: (folder) => ({ argv: [join(folder, ".venv/bin/python"), "-m", "demo", "shop"], cwd: folder }),
    reports: (folder) => ({ argv: [join(folder, ".venv/bin/python"), "-m", "demo", "reports"], cwd: folder }),
  },
  go: {
    folder: "workers/go",
    built: ["demo/worker"],
    shop: (folder) => ({ argv: [join(folder, "demo/worker"), "shop"] }),
    reports: (folder) => ({ argv: [join(folder, "demo/worker"), "reports"] }),
  },
};

/** In how many places of the shop there is a worker. */
const PLACES = 2;

/** What was asked for cannot be played; the message says what can. */
export class CastingError extends Error {
  /** @override */
  name = "CastingError";
}

/** Which language plays which part: two workers in the shop, and another one that takes on reports. */
export class Troupe {
  /** @type {readonly [string, string]} One language for each place in the shop. */
  languages;
  #named;

  /**
   * @param {string | undefined} asked One language, or two with a comma between them. Default: `node`, twice.
   * @param {(file: string) => boolean} [exists] Whether there is such a file.
   * @throws {CastingError} When there is no such language, or it was not built.
   */
  constructor(asked, exists = existsSync) {
    const languages = asked === undefined ? ["node"] : asked.split(",");
    const known = Object.keys(LANGUAGES).join(", ");
    const [first = "", second = first] = languages;
    for (const language of [first, second]) {
      if (Object.hasOwn(LANGUAGES, language)) continue;
      const where = languages.length > 1 ? ` in ${JSON.stringify(asked)}` : "";
      throw new CastingError(
        `--workers: there is no ${JSON.stringify(language)}${where}; there are ${known}`,
      );
    }
    if (languages.length > PLACES) {
      throw new CastingError(
        `--workers: ${JSON.stringify(asked)} are too many; allowed are one or two of ${known}`,
      );
    }
    this.languages = [first, second];
    this.#named = asked !== undefined;
    for (const language of new Set(this.languages)) refuseUnbuilt(language, exists);
  }

  /**
   * The name of a worker in the shop: after its language where that was asked for.
   *
   * @param {string} language
   * @param {number} number From 1.
   */
  nameOf(language, number) {
    return `${this.#named ? language : "worker"}-${number}`;
  }

  /**
   * Another language of the troupe, if there are two.
   *
   * @param {string} language
   */
  otherThan(language) {
    return this.languages.find((other) => other !== language) ?? language;
  }

  /**
   * @param {string} language
   * @param {"shop" | "reports"} part
   * @param {string} name
   * @returns {Command}
   */
  command(language, part, name) {
    const { folder, [part]: start } = languageOf(language);
    const { argv, ...where } = start(join(EXAMPLES, folder));
    return { argv: [...argv, name], ...where };
  }
}

/** @param {string} name */
function languageOf(name) {
  const language = LANGUAGES[name];
  if (language === undefined) throw new Error(`there is no language ${name}`);
  return language;
}

/**
 * @param {string} name
 * @param {(file: string) => boolean} exists
 */
function refuseUnbuilt(name, exists) {
  const { folder, built } = languageOf(name);
  const missing = built.find((file) => !exists(join(EXAMPLES, folder, file)));
  if (missing === undefined) return;
  const path = `examples/${folder}`;
  throw new CastingError(`--workers: ${path}/${missing} is missing; ${path}/README.md says how to build it`);
}
