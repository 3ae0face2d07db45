import { createServer, type Socket } from "node:net";
import { once } from "node:events";
import { describe, expect, test } from "vitest";
import {
  checkDurability,
  classifyError,
  openDatabase,
  type Database,
} from "../../server/src/store/database.js";
import { listServers, withoutPassword } from "../../server/src/store/servers.js";
import { useDatabase } from "../support/database.js";

const database = useDatabase();

const one = (text: string): { name: string; text: string } => ({ name: text.slice(0, 60), text });

async function using<T>(
  options: Partial<Parameters<typeof openDatabase>[0]>,
  work: (db: Database) => Promise<T>,
): Promise<T> {
  const db = openDatabase({ url: database.url, maxConnections: 2, onError: () => {}, ...options });
  try {
    return await work(db);
  } finally {
    await db.close();
  }
}

const caught = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => undefined,
    (error: unknown) => error,
  );

describe("openDatabase", () => {
  test("gives big numbers as numbers and JSON as its text", async () => {
    await using({}, async (db) => {
      const text = '{"a": 1e400, "a": 9007199254740993}';
      expect(
        await db.query(one("SELECT 9007199254740991::bigint AS n, $1::json AS j, NULL::bigint AS none"), [
          text,
        ]),
      ).toEqual([{ n: 9007199254740991, j: text, none: null }]);
    });
  });

  test("plans and reads in UTC, with no setting of its own behind a pooler", async () => {
    const settings = one(
      "SELECT current_setting('TimeZone') AS zone, current_setting('enable_seqscan') AS scans, current_setting('jit') AS jit",
    );
    expect(await using({}, (db) => db.query(settings, []))).toEqual([
      { zone: "UTC", scans: "off", jit: "off" },
    ]);
    const url = `${database.url}?options=${encodeURIComponent("-c work_mem=8MB")}`;
    expect(await using({ url }, (db) => db.query(settings, []))).toMatchObject([
      { zone: "UTC", scans: "off" },
    ]);
    expect(await using({ url }, (db) => db.query(one("SHOW work_mem"), []))).toEqual([{ work_mem: "8MB" }]);
    expect(await using({ unnamed: true }, (db) => db.query(settings, []))).toMatchObject([{ scans: "on" }]);
  });

  test("prepares statements by name, and none for a pooler", async () => {
    const prepared = one("SELECT count(*) AS n FROM pg_prepared_statements");
    const twice = async (db: Database): Promise<unknown> => {
      await db.query(prepared, []);
      return (await db.query(prepared, []))[0];
    };
    expect(await using({ maxConnections: 1 }, twice)).toEqual({ n: 1 });
    expect(await using({ maxConnections: 1, unnamed: true }, twice)).toEqual({ n: 0 });
  });

  test("commits a transaction that ends well and rolls back one that throws, whose connection stays good", async () => {
    await using({ maxConnections: 1 }, async (db) => {
      await db.query(one("CREATE TABLE t (a int PRIMARY KEY)"), []);
      const add = one("INSERT INTO t VALUES ($1)");
      await db.transaction((tx) => tx.query(add, [1]));
      const failed = db.transaction(async (tx) => {
        await tx.query(add, [2]);
        await tx.transaction((inner) => inner.query(add, [1]));
      });
      expect(classifyError(await caught(failed))).toBe("item");
      expect(await db.query(one("SELECT a, pg_backend_pid() > 0 AS up FROM t"), [])).toEqual([
        { a: 1, up: true },
      ]);
    });
  });

  test("goes on after its connections were cut, and says of the cut statement that nobody knows (I6)", async () => {
    await using({ maxConnections: 1, applicationName: "to be cut" }, async (db) => {
      await db.query(one("SELECT 1"), []);
      const sleeping = caught(db.query(one("SELECT pg_sleep(60)"), []));
      for (let cut = 0; cut === 0;) {
        const { rowCount } = await database.pool().query(
          `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
          WHERE application_name = 'to be cut' AND query LIKE '%pg_sleep%'`,
        );
        cut = rowCount ?? 0;
      }
      expect(classifyError(await sleeping)).toBe("lost");
      expect(await db.query(one("SELECT 1 AS up"), [])).toEqual([{ up: 1 }]);
    });
  });

  test("takes the first of several servers that answers and takes writes", async () => {
    const deaf = createServer((socket: Socket) => socket.destroy()).listen(0, "127.0.0.1");
    await once(deaf, "listening");
    const address = deaf.address();
    const port = typeof address === "object" && address !== null ? address.port : 0;
    const url = new URL(database.url);
    const several = database.url.replace(url.host, `127.0.0.1:${port},${url.host}`);
    expect(await using({ url: several }, (db) => db.query(one("SELECT 1 AS up"), []))).toEqual([{ up: 1 }]);
    const none = database.url.replace(url.host, `127.0.0.1:${port},127.0.0.1:${port}`);
    const error = await using({ url: none }, (db) => caught(db.query(one("SELECT 1"), [])));
    expect(error).toMatchObject({
      reason: "UNAVAILABLE",
      message: expect.stringContaining("no database server takes writes"),
    });
    deaf.close();
  });
});

describe("a connection string", () => {
  test("with several servers is taken apart, each with user, database and options", () => {
    expect(listServers("postgres://u:p@a:1,b,[::1]:3/db?sslmode=require")).toEqual([
      "postgres://u:p@a:1/db?sslmode=require",
      "postgres://u:p@b/db?sslmode=require",
      "postgres://u:p@[::1]:3/db?sslmode=require",
    ]);
    expect(listServers("postgresql://u@a/db?options=-c%20x=1,2")).toEqual([
      "postgresql://u@a/db?options=-c%20x=1,2",
    ]);
    expect(listServers("postgres://a,b/db")).toEqual(["postgres://a/db", "postgres://b/db"]);
  });

  test("is shown without its password (S14)", () => {
    expect(withoutPassword("postgres://u:secret@a/db?password=secret&x=1")).toBe(
      "postgres://u:***@a/db?password=***&x=1",
    );
    expect(withoutPassword("postgres://u:se@cr/et@a/db")).toBe("postgres://u:***@a/db");
    expect(withoutPassword("postgres://u@a/db")).toBe("postgres://u@a/db");
  });
});

describe("classifyError", () => {
  const coded = (code: string): Error => Object.assign(new Error("x"), { code });

  test.each([
    ...["40P01", "40001", "55P03"].map((code) => ({ code, kind: "retry" })),
    ...["08006", "08P01", "57P01", "57P03", "53300", "25006", "ECONNRESET", "EPIPE"].map((code) => ({
      code,
      kind: "lost",
    })),
    ...["22021", "22P02", "22P05", "23505", "23514"].map((code) => ({ code, kind: "item" })),
    ...["42601", "42P01", "28P01", "0A000"].map((code) => ({ code, kind: "fatal" })),
  ])("sorts $code as $kind", ({ code, kind }) => {
    expect(classifyError(coded(code))).toBe(kind);
  });

  test("knows what the driver says without a code, and takes all else for a fault", async () => {
    expect(classifyError(new Error("Connection terminated unexpectedly"))).toBe("lost");
    expect(classifyError(new Error("timeout exceeded when trying to connect"))).toBe("lost");
    expect(classifyError(new AggregateError([coded("ECONNREFUSED")]))).toBe("lost");
    expect(classifyError(new Error("x"))).toBe("fatal");
    expect(classifyError(undefined)).toBe("fatal");
    const url = new URL(database.url);
    url.port = "1";
    expect(classifyError(await using({ url: url.href }, (db) => caught(db.query(one("SELECT 1"), []))))).toBe(
      "lost",
    );
  });
});

describe("checkDurability", () => {
  test("warns of a server that may forget what it acknowledged, and names the setting (I5)", async () => {
    const client = await database.pool().connect();
    const { rows } = await client.query<{ fsync: string }>("SHOW fsync");
    client.release();
    await using({}, async (db) => {
      expect((await checkDurability(db)).some((warning) => warning.includes("fsync = off"))).toBe(
        rows[0]?.fsync === "off",
      );
    });
    const url = `${database.url}?options=${encodeURIComponent("-c synchronous_commit=off")}`;
    await using({ url }, async (db) => {
      expect(await checkDurability(db)).toContainEqual(expect.stringContaining("synchronous_commit = off"));
    });
  });
});
