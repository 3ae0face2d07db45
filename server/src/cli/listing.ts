import type { Json } from "./json-document.js";
import type { Output } from "./output.js";
import type { Column } from "./table.js";
import { take } from "./take.js";

/** How a list of things is shown. */
export interface Listing<T> {
  readonly columns: readonly Column[];
  row(item: T): readonly string[];
  document(item: T): Json;
  /** Said to people when there is nothing to show. */
  readonly none: string;
}

/** Shows the first `limit` things of a list: a table for people, a document a line for machines. */
export async function showList<T>(
  output: Output,
  list: AsyncIterable<T>,
  limit: number,
  listing: Listing<T>,
): Promise<void> {
  const { items, more } = await take(list, limit);
  if (output.json) for (const item of items) output.document(listing.document(item));
  else
    output.table(
      listing.columns,
      items.map((item) => listing.row(item)),
    );
  if (items.length === 0 && !output.json) output.note(listing.none);
  if (more) output.note(`these are the first ${limit}, there are more; --limit N shows up to N`);
}
