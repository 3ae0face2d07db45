import { once } from "node:events";
import { copyFile, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect } from "node:tls";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { useDatabase } from "../support/database.js";
import { until, within } from "../support/until.js";
import { RunningCommand, trunkline } from "./command.js";

const database = useDatabase();
const KEY = "a-root-key-for-this-test";
const env = (): NodeJS.ProcessEnv => ({ DATABASE_URL: database.url, TRUNKLINE_ROOT_KEY: KEY });

test("plain text for other machines is refused before anything is started", async () => {
  const refused = await trunkline(["serve", "--host", "192.0.2.1"], { env: env() });
  expect(refused).toMatchObject({ status: 2, stdout: "" });
  expect(refused.stderr).toMatch(
    /^error: --host: "192\.0\.2\.1" is not loopback.*--tls-cert and --tls-key.*--insecure-plaintext.*\n$/,
  );
});

test("a server that nobody could use is refused, with what to do", async () => {
  const refused = await trunkline(["serve", "--port", "0", "--log-level", "silent"], {
    env: { DATABASE_URL: database.url },
  });
  expect(refused).toMatchObject({ status: 2, stdout: "" });
  expect(refused.stderr).toMatch(
    /^error: TRUNKLINE_ROOT_KEY: is not set, and the database has no keys; .*trunkline init.*--insecure.*\n$/,
  );
});

test("what is dangerous is said, whatever the log's level", async () => {
  // The database cannot be reached, so that no port is opened.
  const flags = ["--host", "192.0.2.1", "--port", "0", "--insecure", "--insecure-plaintext"];
  const nowhere = { DATABASE_URL: "postgres://user@127.0.0.1:9/name" };
  const { stderr } = await trunkline(["serve", ...flags, "--log-level", "error"], { env: nowhere });
  expect(stderr).toContain("--insecure on 192.0.2.1: EVERYBODY who reaches this address");
  const more = await trunkline(["serve", ...flags, "--log-level", "warn"], { env: nowhere });
  expect(more.stderr).toContain("EVERYBODY");
  expect(more.stderr).toContain(
    "--insecure-plaintext on 192.0.2.1: keys, tokens and payloads cross the network",
  );
});

test("SIGHUP has a renewed certificate read, ends nothing, and connections have their bound", async () => {
  const folder = await mkdtemp(join(tmpdir(), "trunkline-tls-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const put = async (name: string): Promise<void> => {
    for (const each of ["cert", "key"]) {
      const from = new URL(`../support/tls/${name}-${each}.pem`, import.meta.url);
      await copyFile(fileURLToPath(from), join(folder, `${each}.pem`));
    }
  };
  await put("fixture");
  const files = ["--tls-cert", join(folder, "cert.pem"), "--tls-key", join(folder, "key.pem")];
  await using server = new RunningCommand(["serve", "--port", "0", "--max-connections", "2", ...files], {
    env: env(),
  });
  const { port } = new URL(await server.ready());
  const shown = async (): Promise<string> => {
    const socket = connect({ port: Number(port), host: "127.0.0.1", rejectUnauthorized: false });
    onTestFinished(() => void socket.destroy());
    await within("a handshake", once(socket, "secureConnect"));
    return String(socket.getPeerCertificate().subject.CN);
  };
  expect(await shown()).toBe("Trunkline test fixture");
  await put("fixture-renewed");
  server.signal("SIGHUP");
  await until("the renewed certificate", () => server.stderr.includes("the renewed certificate is in use"));
  expect(await shown()).toBe("trunkline test, renewed");
  await expect(shown(), "a third connection").rejects.toThrow();
  await until("a line about it", () => server.stderr.includes("2 connections are open, which is as many"));
  expect(await server.terminate()).toEqual({ status: 0, signal: null });
});
