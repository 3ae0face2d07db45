interface Node<Item> {
  readonly item: Item;
  next: Node<Item> | undefined;
}

interface Lane<Item> {
  first: Node<Item>;
  last: Node<Item>;
}

/** What becomes of the item whose turn it is: passed, it stays, and so does its lane until the next time. */
export type Turn = "taken" | "passed" | "full";

/** A queue of several lanes, which take turns: what is in one keeps its order, and holds up no other. */
export class Lanes<Item> {
  /** In the order of their turns. */
  readonly #lanes = new Map<string, Lane<Item>>();

  /** Whether nothing is left. */
  get isEmpty(): boolean {
    return this.#lanes.size === 0;
  }

  /** Puts an item behind those of its lane. */
  add(name: string, item: Item): void {
    const node: Node<Item> = { item, next: undefined };
    const lane = this.#lanes.get(name);
    if (lane === undefined) this.#lanes.set(name, { first: node, last: node });
    else lane.last = lane.last.next = node;
  }

  /** Takes one item of each lane after the other, round and round, up to the first for which there is no room. */
  take(turn: (item: Item) => Turn): Item[] {
    const taken: Item[] = [];
    // A lane that is put back is come by again, behind the others.
    for (const [name, lane] of this.#lanes) {
      // One that is alone has every turn.
      do {
        const { item, next } = lane.first;
        const what = turn(item);
        if (what === "full") return taken;
        if (what === "passed") break;
        taken.push(item);
        if (next === undefined) this.#lanes.delete(name);
        else lane.first = next;
        if (this.#lanes.size > 1 && this.#lanes.delete(name)) this.#lanes.set(name, lane);
      } while (this.#lanes.size === 1 && this.#lanes.has(name));
    }
    return taken;
  }
}
