import type { Answer, Claim, Deferral } from "@trunkline/proto/worker";

/** One thing to say about a claim, and roughly its size in a frame, in bytes. */
export type Item = { readonly claimId: string; readonly size: number } & (
  | { readonly kind: "accept"; readonly claim: Claim }
  | { readonly kind: "deferral"; readonly deferral: Deferral }
  | { readonly kind: "answer"; readonly answer: Answer }
  | { readonly kind: "release" }
);

/** What the server has yet to acknowledge, one item for each claim, oldest first. */
export class Outbox {
  readonly #items = new Map<string, Item>();

  /** Keeps an item; false when its claim has one already, which stays, since it may have been stored. */
  put(item: Item): boolean {
    if (this.has(item.claimId)) return false;
    this.#items.set(item.claimId, item);
    return true;
  }

  /** Whether a claim waits for an ack: then nothing else that the server says of it counts. */
  has(claimId: string): boolean {
    return this.#items.has(claimId);
  }

  /** Removes the item that was acknowledged; undefined when that was done before. */
  take(claimId: string): Item | undefined {
    const item = this.#items.get(claimId);
    this.#items.delete(claimId);
    return item;
  }

  items(): Item[] {
    return [...this.#items.values()];
  }
}
