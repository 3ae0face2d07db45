import { mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";

/**
 * What waits for a manager, with the token that answers it.
 *
 * @typedef {object} Approval
 * @property {string} callId
 * @property {number} cents
 * @property {string} reason
 * @property {string} token A secret: whoever has it may answer.
 */

/** Approvals that wait, one file each under its call's id; any process can read them. */
export class Approvals {
  #folder;

  /** @param {string} folder */
  constructor(folder) {
    this.#folder = folder;
  }

  /**
   * Keeps one; of a call that is tried again, it replaces the one before.
   *
   * @param {Approval} approval
   */
  async save(approval) {
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    // In place at once: whoever lists the folder sees whole files.
    const draft = `${this.#path(approval.callId)}.draft`;
    await writeFile(draft, JSON.stringify(approval), { mode: 0o600 });
    await rename(draft, this.#path(approval.callId));
  }

  /** @returns {Promise<Approval[]>} Those that wait. */
  async list() {
    const names = await readdir(this.#folder).catch(() => []);
    const files = names.filter((name) => name.endsWith(".json")).sort();
    return Promise.all(
      files.map(async (name) => JSON.parse(await readFile(join(this.#folder, name), "utf8"))),
    );
  }

  /** @param {string} callId Of one that was answered. */
  async remove(callId) {
    await rm(this.#path(callId), { force: true });
  }

  /** @type {(callId: string) => string} */
  #path(callId) {
    return join(this.#folder, `${callId.replaceAll("/", "-")}.json`);
  }
}
