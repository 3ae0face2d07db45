/**
 * A test process: starts a server, says so, and stops it when its standard input ends. What it says are lines of JSON.
 */

/** @type {{ module: string; options: import("trunkline/testing").TestServerOptions }} */
const { module, options } = JSON.parse(process.argv[2] ?? "");
/** @type {typeof import("trunkline/testing")} */
const { startTestServer } = await import(module);

const startedAt = performance.now();
const server = await startTestServer(options);
const readyMs = performance.now() - startedAt;
const run = await server.client.runs.create({ key: "mine" });
const { items } = await server.client.runs.list();
console.log(JSON.stringify({ readyMs, run: run.id, runs: items.length, url: server.url }));

process.stdin.resume().once("end", async () => {
  await server.stop();
  await server.stop();
  const stoppedAt = performance.now();
  process.once("exit", () => {
    console.log(JSON.stringify({ lingeredMs: performance.now() - stoppedAt }));
  });
});
