import { once } from "node:events";
import { copyFile, mkdir, mkdtemp, readFile, rename, rm, symlink, writeFile } from "node:fs/promises";
import type * as http from "node:http";
import * as http2 from "node:http2";
import * as https from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import * as tls from "node:tls";
import { beforeEach, expect, onTestFinished, test } from "vitest";
import { TlsRenewal } from "../../server/src/cli/tls-renewal.js";
import { createLog } from "../../server/src/log.js";
import { listen, type Listener } from "../../server/src/service/listener.js";
import type { TlsFiles } from "../../server/src/service/listener-tls.js";
import { until, within } from "../support/until.js";

const TLS = fileURLToPath(new URL("../support/tls/", import.meta.url));
const [OLD, RENEWED] = ["Trunkline test fixture", "trunkline test, renewed"];

let folder: string;
let lines: { level: number; msg: string }[];
const log = createLog("info", { write: (line: string) => void lines.push(JSON.parse(line)) });

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "trunkline-tls-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  lines = [];
  await put("fixture");
});

const put = async (name: string, what: readonly string[] = ["cert", "key"]): Promise<void> => {
  for (const each of what) await copyFile(`${TLS}${name}-${each}.pem`, join(folder, `${each}.pem`));
};

const read = async (from = folder): Promise<TlsFiles> => ({
  cert: await readFile(join(from, "cert.pem")),
  key: await readFile(join(from, "key.pem")),
});

async function serve(
  readFiles = read,
  everyMs?: number,
): Promise<{ listener: Listener; renewal: TlsRenewal }> {
  const current = await readFiles();
  const handler: Parameters<typeof listen>[0]["handler"] = (_request, response) => response.end("here");
  const listener = await listen({ host: "127.0.0.1", port: 0, tls: current, handler });
  onTestFinished(() => listener.close({ graceMs: 0 }));
  const renew = listener.renewTls.bind(listener);
  const renewal = new TlsRenewal({ current, read: readFiles, renew, log, ...(everyMs && { everyMs }) });
  onTestFinished(() => renewal.stop());
  return { listener, renewal };
}

/** Whose certificate a new connection is shown. */
async function shown({ port }: Listener, options: tls.ConnectionOptions = {}): Promise<string> {
  const socket = tls.connect({ port, host: "127.0.0.1", rejectUnauthorized: false, ...options });
  onTestFinished(() => void socket.destroy());
  await within("a handshake", once(socket, "secureConnect"));
  return String(socket.getPeerCertificate().subject.CN);
}

test("a renewed certificate is shown to new connections, and those that are open live on", async () => {
  const { listener, renewal } = await serve();
  const session = http2.connect(listener.url, { rejectUnauthorized: false });
  onTestFinished(() => session.destroy());
  const agent = new https.Agent({ keepAlive: true, maxSockets: 1, rejectUnauthorized: false });
  onTestFinished(() => agent.destroy());
  const ask = async (): Promise<[string, string, number | undefined]> => {
    const request = https.get(listener.url, { agent });
    const [response] = (await once(request, "response")) as [http.IncomingMessage];
    const { localPort } = request.socket ?? {};
    return [await text(session.request({ ":path": "/" })), await text(response), localPort];
  };
  const before = await ask();
  expect(await shown(listener)).toBe(OLD);
  await put("fixture-renewed");
  await renewal.look();
  expect(await shown(listener)).toBe(RENEWED);
  expect(await ask()).toEqual(before);
  expect(lines).toMatchObject([{ level: 30, msg: "TLS: the renewed certificate is in use" }]);
});

test("links to folders that change places are followed, without anybody asking", async () => {
  for (const [name, from] of [
    ["one", "fixture"],
    ["two", "fixture-renewed"],
  ] as const) {
    await mkdir(join(folder, name));
    for (const each of ["cert", "key"])
      await copyFile(`${TLS}${from}-${each}.pem`, join(folder, name, `${each}.pem`));
  }
  await symlink("one", join(folder, "live"));
  const { listener } = await serve(() => read(join(folder, "live")), 20);
  expect(await shown(listener)).toBe(OLD);
  await symlink("two", join(folder, "next"));
  await rename(join(folder, "next"), join(folder, "live"));
  await until("the renewed certificate", async () => (await shown(listener)) === RENEWED);
});

test("a bad pair is told of once, and the good one stays until there is another", async () => {
  const { listener, renewal } = await serve();
  // As when one file is written and the other is still to come.
  await put("fixture-renewed", ["cert"]);
  for (let time = 0; time < 3; time++) await renewal.look();
  expect(lines).toMatchObject([{ level: 50, msg: expect.stringContaining("the renewed pair is refused") }]);
  expect(await shown(listener)).toBe(OLD);
  await writeFile(join(folder, "cert.pem"), "no certificate");
  await renewal.look();
  expect(lines).toHaveLength(2);
  await rm(join(folder, "cert.pem"));
  for (let time = 0; time < 3; time++) await renewal.look();
  expect(lines).toHaveLength(3);
  expect(lines[2]).toMatchObject({ level: 50, msg: expect.stringContaining("the files cannot be read") });
  expect(await shown(listener)).toBe(OLD);
  await put("fixture-renewed");
  await renewal.look();
  expect(await shown(listener)).toBe(RENEWED);
  // What was refused has left nothing behind: protocols and ALPN are as they were.
  expect(await shown(listener, { ALPNProtocols: ["h2"] })).toBe(RENEWED);
  expect(JSON.stringify(lines)).not.toContain("PRIVATE KEY");
});

test.each(["before", "after"])("TLS older than 1.2 is refused %s a renewal", async (when) => {
  const { listener, renewal } = await serve();
  if (when === "after") {
    await put("fixture-renewed");
    await renewal.look();
  }
  const old = { minVersion: "TLSv1", maxVersion: "TLSv1.1", ciphers: "DEFAULT:@SECLEVEL=0" } as const;
  await expect(shown(listener, old)).rejects.toThrow(/protocol version|ECONNRESET|disconnected/);
  await shown(listener, { maxVersion: "TLSv1.2" });
});

test("under TLS browsers are told to come back by TLS alone", async () => {
  const { listener } = await serve();
  const request = https.get(listener.url, { rejectUnauthorized: false });
  const [response] = (await once(request, "response")) as [http.IncomingMessage];
  response.resume();
  expect(response.headers["strict-transport-security"]).toBe("max-age=31536000");
});
