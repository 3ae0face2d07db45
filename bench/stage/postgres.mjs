// The PostgreSQL of a run.
import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startEmbeddedPostgres } from "trunkline";

/** A PostgreSQL with fsync on, in a temporary folder, or the one that DATABASE_URL names. */
export async function startPostgres() {
  if (process.env.DATABASE_URL !== undefined) {
    return { url: process.env.DATABASE_URL, stop: () => Promise.resolve() };
  }
  const folder = await mkdtemp(join(tmpdir(), "trunkline-bench-"));
  // As root, PostgreSQL runs under an account that must be able to get in; else its data is kept elsewhere.
  await chmod(folder, 0o755);
  const server = await startEmbeddedPostgres({ dataDir: join(folder, "pg") });
  const stop = async () => {
    await server.stop();
    await rm(folder, { recursive: true, force: true });
  };
  return { url: server.url, stop };
}
