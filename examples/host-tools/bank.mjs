import { randomUUID } from "node:crypto";
import { appendFile, mkdir, readFile } from "node:fs/promises";
import { dirname } from "node:path";
import { setTimeout as delay } from "node:timers/promises";

/**
 * A line of the ledger: every request that reached the bank. One with a key that the bank has seen before
 * moves no money: it gets the transfer of the first.
 *
 * @typedef {object} Entry
 * @property {"refund" | "charge"} kind
 * @property {string} transfer
 * @property {string} order
 * @property {number} cents
 * @property {string} [key] The idempotency key that came with it.
 * @property {boolean} [repeated] The key was known: no money moved.
 */

/**
 * Stands for a bank outside: its ledger is a file that every worker process can reach. It books at once and
 * confirms after a while, so that a worker can die between the two.
 */
export class Bank {
  #file;
  #confirmMs;

  /**
   * @param {string} file
   * @param {number} confirmMs How long it takes until the caller hears of a transfer.
   */
  constructor(file, confirmMs) {
    this.#file = file;
    this.#confirmMs = confirmMs;
  }

  /**
   * Pays back. Asked again with the same key, it answers with the transfer that was made.
   *
   * @param {{ order: string, cents: number, key: string }} request
   * @param {AbortSignal} signal Ends the wait for the confirmation, not the transfer.
   * @returns {Promise<Entry>}
   */
  async refund(request, signal) {
    const known = (await this.ledger()).find(({ key }) => key === request.key);
    if (known !== undefined) {
      return this.#book({ kind: "refund", transfer: known.transfer, ...request, repeated: true });
    }
    const entry = await this.#book({ kind: "refund", transfer: newTransfer(), ...request });
    await delay(this.#confirmMs, undefined, { signal });
    return entry;
  }

  /**
   * Takes money from the customer's card. The card terminal knows no keys: asked twice, it charges twice.
   *
   * @param {{ order: string, cents: number }} request
   * @param {AbortSignal} signal
   * @returns {Promise<Entry>}
   */
  async charge(request, signal) {
    const entry = await this.#book({ kind: "charge", transfer: newTransfer(), ...request });
    await delay(this.#confirmMs, undefined, { signal });
    return entry;
  }

  /**
   * Everything that was asked of the bank, oldest first.
   *
   * @returns {Promise<Entry[]>}
   */
  async ledger() {
    const text = await readFile(this.#file, "utf8").catch(() => "");
    return text
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => JSON.parse(line));
  }

  /**
   * @param {Entry} entry
   * @returns {Promise<Entry>}
   */
  async #book(entry) {
    await mkdir(dirname(this.#file), { recursive: true });
    await appendFile(this.#file, `${JSON.stringify(entry)}\n`);
    return entry;
  }
}

const newTransfer = () => `tr_${randomUUID().slice(0, 8)}`;
