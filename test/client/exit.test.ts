import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterEach, beforeEach, expect, test } from "vitest";
import { openedOf, outcomeOf } from "./support/outcome.js";
import { Peer } from "./support/peer.js";

const run = promisify(execFile);
const sdk = new URL("../../client/dist/index.js", import.meta.url).href;
const root = fileURLToPath(new URL("../..", import.meta.url));

let peer: Peer;

beforeEach(async () => {
  peer = await Peer.start();
});

afterEach(() => peer.stop());

/** Runs a program of its own until it ends by itself. */
const program = (code: string) =>
  run(process.execPath, ["--input-type=module", "--eval", `import { Trunkline } from "${sdk}"; ${code}`], {
    cwd: root,
    env: { ...process.env, TRUNKLINE_URL: peer.url },
    timeout: 20_000,
  });

test("a harness that has its results ends by itself, without closing its client", async () => {
  const ended = program(`
    const client = new Trunkline();
    const run = client.runs.open("r1");
    await run.open("forgotten");
    console.log(await run.call("echo"));
  `);
  const stream = await peer.welcomeDrive();
  const first = await stream.until(({ opens }) => opens.length > 0);
  stream.send({ opened: [openedOf(first.opens[0]!, 1)] });
  const second = await stream.until(({ opens }) => opens.length > 0);
  stream.send({
    opened: [openedOf(second.opens[0]!, 2)],
    outcomes: [outcomeOf("r1/2", { resultJson: '"hi"' })],
  });
  expect((await ended).stdout).toBe("hi\n");
});

/** Plays the server to a worker that leaves in order. */
async function letWorkerLeave(): Promise<void> {
  const { stream } = await peer.welcomeWork();
  await stream.until(({ drain }) => drain !== undefined);
  stream.send({ drained: { $typeName: "trunkline.v1.Drained" } });
  await stream.farewell();
}

test("a worker that is stopped lets its process end", async () => {
  const ended = program(`
    const worker = new Trunkline().worker({ tools: { echo: () => 1 } });
    setTimeout(() => worker.stop(), 200);
    await worker.done;
    console.log("done");
  `);
  await letWorkerLeave();
  expect((await ended).stdout).toBe("done\n");
});

test("stopping a stopped worker once more, with a timeout, does not keep the process alive", async () => {
  const ended = program(`
    const worker = new Trunkline().worker({ tools: { echo: () => 1 }, signal: AbortSignal.abort() });
    await worker.done;
    await worker.stop({ timeout: "1h" });
    console.log("done");
  `);
  await letWorkerLeave();
  expect((await ended).stdout).toBe("done\n");
});

test("a wait that was given up on a second handle of a call does not keep the process alive", async () => {
  const ended = program(`
    const client = new Trunkline({ onWarning: () => undefined });
    const run = client.runs.open("r1");
    const first = await run.open("slow", 1, { key: "k" });
    // The stream is cut meanwhile: nobody waits for the first handle, and it is forgotten.
    await run.call("echo");
    const second = await run.open("slow", 1, { key: "k" });
    const wait = new AbortController();
    const waits = [first, second].map((handle) => handle.outcome({ signal: wait.signal }));
    wait.abort();
    console.log((await Promise.allSettled(waits)).map(({ reason }) => reason.name).join());
  `);
  const old = await peer.welcomeDrive();
  old.send({ opened: [openedOf((await old.until(({ opens }) => opens.length > 0)).opens[0]!, 1)] });
  await old.until(({ opens }) => opens.length > 0);
  peer.cut();
  const stream = await peer.welcomeDrive();
  const echo = await stream.until(({ opens }) => opens.length > 0);
  stream.send({
    opened: [openedOf(echo.opens[0]!, 2)],
    outcomes: [outcomeOf("r1/2", { resultJson: "1" })],
  });
  const again = await stream.until(({ opens }) => opens.length > 0);
  stream.send({ opened: [{ ...openedOf(again.opens[0]!, 1), created: false }] });
  expect((await ended).stdout).toBe("AbortError,AbortError\n");
});

test("a server that speaks something else does not end the client's process", async () => {
  const { stdout } = await program(`
    import { createServer } from "node:net";
    const server = createServer((socket) => {
      socket.on("error", () => undefined);
      socket.end("HTTP/1.1 503 Service Unavailable\\r\\n\\r\\n");
    });
    server.listen(0, "127.0.0.1", async () => {
      let tries = 0;
      server.on("connection", () => { if (++tries === 4) worker.stop(); });
      const client = new Trunkline({ url: "http://127.0.0.1:" + server.address().port, retryFor: "1ms" });
      const worker = client.worker({ tools: { echo: () => 1 } });
      await client.runs.create().catch((error) => console.log(error.reason));
      await worker.done;
      await client.close();
      server.close();
      console.log("alive");
    });
  `);
  expect(stdout).toBe("UNAVAILABLE\nalive\n");
});

test("a refused key ends a worker's process with the reason on standard error, and not the key", async () => {
  const { Code, ConnectError } = await import("@connectrpc/connect");
  peer.refusal = new ConnectError("unknown key", Code.Unauthenticated);
  const { stderr } = await program(
    `new Trunkline({ key: "tl_secret" }).worker({ tools: { echo: () => 1 } });`,
  );
  expect(stderr).toContain("unknown key");
  expect(stderr).not.toContain("tl_secret");
});
