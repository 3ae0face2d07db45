import { afterAll, beforeAll, expect, test } from "vitest";
import { Access } from "../../server/src/access/access.js";
import { AccessBook } from "../../server/src/access/access-book.js";
import { makeKey } from "../../server/src/access/issue.js";
import { openDatabase, type Database } from "../../server/src/store/database.js";
import { useDatabase } from "../support/database.js";

const SPEC = { projectId: 1, name: "test", rights: ["worker"] } as const;
/** Between two looks for what other nodes have changed. */
const LOOK_EVERY_MS = 100;

const database = useDatabase();
let db: Database;
let access: Access;
let reads = 0;

beforeAll(() => {
  db = openDatabase({ url: database.url, maxConnections: 2, onError: () => undefined });
  const counted: Database = {
    query: (statement, values) => {
      reads++;
      return db.query(statement, values);
    },
    transaction: (work) => db.transaction(work),
    close: () => db.close(),
  };
  access = new Access({ rootKey: null, insecure: false, book: new AccessBook(counted) });
});
afterAll(() => db.close());

test("keys that another node makes are good here at once, one after the other", async () => {
  for (let count = 0; count < 4; count++) {
    const { key, text } = await makeKey(db, null, SPEC);
    expect(await access.authenticate(`Bearer ${text}`)).toMatchObject({ kind: "key", id: key.id });
  }
});

test("a key that is known costs no read, and guessing costs a few, however many guess", async () => {
  const { text } = await makeKey(db, null, SPEC);
  await access.authenticate(`Bearer ${text}`);
  reads = 0;
  for (let count = 0; count < 100; count++) await access.authenticate(`Bearer ${text}`);
  expect(reads).toBe(0);

  const begunAt = performance.now();
  const guess = (): Promise<unknown> =>
    expect(access.authenticate(`Bearer ${text.slice(0, -1)}-`)).rejects.toMatchObject({
      reason: "UNAUTHENTICATED",
    });
  for (let round = 0; round < 3; round++) await Promise.all(Array.from({ length: 200 }, guess));
  expect(reads).toBeLessThanOrEqual(1 + (performance.now() - begunAt) / LOOK_EVERY_MS);
});
