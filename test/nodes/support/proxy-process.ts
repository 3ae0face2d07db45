import { spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { chown, mkdtemp, rm, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { TestProcess } from "../../support/child-process.js";
import { until } from "../../support/until.js";

const PLACES = [...(process.env["PATH"] ?? "").split(":"), "/usr/sbin", "/usr/local/sbin"];

/** An account without rights, on every Linux; proxies change to one anyway. */
const NOBODY = 65_534;

const fixture = (name: string): string =>
  readFileSync(new URL(`../../support/tls/${name}`, import.meta.url), "utf8");

/** What proxies of the tests show when they speak TLS. */
export const CERTIFICATE = fixture("fixture-cert.pem");
/** Its key. */
export const PRIVATE_KEY = fixture("fixture-key.pem");

/** The program of this name, where it is installed. */
export function installed(name: string): string | undefined {
  return PLACES.map((folder) => join(folder, name)).find((file) => existsSync(file));
}

/** A program that stands between the nodes and their clients. */
export interface ProxyProcess extends AsyncDisposable {
  /** What it wrote on standard error. */
  readonly log: string;
}

/** How a proxy is started; its files are in a folder of its own, which is given to what names it. */
export interface ProxyProgram {
  readonly program: string;
  readonly args: (folder: string) => readonly string[];
  readonly files: (folder: string) => Promise<Readonly<Record<string, string>>>;
  /** On which it is to take connections. */
  readonly ports: readonly number[];
}

/** Starts one; resolves when it takes connections. */
export async function startProxy({ program, args, files, ports }: ProxyProgram): Promise<ProxyProcess> {
  const folder = await mkdtemp(join(tmpdir(), "trunkline-proxy-"));
  for (const [name, text] of Object.entries(await files(folder))) await writeFile(join(folder, name), text);
  const isRoot = process.getuid?.() === 0;
  if (isRoot) await chown(folder, NOBODY, NOBODY);
  const child = spawn(program, args(folder), {
    stdio: ["ignore", "ignore", "pipe"],
    ...(isRoot && { uid: NOBODY, gid: NOBODY }),
  });
  const proxy = new TestProcess(child);
  const end = async (): Promise<void> => {
    await proxy.kill();
    await rm(folder, { recursive: true, force: true });
  };
  try {
    for (const port of ports) {
      await until(`${program} takes connections`, async () => {
        if (!proxy.isAlive) throw new Error(`${program} ended: ${proxy.stderr}`);
        return isThere(port);
      });
    }
  } catch (error) {
    await end();
    throw error;
  }
  return {
    get log() {
      return proxy.stderr;
    },
    [Symbol.asyncDispose]: end,
  };
}

function isThere(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: "127.0.0.1" });
    const say = (there: boolean): void => {
      socket.destroy();
      resolve(there);
    };
    socket.once("connect", () => say(true));
    socket.once("error", () => say(false));
  });
}
