import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { Trunkline } from "../../client/src/index.js";
import { claimOf } from "./support/claim.js";
import { openedOf, outcomeOf } from "./support/outcome.js";
import { Peer } from "./support/peer.js";

const fixture = (name: string): string =>
  readFileSync(new URL(`../support/tls/${name}`, import.meta.url), "utf8");

const cert = fixture("fixture-cert.pem");
const key = fixture("fixture-key.pem");

test("worker, calls and requests reach a server over TLS whose certificate they were given", async () => {
  await using peer = await Peer.start({ runs: { endRun: () => ({ run: { id: "r1" } }) } }, { cert, key });
  expect(peer.url).toMatch(/^https:/);
  const client = new Trunkline({ url: peer.url, tls: { ca: cert }, onWarning: () => undefined });
  const worker = client.worker({ tools: { echo: () => 1 } });
  const { stream } = await peer.welcomeWork();
  stream.send({ claims: [claimOf()] });
  await stream.until(({ answers }) => answers.length > 0);
  const result = client.runs.open("r1").call("echo");
  const drive = await peer.welcomeDrive();
  const { opens } = await drive.until((frame) => frame.opens.length > 0);
  drive.send({ opened: [openedOf(opens[0]!, 1)], outcomes: [outcomeOf("r1/1", { resultJson: "2" })] });
  expect(await result).toBe(2);
  await client.runs.end("r1");
  await worker.stop({ timeout: "1ms" });
  await client.close();
});

test("a certificate that is not trusted is said, and the key is not sent", async () => {
  await using peer = await Peer.start({}, { cert, key });
  const client = new Trunkline({ url: peer.url, key: "secret", retryFor: "1ms" });
  await expect(client.runs.end("r1")).rejects.toThrow(/self-signed certificate/);
  await client.close();
});
