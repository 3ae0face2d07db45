/** The first items of a list that may be long. */
export interface Taken<T> {
  readonly items: readonly T[];
  /** Whether there are more. */
  readonly more: boolean;
}

/** The largest page that a server gives. */
const MAX_PAGE = 1_000;

/** How many things one list shows at most, and when nothing is said. */
export const LIST_LIMIT = { default: 100, max: 100_000 } as const;

/** The size of page with which `limit` items, and whether there are more, come in the fewest requests. */
export function pageSizeFor(limit: number): number {
  return Math.min(limit + 1, MAX_PAGE);
}

/** Takes the first `limit` items of a list, and looks whether there is another one. */
export async function take<T>(list: AsyncIterable<T>, limit: number): Promise<Taken<T>> {
  const items: T[] = [];
  for await (const item of list) {
    if (items.length === limit) return { items, more: true };
    items.push(item);
  }
  return { items, more: false };
}
