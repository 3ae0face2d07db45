import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { closureOf, install, manifestOf, packedFiles, type PackageName } from "./packed.js";

const PACKAGES = ["@trunkline/proto", "@trunkline/sdk", "trunkline"] as const satisfies PackageName[];

let files: Record<PackageName, string[]>;
let folder: string;

beforeAll(() => {
  files = packedFiles();
  folder = mkdtempSync(path.join(tmpdir(), "trunkline-packed-"));
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** A new folder in which nothing but one package and its declared dependencies can be imported. */
const emptyFolderWith = (name: PackageName): string => {
  const empty = mkdtempSync(path.join(folder, "empty-"));
  install(name, empty, files);
  return empty;
};

/** The names that an import of `specifier` gives a program in the folder. */
const namesOf = (specifier: string, cwd: string): string[] => {
  const program = `console.log(JSON.stringify(Object.keys(await import(${JSON.stringify(specifier)}))))`;
  const stdout = execFileSync(process.execPath, ["--input-type=module", "--eval", program], {
    cwd,
    encoding: "utf8",
    stdio: "pipe",
  });
  return JSON.parse(stdout);
};

describe("what is published", () => {
  test.each(PACKAGES)("%s holds what it was built to and no leftovers of the build", (name) => {
    expect(files[name]).toContain("package.json");
    expect(files[name].filter((file) => file.startsWith("dist/") && file.endsWith(".js"))).not.toEqual([]);
    expect(files[name].filter((file) => /\.tsbuildinfo$|\.test\.|(^|\/)tsconfig/.test(file))).toEqual([]);
  });

  test.each(PACKAGES)("%s ships the source that each of its source maps points to", (name) => {
    const maps = files[name].filter((file) => file.endsWith(".js.map"));
    const sources = maps.map((file) => file.replace(/^dist\//, "src/").replace(/\.js\.map$/, ".ts"));
    expect(sources.filter((file) => !files[name].includes(file))).toEqual([]);
  });

  test("the server ships its command and its migrations", () => {
    expect(files.trunkline).toContain("bin/trunkline.js");
    expect(files.trunkline.filter((file) => /^migrations\/\d{4}_\w+\.sql$/.test(file))).not.toEqual([]);
  });
});

describe("what comes along", () => {
  test("the SDK depends on connect, protobuf and the generated types, and on nothing else", () => {
    expect(Object.keys(manifestOf("@trunkline/sdk").dependencies ?? {}).sort()).toEqual([
      "@bufbuild/protobuf",
      "@connectrpc/connect",
      "@connectrpc/connect-node",
      "@trunkline/proto",
    ]);
  });

  test("the SDK drags in neither the server nor a database driver", () => {
    const closure = closureOf("@trunkline/sdk");
    expect(closure).toContain("@connectrpc/connect-node");
    expect([...closure].filter((name) => /^(trunkline|pg|pg-.*|.*postgres.*|pino)$/.test(name))).toEqual([]);
  });
});

describe("an empty folder", () => {
  test("with the SDK in it can import the SDK, and not the server", () => {
    const empty = emptyFolderWith("@trunkline/sdk");
    expect(namesOf("@trunkline/sdk", empty)).toEqual(
      expect.arrayContaining(["Trunkline", "HostToolError", "ToolError"]),
    );
    // It needs no AI SDK to be there.
    expect(namesOf("@trunkline/sdk/ai", empty)).toEqual(["aiTools", "openToolCalls", "toolMessages"]);
    expect(() => namesOf("ai", empty)).toThrow("ERR_MODULE_NOT_FOUND");
    expect(namesOf("@trunkline/sdk/browser", empty)).toEqual([
      "TrunklineError",
      "connectTrunkline",
      "rawJson",
    ]);
    expect(() => namesOf("trunkline", empty)).toThrow("ERR_MODULE_NOT_FOUND");
    expect(() => namesOf("pg", empty)).toThrow("ERR_MODULE_NOT_FOUND");
  });

  test("with the generated package in it can import every service and the health check", () => {
    const empty = emptyFolderWith("@trunkline/proto");
    expect(namesOf("@trunkline/proto/call", empty)).toContain("CallService");
    expect(namesOf("@trunkline/proto/worker", empty)).toContain("WorkerService");
    expect(namesOf("@trunkline/proto/health", empty)).toContain("Health");
    expect(namesOf("@trunkline/proto/reflection", empty)).toContain("ServerReflection");
    expect(namesOf("@trunkline/proto/reflection-v1alpha", empty)).toContain("ServerReflection");
  });

  test("with the server in it can import the server and run its command", () => {
    const empty = emptyFolderWith("trunkline");
    expect(namesOf("trunkline", empty)).not.toEqual([]);
    expect(namesOf("trunkline/testing", empty)).toEqual(["startTestServer"]);
    const bin = path.join(empty, "node_modules", "trunkline", "bin", "trunkline.js");
    const help = execFileSync(process.execPath, [bin, "--help"], { cwd: empty, encoding: "utf8" });
    expect(help).toContain("Usage: trunkline");
  });
});
