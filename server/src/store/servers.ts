import pg from "pg";
import { TrunklineError } from "../core/error.js";

const MULTIPLE = /^(postgres(?:ql)?:\/\/(?:[^@/]*@)?)([^/?]*,[^/?]*)(.*)$/;
const CONNECT_TIMEOUT_MS = 5_000;
/** How long the other servers have for their answer once one was found that takes writes. */
const OTHERS_MS = 500;

/** A standby has no timeline of its own to tell; each promotion begins the next one. */
const LOOK = `SELECT pg_is_in_recovery() AS recovering,
  CASE WHEN NOT pg_is_in_recovery() THEN left(pg_walfile_name(pg_current_wal_lsn()), 8) END AS timeline`;

/**
 * The servers of a connection string, each with a connection string of its own. The driver refuses lists
 * such as `postgres://user@one:5432,two:5433/name`, so they are taken apart here.
 */
export function listServers(url: string): readonly string[] {
  const [, before, hosts, after] = MULTIPLE.exec(url) ?? [];
  if (before === undefined || hosts === undefined || after === undefined) return [url];
  return hosts.split(",").map((host) => `${before}${host}${after}`);
}

/** A connection string without its password, for messages. */
export function withoutPassword(url: string): string {
  // A password that should have been escaped may have an @ or a / itself.
  return url
    .replace(/^([a-z]+:\/\/[^:@/]*):.*@/s, "$1:***@")
    .replace(/([?&](?:ssl)?password=)[^&]*/g, "$1***");
}

type Seen =
  | { readonly type: "primary"; readonly server: string; readonly timeline: number }
  | { readonly type: "other"; readonly why: string; readonly cause: unknown };

/**
 * The server that takes writes. A lone server is not asked: the first statement will tell. Several are asked at
 * once, so that one which does not answer costs no time. Where two take writes, since the old primary does
 * not know that the other one was promoted, it is the one on the later timeline, else the first of the list.
 *
 * @throws TrunklineError UNAVAILABLE where none of several can be reached and is out of recovery.
 */
export async function findPrimary(url: string): Promise<string> {
  const servers = listServers(url);
  if (servers.length === 1) return url;
  const looks = servers.map(look);
  let timer: NodeJS.Timeout | undefined;
  const others = new Promise<void>((resolve) => {
    for (const one of looks) {
      void one.then(({ type }) => {
        if (type === "primary") timer ??= setTimeout(resolve, OTHERS_MS);
      });
    }
  });
  const seen: Seen[] = [];
  for (const one of looks) void one.then((answer) => seen.push(answer));
  await Promise.race([Promise.all(looks), others]);
  clearTimeout(timer);
  const primaries = seen.filter((one) => one.type === "primary");
  const latest = Math.max(...primaries.map(({ timeline }) => timeline));
  const found = servers.find((server) =>
    primaries.some((one) => one.server === server && one.timeline === latest),
  );
  if (found !== undefined) return found;
  const failed = seen.filter((one) => one.type === "other");
  throw new TrunklineError(
    "UNAVAILABLE",
    `no database server takes writes: ${failed.map(({ why }) => why).join("; ")}`,
    { cause: failed[0]?.cause },
  );
}

/** Never rejects. */
async function look(server: string): Promise<Seen> {
  const client = new pg.Client({
    connectionString: server,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    query_timeout: CONNECT_TIMEOUT_MS,
  });
  client.on("error", () => {});
  try {
    await client.connect();
    const { rows } = await client.query<{ recovering: boolean; timeline: string | null }>(LOOK);
    const [row] = rows;
    if (row?.recovering === false)
      return { type: "primary", server, timeline: parseInt(row.timeline ?? "0", 16) };
    return { type: "other", why: `${withoutPassword(server)} is in recovery`, cause: inRecovery() };
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return { type: "other", why: `${withoutPassword(server)}: ${why}`, cause: error };
  } finally {
    // A server that does not answer is not waited for.
    void client.end().catch(() => {});
  }
}

/** What a statement that writes would be told there: read_only_sql_transaction. */
function inRecovery(): Error {
  return Object.assign(new Error("the server is in recovery"), { code: "25006" });
}
