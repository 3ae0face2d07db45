import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import {
  createFileRegistry,
  createRegistry,
  fromBinary,
  fromJson,
  toBinary,
  toJson,
  type DescFile,
  type DescService,
  type JsonValue,
} from "@bufbuild/protobuf";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { AdminService } from "@trunkline/proto/admin";
import { CallService } from "@trunkline/proto/call";
import { Health } from "@trunkline/proto/health";
import { ProblemSchema } from "@trunkline/proto/problem";
import { ServerReflection } from "@trunkline/proto/reflection";
import { ServerReflection as AlphaReflection } from "@trunkline/proto/reflection-v1alpha";
import { RunService } from "@trunkline/proto/run";
import { TaskService } from "@trunkline/proto/task";
import { ToolsetService } from "@trunkline/proto/toolset";
import { RevocationSchema, WorkerService } from "@trunkline/proto/worker";
import { describe, expect, test } from "vitest";
import { examplesOf } from "./support/examples.js";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const GOLDEN = join(ROOT, "test/golden");
const RELEASES = join(ROOT, "proto/releases");

/** `npm run release:protocol` stores what is to be released under its version. */
const IS_RELEASE = process.env["TRUNKLINE_WRITE_RELEASE"] === "1";

const SERVICES: readonly DescService[] = [
  ...[AdminService, CallService, RunService, TaskService, ToolsetService, WorkerService],
  ...[Health, ServerReflection, AlphaReflection],
];
const registry = createRegistry(...allFiles([...SERVICES, ProblemSchema].map(({ file }) => file)));

/** What is stored of one message, both ways of writing it. */
interface Golden {
  readonly type: string;
  readonly json: JsonValue;
  /** In base64. */
  readonly binary: string;
}

function allFiles(files: readonly DescFile[]): DescFile[] {
  // A set goes on to what is added while it is walked.
  const all = new Set(files);
  for (const file of all) for (const imported of file.dependencies) all.add(imported);
  return [...all];
}

/** The types of all messages that a schema's RPCs carry, and of the detail of their errors. */
function typesOf(services: readonly DescService[]): string[] {
  const carried = services.flatMap(({ methods }) => methods.flatMap(({ input, output }) => [input, output]));
  return [...new Set([...carried.map(({ typeName }) => typeName), ProblemSchema.typeName])].sort();
}

function schemaOf(type: string) {
  return registry.getMessage(type) ?? expect.fail(`there is no ${type} any more`);
}

/** The services that were released in a version. */
async function releasedIn(version: string): Promise<DescService[]> {
  const set = fromBinary(FileDescriptorSetSchema, await readFile(join(RELEASES, `${version}.binpb`)));
  const released = createFileRegistry(set);
  return [...released].filter((each) => each.kind === "service");
}

async function read(version: string, type: string): Promise<Golden[]> {
  return JSON.parse(await readFile(join(GOLDEN, version, `${type}.json`), "utf8"));
}

async function write(version: string): Promise<void> {
  await Promise.all([RELEASES, join(GOLDEN, version)].map((folder) => mkdir(folder, { recursive: true })));
  const image = join(RELEASES, `${version}.binpb`);
  const buf = join(ROOT, "node_modules/.bin/buf");
  const flags = ["--as-file-descriptor-set", "--exclude-source-info"];
  execFileSync(buf, ["build", ...flags, "--output", image], { cwd: ROOT });
  for (const type of typesOf(SERVICES)) {
    const schema = schemaOf(type);
    const golden = examplesOf(schema).map((message): Golden => {
      const binary = Buffer.from(toBinary(schema, message)).toString("base64");
      return { type, json: toJson(schema, message), binary };
    });
    await writeFile(join(GOLDEN, version, `${type}.json`), `${JSON.stringify(golden, null, 2)}\n`);
  }
}

const { version: current } = JSON.parse(await readFile(join(ROOT, "package.json"), "utf8")) as {
  version: string;
};
if (IS_RELEASE) await write(current);

const versions = (await readdir(RELEASES)).map((file) => file.replace(/\.binpb$/, ""));

describe.each(versions)("what was written by version %s", (version) => {
  test("is stored for every message of its RPCs", async () => {
    const stored = (await readdir(join(GOLDEN, version))).map((file) => file.replace(/\.json$/, ""));
    expect(stored.sort()).toEqual(typesOf(await releasedIn(version)));
    expect(stored.length).toBeGreaterThan(60);
  });

  test("is read, and written to the same bytes and the same JSON", async () => {
    for (const type of typesOf(await releasedIn(version))) {
      const schema = schemaOf(type);
      for (const { json, binary } of await read(version, type)) {
        const bytes = Uint8Array.from(Buffer.from(binary, "base64"));
        const message = fromBinary(schema, bytes);
        expect(message.$unknown, type).toBeUndefined();
        expect(Buffer.from(toBinary(schema, message)).toString("base64"), type).toBe(binary);
        expect(toJson(schema, message), type).toEqual(json);
        expect(fromJson(schema, json), type).toEqual(message);
      }
    }
  });
});

test("what a newer version adds is read over, and goes on with the message", () => {
  // Field 1000, a text; and claim_id with a revocation's reason that nobody has heard of.
  const added = [0xc2, 0x3e, 0x01, 0x78];
  const bytes = Uint8Array.from([0x0a, 0x02, 0x63, 0x31, 0x10, 0xe7, 0x07, ...added]);
  const revocation = fromBinary(RevocationSchema, bytes);
  expect(revocation).toMatchObject({ claimId: "c1", reason: 999 });
  expect(toBinary(RevocationSchema, revocation)).toEqual(bytes);
  const json = { claimId: "c1", reason: "REVOKE_REASON_OF_TOMORROW", added: { x: 1 } };
  expect(fromJson(RevocationSchema, json, { ignoreUnknownFields: true })).toMatchObject({
    claimId: "c1",
    reason: 0,
  });
});

test("every version that was released is kept", async () => {
  const changelog = await readFile(join(ROOT, "CHANGELOG.md"), "utf8");
  const released = [...changelog.matchAll(/^## \[(\d+\.\d+\.\d+)\]/gm)].map(([, version]) => version ?? "");
  expect(released.filter((version) => !versions.includes(version))).toEqual([]);
  expect(versions.filter((version) => !existsSync(join(GOLDEN, version)))).toEqual([]);
});
