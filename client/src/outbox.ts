import type { Answer, Deferral } from "@trunkline/proto/worker";

/** What a worker has to say about a claim and repeats until the server has acknowledged it. */
export type OutboxItem =
  | { readonly kind: "answer"; readonly claimId: string; readonly answer: Answer; readonly bytes: number }
  | {
      readonly kind: "deferral";
      readonly claimId: string;
      readonly deferral: Deferral;
      readonly bytes: number;
    }
  | {
      readonly kind: "release";
      readonly claimId: string;
      readonly callId: string;
      readonly bytes: number;
    };

/** One item for each claim, in the order of their making. */
export class Outbox {
  readonly #items = new Map<string, OutboxItem>();

  /** How many items wait for their acknowledgement. */
  get size(): number {
    return this.#items.size;
  }

  /** Keeps an item; it replaces the claim's earlier one. */
  put(item: OutboxItem): void {
    this.#items.set(item.claimId, item);
  }

  /** Whether a claim has an item here: then only that item's acknowledgement counts for it. */
  has(claimId: string): boolean {
    return this.#items.has(claimId);
  }

  /** Takes out the item that was acknowledged; undefined when it already was. */
  take(claimId: string): OutboxItem | undefined {
    const item = this.#items.get(claimId);
    this.#items.delete(claimId);
    return item;
  }

  /** All items, oldest first. */
  items(): OutboxItem[] {
    return [...this.#items.values()];
  }

  /** The largest item; undefined when there is none. */
  largest(): OutboxItem | undefined {
    let largest: OutboxItem | undefined;
    for (const item of this.#items.values()) if (item.bytes > (largest?.bytes ?? 0)) largest = item;
    return largest;
  }
}
