import pg from "pg";
import { TrunklineError } from "../core/error.js";

const MULTIPLE = /^(postgres(?:ql)?:\/\/(?:[^@/]*@)?)([^/?]*,[^/?]*)(.*)$/;
const CONNECT_TIMEOUT_MS = 5_000;

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
  return url.replace(/^([a-z]+:\/\/[^:@/]*):[^@/]*@/, "$1:***@").replace(/([?&]password=)[^&]*/g, "$1***");
}

/**
 * The first of the servers that takes writes. A lone server is not asked: the first statement will tell.
 *
 * @throws TrunklineError UNAVAILABLE where none of several can be reached and is out of recovery.
 */
export async function findPrimary(url: string): Promise<string> {
  const servers = listServers(url);
  if (servers.length === 1) return url;
  const seen: string[] = [];
  for (const server of servers) {
    const client = new pg.Client({ connectionString: server, connectionTimeoutMillis: CONNECT_TIMEOUT_MS });
    client.on("error", () => {});
    try {
      await client.connect();
      const { rows } = await client.query<{ recovering: boolean }>(
        "SELECT pg_is_in_recovery() AS recovering",
      );
      if (rows[0]?.recovering === false) return server;
      seen.push(`${withoutPassword(server)} is in recovery`);
    } catch (error) {
      seen.push(`${withoutPassword(server)}: ${error instanceof Error ? error.message : String(error)}`);
    } finally {
      await client.end().catch(() => {});
    }
  }
  throw new TrunklineError("UNAVAILABLE", `no database server takes writes: ${seen.join("; ")}`);
}
