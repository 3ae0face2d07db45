import { mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";

/**
 * A question that waits for a person, with the token that answers it.
 *
 * @typedef {object} Question
 * @property {string} name Short, for the person to type.
 * @property {string} to Who is asked.
 * @property {string} question
 * @property {string[]} options The answers to choose from.
 * @property {string} token
 */

/** Questions to people, one file each; any process can read them. The tokens in it are secrets. */
export class Inbox {
  #folder;

  /** @param {string} folder */
  constructor(folder) {
    this.#folder = folder;
  }

  /**
   * Keeps a question that nobody is shown yet: its token is not good before the call is deferred.
   *
   * @param {Question} question
   */
  async save(question) {
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    await writeFile(this.#path(question.name, "draft"), JSON.stringify(question, null, 2), { mode: 0o600 });
  }

  /**
   * Shows a saved question.
   *
   * @param {string} name
   */
  async publish(name) {
    await rename(this.#path(name, "draft"), this.#path(name, "json"));
  }

  /** @returns {Promise<Question[]>} Those that are shown. */
  async list() {
    const names = await readdir(this.#folder).catch(() => []);
    const shown = names.filter((name) => name.endsWith(".json")).sort();
    return Promise.all(
      shown.map(async (name) => JSON.parse(await readFile(join(this.#folder, name), "utf8"))),
    );
  }

  /**
   * Takes an answered question out.
   *
   * @param {string} name
   */
  async remove(name) {
    await rm(this.#path(name, "json"), { force: true });
  }

  /**
   * @param {string} name
   * @param {"draft" | "json"} ending
   */
  #path(name, ending) {
    return join(this.#folder, `${name}.${ending}`);
  }
}
