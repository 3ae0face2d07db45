import { execFileSync, spawn } from "node:child_process";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import type { IncomingMessage, Server } from "node:http";
import { delimiter } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, test } from "vitest";
import { useNode } from "../service/node.js";
import { cleanEnvironment } from "../support/child-process.js";
import { GO_TOOL_FOLDERS, GO_TOOLS_NOTE, HAS_GO_TOOLS } from "../support/go-tools.js";
import { lasting } from "../support/until.js";

/*
 * Cases that are about what people have in a terminal: curl, which speaks HTTP/1.1, grpcurl and buf curl. What one does
 * with them beside is test/docs/debugging.test.ts (S05 as well).
 */

/** Below what the requests here take, as a server's own are below a long poll or a stream. */
const QUICK = { silenceMs: 1_000, headersMs: 300, stalledMs: 1_000, keepAliveMs: 300 };
const LONG_MS = 1_800;

const at = useNode({ timeouts: QUICK });

const BIN = fileURLToPath(new URL("../../node_modules/.bin", import.meta.url));
const env = cleanEnvironment({ PATH: [BIN, ...GO_TOOL_FOLDERS, process.env["PATH"]].join(delimiter) });

/** What a program came to. */
interface Ran {
  readonly status: number;
  readonly stdout: string;
  readonly stderr: string;
  readonly ms: number;
}

/** What a program reads: pieces, each so long after the one before, and then an end, or none. */
interface Input {
  readonly pieces?: readonly (string | Buffer)[];
  readonly everyMs?: number;
  readonly isOpen?: boolean;
}

async function run(program: string, args: readonly string[], input: Input = {}): Promise<Ran> {
  const { pieces = [], everyMs = 0, isOpen = false } = input;
  const startedAt = performance.now();
  const child = spawn(program, args, { env });
  child.stdin.on("error", () => undefined);
  const ended = new Promise<number>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (status) => resolve(status ?? -1));
  });
  const output = Promise.all([text(child.stdout), text(child.stderr)]);
  for (const piece of pieces) {
    child.stdin.write(piece);
    await lasting(everyMs);
  }
  if (!isOpen) child.stdin.end();
  const [stdout, stderr] = await output;
  return { status: await ended, stdout, stderr, ms: performance.now() - startedAt };
}

function hasCurl(): boolean {
  try {
    return execFileSync("curl", ["--version"]).length > 0;
  } catch {
    if ((process.env["CI"] ?? "") !== "") throw new Error("there is no curl");
    console.warn("skipped: there is no curl");
    return false;
  }
}

const curl = (path: string, type: string, ...more: string[]): string[] => [
  ...["-sS", "--http1.1", "-X", "POST", "-H", `content-type: ${type}`, "-H", "expect:"],
  ...["-w", "\n%{http_code}", ...more, `${at.node.url}/${path}`],
];

describe.runIf(hasCurl())("curl over HTTP/1.1", () => {
  const streams = [
    "trunkline.v1.WorkerService/Work",
    "trunkline.v1.CallService/Drive",
    "grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
  ];
  const words = "is a stream in both directions: it needs HTTP/2";
  const types: [type: string, answer: RegExp][] = [
    ["application/grpc", new RegExp(`^HTTP/1.1 505 [^]*${words}.*\\n\\n505$`)],
    ["application/connect+json", new RegExp(`^HTTP/1.1 505 [^]*${words}.*\\n\\n505$`)],
    // Its clients read nothing else than the status of their own protocol.
    [
      "application/grpc-web+proto",
      new RegExp(`^grpc-status: 12\\r\\n[^]*${words}|${words}[^]*^grpc-status: 12\\r\\n`, "m"),
    ],
  ];
  const asked = streams.flatMap((stream) => types.map(([type, answer]) => ({ stream, type, answer })));

  test.each(asked)(
    "is told at once that $stream as $type needs HTTP/2, while it is still sending (S04)",
    async ({ stream, type, answer }) => {
      const input = { pieces: ["\0\0\0\0\0"], isOpen: true };
      const { status, stdout, ms } = await run("curl", curl(stream, type, "-i", "-T", "."), input);
      expect(decodeURIComponent(stdout)).toMatch(answer);
      expect(status).toBe(0);
      expect(ms).toBeLessThan(2_000);
    },
  );

  test("polls for claims for as long as it asked, far beyond all timeouts (S24)", async () => {
    const hello = {
      sessionId: "curl",
      nonce: "0123456789abcdef",
      worker: "curl",
      tools: ["curled"],
      slots: 1,
    };
    const body = JSON.stringify({ hello, wait: `${LONG_MS / 1_000}s` });
    const path = "trunkline.v1.WorkerService/ClaimCalls";
    const { status, stdout, ms } = await run("curl", curl(path, "application/json", "-d", body));
    expect(stdout).toMatch(/"welcome".*\n200$/);
    expect(status).toBe(0);
    expect(ms).toBeGreaterThan(LONG_MS);
  });

  test("has a request taken that comes in pieces, for longer than all timeouts (S24)", async () => {
    const pieces = JSON.stringify({ spec: { namespace: "in-pieces" } }).match(/.{1,4}/g) ?? [];
    const input = { pieces, everyMs: LONG_MS / pieces.length };
    const path = "trunkline.v1.RunService/CreateRun";
    const { status, stdout } = await run("curl", curl(path, "application/json", "-T", "."), input);
    expect(stdout).toMatch(/"in-pieces".*\n200$/);
    expect(status).toBe(0);
  });

  test("reads a stream that says nothing for longer than all timeouts, until it leaves by itself (S24)", async () => {
    const path = "grpc.health.v1.Health/Watch";
    const args = curl(
      path,
      "application/connect+json",
      "-N",
      "-m",
      String(LONG_MS / 1_000),
      "--data-binary",
      "@-",
    );
    // One message, with its length before it.
    const { status, stdout } = await run("curl", args, { pieces: ["\0\0\0\0\u0002{}"] });
    expect(stdout).toContain("SERVING");
    // Its own time was over; 18 would be a stream that was cut, and 0 one that came to its end.
    expect(status).toBe(28);
  });

  test("meets a server without Node's bound of five minutes on a whole request (S24)", async () => {
    const bounds: number[] = [];
    const look = (message: unknown): void => {
      const { request, server } = message as { request: IncomingMessage; server: Server };
      if (request.url?.includes("ListRuns") === true) bounds.push(server.requestTimeout);
    };
    subscribe("http.server.request.start", look);
    const { stdout } = await run(
      "curl",
      curl("trunkline.v1.RunService/ListRuns", "application/json", "-d", "{}"),
    );
    unsubscribe("http.server.request.start", look);
    expect(stdout).toMatch(/\n200$/);
    expect(bounds).toEqual([0]);
  });
});

describe.runIf(HAS_GO_TOOLS)(`grpcurl and buf curl${GO_TOOLS_NOTE}`, () => {
  const address = (): string => new URL(at.node.url).host;
  const rpc = "trunkline.v1.TaskService/CompleteTask";
  const bogus = JSON.stringify({ token: "bogus", resultJson: "1" });

  test("find all services of a plain port by reflection (S05)", async () => {
    const byGrpcurl = await run("grpcurl", ["-plaintext", address(), "list"]);
    expect(byGrpcurl).toMatchObject({ status: 0, stderr: "" });
    expect(byGrpcurl.stdout.split("\n")).toContain("trunkline.v1.WorkerService");
    const byBuf = await run("buf", ["curl", "--list-services", at.node.url]);
    expect(byBuf).toMatchObject({ status: 0, stderr: "", stdout: byGrpcurl.stdout });
  });

  test("are told of a bogus token with NotFound, and its reason (S16)", async () => {
    const byGrpcurl = await run("grpcurl", ["-plaintext", "-d", bogus, address(), rpc]);
    // 64 and the code.
    expect(byGrpcurl.status).toBe(64 + 5);
    expect(byGrpcurl.stderr).toMatch(/Code: NotFound\n.*Message: \S[^]*REASON_TOKEN_INVALID/);
    const byBuf = await run("buf", ["curl", "--data", bogus, `${at.node.url}/${rpc}`]);
    expect(byBuf.status).not.toBe(0);
    expect(byBuf.stderr).toContain('"code": "not_found"');
  });
});

afterAll(() => {
  expect(at.node.faults).toEqual([]);
});
