import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";
import { CallState } from "@trunkline/proto/model";
import { RunState } from "@trunkline/proto/run";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { DEFAULT_URL } from "../../client/src/server-url.js";
import { endOfString } from "../../server/src/core/json-text.js";
import { GO_TOOLS } from "../../tools/go-tools.mjs";
import { useNode } from "../service/node.js";
import { cleanEnvironment } from "../support/child-process.js";
import { GO_TOOL_FOLDERS, GO_TOOLS_NOTE, HAS_GO_TOOLS } from "../support/go-tools.js";
import type { JsonMessage } from "../support/connect-json.js";
import { until } from "../support/until.js";
import { blocksOf, type Block } from "./support/markdown.js";
import { Shell, TypingProcess } from "./support/shell.js";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const KEY = "tl_root_0123456789";

const blocks = blocksOf(await readFile(join(ROOT, "docs/debugging.md"), "utf8"));
const [install, ...shown] = blocks;
const headings = [...new Set(shown.map(({ heading }) => heading))];

/** JSON texts that follow each other. */
function documentsIn(text: string): JsonMessage[] {
  const documents: JsonMessage[] = [];
  let depth = 0;
  let from = 0;
  for (let at = 0; at < text.length; at++) {
    if (text[at] === '"') at = endOfString(text, at);
    else if (text[at] === "{" && depth++ === 0) from = at;
    else if (text[at] === "}" && --depth === 0) documents.push(JSON.parse(text.slice(from, at + 1)));
  }
  return documents;
}

/** What is in frames, one by one: which of them carries what is the server's affair. */
function itemsIn(text: string): [kind: string, item: JsonMessage][] {
  return documentsIn(text).flatMap((frame: object) =>
    Object.entries(frame).flatMap(([kind, value]: [string, JsonMessage]) =>
      [value].flat().map((item: JsonMessage): [string, JsonMessage] => [kind, item]),
    ),
  );
}

/** How what was printed ends, by a text of the page in which `…` may be anything and space does not count. */
function endsAsShown(printed: string, text: string): boolean {
  const parts = text.replaceAll(/\s/g, "").split("…");
  const escaped = parts.map((part) => part.replaceAll(/[\\^$.*+?()[\]{}|]/g, "\\$&"));
  return new RegExp(`${escaped.join(".*")}$`).test(printed.replaceAll(/\s/g, ""));
}

describe.runIf(HAS_GO_TOOLS)(`docs/debugging.md${GO_TOOLS_NOTE}`, () => {
  const open = useNode({ heartbeatIntervalMs: 5_000 });
  const keyed = useNode({ heartbeatIntervalMs: 5_000, rootKey: KEY });
  let folder: string;
  let shell: Shell;
  let env: NodeJS.ProcessEnv;
  let stream: TypingProcess | undefined;
  let printed = "";

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "trunkline-test-debugging-"));
    const path = [join(ROOT, "node_modules/.bin"), ...GO_TOOL_FOLDERS, process.env["PATH"]].join(delimiter);
    env = cleanEnvironment({ PATH: path, TRUNKLINE_KEY: KEY });
    shell = new Shell({ cwd: folder, env });
    // It costs more than all else, and the README's test goes through it.
    await shell.run('npx() { "$@"; }');
  });

  afterAll(async () => {
    await stream?.kill();
    await shell[Symbol.asyncDispose]();
    await rm(folder, { recursive: true, force: true });
  });

  /** The newest claim that has come on the stream. */
  function newestClaim(): { claimId: string; callId: string } {
    const [, claim] = itemsIn(stream?.stdout ?? "").findLast(([kind]) => kind === "claims") ?? [];
    return claim ?? expect.fail("no claim has come");
  }

  /** Does what the page tells its reader to do. */
  async function follow({ language, code, heading }: Block): Promise<void> {
    const { url } = heading.startsWith("With a key") ? keyed.node : open.node;
    const here = code.replaceAll(new URL(DEFAULT_URL).host, new URL(url).host);
    if (language === "sh" && code.includes("WorkerService/Work")) {
      const quick = here.replace("sleep 4", "sleep 0.3").replace("npx ", "");
      stream = TypingProcess.start(quick, { cwd: folder, env });
    } else if (language === "sh") {
      printed = await shell.run(here);
    } else if (language === "json") {
      const { claimId, callId } = code.includes("CLAIM_ID") ? newestClaim() : { claimId: "", callId: "" };
      stream?.type(code.replaceAll("CLAIM_ID", claimId).replaceAll("CALL_ID", callId));
    } else if (stream === undefined) {
      expect(endsAsShown(printed, code), `${printed}\nis not\n${code}`).toBe(true);
    } else {
      await bringing(stream, code);
      if (code.includes("drained")) await leave(stream);
    }
  }

  /** Waits until the stream has brought everything that the page shows. */
  async function bringing(from: TypingProcess, text: string): Promise<void> {
    const expected = itemsIn(text).map(([kind, item]) => [kind, JSON.stringify(item)] as const);
    expect(expected.length).toBeGreaterThan(0);
    await until(`what the page shows, ${text}`, () => {
      if (!from.isAlive) throw new Error(`the stream has ended: ${from.stderr}`);
      const items = itemsIn(from.stdout);
      return expected.every(([kind, shown]) =>
        items.some((each) => each[0] === kind && endsAsShown(JSON.stringify(each[1]), shown)),
      );
    });
  }

  async function leave(from: TypingProcess): Promise<void> {
    from.endInput();
    expect(await from.ended).toEqual({ status: 0, signal: null });
    stream = undefined;
  }

  test.each(headings)("does what it says under %j", async (heading) => {
    for (const block of shown.filter((each) => each.heading === heading)) await follow(block);
  });

  test("has left its calls and its run as it says", async () => {
    const { runs } = await open.node.runs.listRuns({});
    expect(runs).toMatchObject([{ state: RunState.ENDED, namespace: "user-42" }]);
    const { calls } = await open.node.calls.listCalls({ payloads: true });
    const ends = calls.map(({ state, resultJson, failure }) => [
      CallState[state],
      resultJson === "" ? failure?.message : resultJson,
    ]);
    expect(ends.reverse()).toEqual([
      ["SUCCEEDED", '"42.pdf"'],
      ["SUCCEEDED", '"43.pdf"'],
      ["SUCCEEDED", '"yes"'],
      ["FAILED", "the user is away"],
      ["SUCCEEDED", '{"account": 12345678901234567890}'],
      ["CANCELED", expect.any(String)],
    ]);
    expect(calls.at(-1)).toMatchObject({ attempt: 1, worker: "" });
    expect([...open.node.faults, ...keyed.node.faults]).toEqual([]);
  });

  test("is right that without the key nothing is told but the server's health", async () => {
    const address = new URL(keyed.node.url).host;
    expect(await shell.run(`! grpcurl -plaintext ${address} list 2>&1`)).toContain("Unauthenticated");
    expect(await shell.run(`! buf curl --list-services http://${address} 2>&1`)).toContain("BUF_TOKEN");
    expect(await shell.run(`grpc-health-probe -addr=${address} 2>&1`)).toContain("SERVING");
  });
});

test("docs/debugging.md tells how to get the programs that its tests run", () => {
  const modules = Object.values(GO_TOOLS).map((module) => `go install ${module}`);
  expect(install?.code).toBe(modules.join("\n"));
});
