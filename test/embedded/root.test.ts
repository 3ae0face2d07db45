import { existsSync } from "node:fs";
import { chmod, chown, cp, mkdir, readFile, rm, stat } from "node:fs/promises";
import { createRequire } from "node:module";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, test } from "vitest";
import { canEnter, chooseAccount } from "../../server/src/embedded/account.js";
import { checkBinaries, copyBinaries } from "../../server/src/embedded/binaries.js";
import { startEmbeddedPostgres } from "../../server/src/embedded/embedded-postgres.js";
import { placeDataFolder } from "../../server/src/embedded/places.js";
import { newDataFolder } from "../support/postgres.js";
import { startInProcess } from "./starter-process.js";

const isRoot = process.platform === "linux" && process.getuid?.() === 0;
const folders: string[] = [];

function folder(): string {
  const path = newDataFolder();
  folders.push(path);
  return path;
}

async function systemAccount(): Promise<{ uid: number; gid: number }> {
  const account = await chooseAccount("/no/such/folder");
  if (account === undefined) throw new Error("these tests run as root");
  return account;
}

afterAll(async () => {
  for (const path of folders) await rm(path, { recursive: true, force: true });
});

describe.runIf(isRoot)("an embedded PostgreSQL that root starts", () => {
  test("runs as another user, in a folder that only that user can read", async () => {
    const dataDir = join(folder(), "project", ".trunkline", "pg");
    const server = await startEmbeddedPostgres({ dataDir, durable: false });
    const status = await readFile(`/proc/${server.pid}/status`, "utf8");
    expect(Number(/^Uid:\s+(\d+)/m.exec(status)?.[1])).not.toBe(0);
    expect((await stat(dataDir)).mode & 0o777).toBe(0o700);
    await server.stop();
  });

  test("below a private folder keeps its data elsewhere, always in the same place, and says where", async () => {
    const secret = folder();
    await mkdir(secret, { mode: 0o700 });
    const dataDir = join(secret, ".trunkline", "pg");
    const log: string[] = [];
    const server = await startEmbeddedPostgres({ dataDir, durable: false, log: (line) => log.push(line) });
    await server.stop();
    folders.push(server.dataDir);
    const place = await placeDataFolder(dataDir, await systemAccount(), () => undefined);
    expect(server.dataDir).toBe(place);
    expect(existsSync(join(place, "PG_VERSION"))).toBe(true);
    expect(log.join("\n")).toContain(`its data is in ${place}`);
  });

  test("takes the account of the project's owner, who can run it later without root", async () => {
    const account = await systemAccount();
    const project = folder();
    await mkdir(project);
    await chown(project, account.uid, account.gid);
    expect(await chooseAccount(join(project, ".trunkline", "pg"))).toEqual(account);
  });

  test("runs from a copy of programs that the other user cannot read", async () => {
    const account = await systemAccount();
    const outer = createRequire(import.meta.resolve("embedded-postgres"));
    const platform = `@embedded-postgres/${process.platform}-${process.arch}`;
    const bundled = join(dirname(dirname(outer.resolve(platform))), "native");
    const secret = folder();
    await mkdir(secret, { mode: 0o700 });
    await cp(bundled, join(secret, "native"), { recursive: true, verbatimSymlinks: true });
    await chmod(join(secret, "native", "bin", "postgres"), 0o700);
    expect(await checkBinaries(join(secret, "native"), account)).toHaveProperty("problem");

    const target = folder();
    await copyBinaries(join(secret, "native"), target, account);
    await copyBinaries(join(secret, "native"), target, account);
    expect(await checkBinaries(target, account)).toHaveProperty("binaries");
    expect(basename(target)).not.toContain(".");
  });

  test("can be started by an ordinary user as well", async ({ skip }) => {
    const account = await systemAccount();
    const here = dirname(fileURLToPath(import.meta.url));
    if (!(await canEnter(account, here))) skip("the checkout is in a private folder");
    const home = folder();
    await mkdir(home);
    await chown(home, account.uid, account.gid);
    const server = await startInProcess({ dataDir: join(home, ".trunkline", "pg"), durable: false }, account);
    const status = await readFile(`/proc/${server.pid}/status`, "utf8");
    expect(Number(/^Uid:\s+(\d+)/m.exec(status)?.[1])).toBe(account.uid);
    await server.stop();
    expect(existsSync(`/proc/${server.pid}`)).toBe(false);
  });
});
