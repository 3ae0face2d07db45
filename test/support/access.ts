import { Access } from "../../server/src/access/access.js";
import { AccessBook } from "../../server/src/access/access-book.js";
import type { Database } from "../../server/src/store/database.js";

/** How a server of a test knows its callers: by its root key and by what is in its database, or not at all. */
export interface AccessSpec {
  /** Null: whoever comes has all rights. */
  readonly rootKey: string | null;
}

/** What tells callers apart, as a server that has just started knows it. */
export async function openAccess(db: Database, { rootKey }: AccessSpec): Promise<Access> {
  const book = new AccessBook(db);
  await book.read();
  return new Access({ rootKey, insecure: rootKey === null, book });
}
