import { existsSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { hostname } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { Trunkline } from "@trunkline/sdk";
import { describe, expect, test } from "vitest";
import { LIMITS } from "../../server/src/core/limits.js";
import { DEFAULT_POLICY, resolvePolicy } from "../../server/src/core/policy.js";
import { QUOTA_NAMES } from "../../server/src/core/quota.js";
import { constantOf, fieldsOf } from "./support/interface-fields.js";
import { anchorsOf, linksOf, tablesOf } from "./support/markdown.js";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));

const read = (path: string): Promise<string> => readFile(join(ROOT, path), "utf8");

/** A length of time as the tables write it: in the largest unit up to seconds. */
const seconds = (ms: number): string => `${ms / 1000} s`;

const count = (value: number): string => value.toLocaleString("en");

function bytes(value: number): string {
  const MIB = 1024 * 1024;
  if (value % MIB === 0) return `${value / MIB} MiB`;
  return value % 1024 === 0 ? `${value / 1024} KiB` : `${value} bytes`;
}

describe("the README's tables of options", () => {
  const tables = read("README.md").then(tablesOf);

  test("name every option of a worker, with its default", async () => {
    const path = join(ROOT, "client/src/worker.ts");
    const [options = new Map<string, string>()] = await tables;
    expect([...options.keys()]).toEqual(await fieldsOf(path, "WorkerOptions"));
    expect(options.get("concurrency")).toBe(await constantOf(path, "DEFAULT_CONCURRENCY"));
    expect(options.get("name")).toBe("host and process");
    expect(await readFile(path, "utf8")).toContain(`options.onError ?? ${options.get("onError") ?? ""};`);
    for (const unset of ["tools", "signal"]) expect(options.get(unset)).toBe("");
  });

  test("are right about a worker's name", async () => {
    const client = new Trunkline({ url: "http://127.0.0.1:9", onWarning: () => undefined });
    const worker = client.worker({ tools: { t: () => null }, signal: AbortSignal.abort() });
    expect(worker.name).toBe(`${hostname()}:${process.pid}`);
    await client.close();
  });

  test("name every field of a policy, with its default", async () => {
    const [, policy = new Map<string, string>()] = await tables;
    const fields = await fieldsOf(join(ROOT, "client/src/policy.ts"), "Policy");
    expect([...policy.keys()].map((row) => row.split(":")[0])).toEqual(fields);
    const backoff = await read("client/src/policy.ts").then((text) => /backoff\?: \{(.*)\}/.exec(text)?.[1]);
    expect([...policy.keys()]).toContain(`backoff: { ${namesIn(backoff ?? "").join(", ")} }`);

    const ours = DEFAULT_POLICY;
    const pauses = [seconds(ours.backoffInitialMs), ours.backoffFactor, seconds(ours.backoffMaxMs)];
    const timeout = (ms: number | null): string => (ms === null ? "none" : seconds(ms));
    expect([...policy.values()]).toEqual([
      ours.mode,
      String(ours.maxAttempts),
      pauses.join(", "),
      timeout(ours.heartbeatTimeoutMs),
      timeout(ours.detachGraceMs),
      timeout(ours.attemptTimeoutMs),
      timeout(ours.totalTimeoutMs),
      timeout(ours.deferTimeoutMs),
    ]);
    expect(await read("README.md")).toContain("may have started; 1 under `at_most_once`");
    expect(resolvePolicy({ mode: "at_most_once" }, {}, 5_000).maxAttempts).toBe(1);
  });
});

const namesIn = (fields: string): string[] => [...fields.matchAll(/(\w+)\?:/g)].map(([, name]) => name ?? "");

describe("the table of limits", () => {
  test("says of every limit what the server enforces", async () => {
    const seen = new Set<string | symbol>();
    const limits = new Proxy(LIMITS, {
      get: (target, name, receiver) => {
        seen.add(name);
        return Reflect.get(target, name, receiver) as unknown;
      },
    });
    const years = limits.durationMs / (365 * 24 * 60 * 60 * 1000);
    expect(years).toBe(10);
    const [table = new Map<string, string>()] = tablesOf(await read("docs/limits.md"));
    expect(Object.fromEntries(table)).toEqual({
      "input, result": bytes(limits.payloadBytes),
      "failure message": bytes(limits.failureMessageBytes),
      "failure data, progress": bytes(limits.failureDataBytes),
      "depth of JSON": count(limits.jsonDepth),
      "tool name": `${limits.toolNameBytes} of [A-Za-z0-9_.-]`,
      "namespace, key, session id, worker name": `${limits.nameBytes} bytes, no control characters`,
      "labels of a run": `${limits.labels}; names ${limits.labelNameBytes} bytes, values ${limits.labelValueBytes} bytes`,
      "calls in one request": count(limits.callsPerRequest),
      "slots that a worker's stream may have outstanding": count(limits.credit),
      "tools of a toolset": count(limits.toolsPerToolset),
      "description of a tool": bytes(limits.toolDescriptionBytes),
      "schema of a tool": `${bytes(limits.toolSchemaBytes)}, depth ${limits.toolSchemaDepth}, $ref only within itself, patterns without look-around`,
      attempts: `1 to ${count(limits.maxAttempts)}`,
      "failed attempts kept on a call": `the last ${limits.attemptHistory}`,
      "completion tokens of a call": count(limits.tokensPerCall),
      priority: "-100 to 100",
      durations: "positive, at most ten years; ms s m h d w, as 1h30m",
      "a stream's frame": `${bytes(limits.frameBytes)}; a side closes a frame at ${bytes(limits.frameTargetBytes)} unless one item is larger`,
      "items of all lists of one message together": count(limits.messageItems),
      "a page of a unary answer": `${bytes(limits.pageBytes)}, ${count(limits.pageItems)} items`,
      "a wait in one unary request": "60 s",
      "opens waiting on one Drive stream": `${count(limits.driveOpens)}, or ${bytes(limits.driveBytes)}; then the server stops reading until there is room`,
      "acks and other replies unread on one Work stream": `${bytes(limits.workReplyBytes)}; then the server ends the stream`,
      "answers, deferrals and releases of one Work stream that wait for the database": `${count(limits.workItemsWaiting)}; then the server ends the stream`,
      "opens waiting at one node": `${count(limits.opensWaiting)}, or ${bytes(limits.opensWaitingBytes)}; more are refused as OVERLOADED`,
      "unary requests under way at one node": `${count(limits.requestsInFlight)}, and ${count(limits.waitsInFlight)} waits; more are refused as OVERLOADED`,
      "requests of one RPC at one node that show no credential, where it asks for none": `${count(limits.anonymousRequests)}, and ${bytes(limits.anonymousBodyBytes)} of bodies of all of them; more are refused`,
    });
    expect(limits.progressBytes).toBe(limits.failureDataBytes);
    expect([...seen].sort()).toEqual(Object.keys(LIMITS).sort());

    const service = join(ROOT, "server/src/service");
    expect(await constantOf(join(service, "door.ts"), "MAX_PRIORITY")).toBe("100");
    for (const file of ["wait-calls.ts", "work-unary.ts"]) {
      expect(await constantOf(join(service, file), "MAX_WAIT_MS")).toBe("60_000");
    }
  });

  test("has a line for everything that --limit takes", async () => {
    const tables = tablesOf(await read("docs/limits.md"));
    expect(tables.map((table) => [...table.keys()])).toContainEqual([...QUOTA_NAMES]);
  });
});

describe("the documents", () => {
  const documents = Promise.all([documentsIn(""), documentsIn("docs"), documentsIn("examples")]);

  test("link to what is there", async () => {
    const dead: string[] = [];
    let links = 0;
    for (const document of (await documents).flat()) {
      for (const link of linksOf(await read(document))) {
        links++;
        if (link.startsWith("https://") || (await isThere(document, link))) continue;
        dead.push(`${document}: ${link}`);
      }
    }
    expect(dead).toEqual([]);
    expect(links).toBeGreaterThan(8);
  });

  test("name files and tests that exist", async () => {
    const missing: string[] = [];
    for (const document of ["docs/security.md", "docs/guarantees.md", "docs/dependencies.md"]) {
      for (const [, path = ""] of (await read(document)).matchAll(
        /`((?:client|server|test|tools)\/[\w./-]+)`/g,
      )) {
        const isFound = ["", ".test.ts"].some((end) => existsSync(join(ROOT, path + end)));
        if (!isFound) missing.push(`${document}: ${path}`);
      }
    }
    expect(missing).toEqual([]);
  });

  test("name scripts and programs that exist", async () => {
    const { scripts } = JSON.parse(await read("package.json")) as { scripts: Record<string, string> };
    const missing: string[] = [];
    for (const document of (await documents).flat()) {
      const text = await read(document);
      for (const [command, script = ""] of text.matchAll(/npm run (?:--\w+ )?([\w:]+)/g)) {
        if (!Object.hasOwn(scripts, script)) missing.push(`${document}: ${command}`);
      }
      for (const [command, program = ""] of text.matchAll(/node ((?:tools|examples)\/[\w./-]+)/g)) {
        if (!existsSync(join(ROOT, program))) missing.push(`${document}: ${command}`);
      }
    }
    expect(missing).toEqual([]);
  });
});

/** The documents of a folder and, below the root, of its folders. */
/** What others put there: packages, environments, what a build made. */
const NOT_OURS = /(^|\/)(node_modules|\.venv|\.pytest_cache|target|gen)\//;

async function documentsIn(folder: string): Promise<string[]> {
  const names = await readdir(join(ROOT, folder), { recursive: folder !== "" });
  return names
    .filter((name) => name.endsWith(".md") && !NOT_OURS.test(name))
    .map((name) => join(folder, name));
}

async function isThere(document: string, link: string): Promise<boolean> {
  const [file = "", anchor] = link.split("#");
  const target = file === "" ? join(ROOT, document) : resolve(join(ROOT, dirname(document)), file);
  if (!existsSync(target)) return false;
  return anchor === undefined || anchorsOf(await readFile(target, "utf8")).includes(anchor);
}
