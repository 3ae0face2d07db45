import { spawnSync } from "node:child_process";
import { cp, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const WORKER = "proto/trunkline/v1/worker.proto";

describe("a change of the protocol, against a release,", () => {
  let folder: string;
  let image: string;
  let worker: string;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "trunkline-test-breaking-"));
    for (const name of ["buf.yaml", "proto"])
      await cp(join(ROOT, name), join(folder, name), { recursive: true });
    const [oldest = ""] = (await readdir(join(ROOT, "proto/releases"))).sort();
    image = join(ROOT, "proto/releases", oldest);
    worker = await readFile(join(ROOT, WORKER), "utf8");
  });

  afterAll(() => rm(folder, { recursive: true, force: true }));

  /** What buf says of the definitions with some texts of `worker.proto` replaced. */
  async function verdict(changes: readonly (readonly [text: string, by: string])[]): Promise<string> {
    let changed = worker;
    for (const [text, by] of changes) {
      expect(changed).toContain(text);
      changed = changed.replace(text, by);
    }
    await writeFile(join(folder, WORKER), changed);
    const buf = join(ROOT, "node_modules/.bin/buf");
    const { stdout } = spawnSync(buf, ["breaking", "--against", image], { cwd: folder, encoding: "utf8" });
    return stdout;
  }

  const LAST_RPC = "rpc ReleaseCalls(ReleaseCallsRequest) returns (ReleaseCallsResponse);";
  const LAST_REASON = "REVOKE_REASON_LEASE_LOST = 5;";

  test("may add a field, an enum value and an RPC", async () => {
    const said = await verdict([
      ["message Drain {}", "message Drain { string why = 1; }"],
      [LAST_REASON, `${LAST_REASON} REVOKE_REASON_MOVED = 6;`],
      [LAST_RPC, `${LAST_RPC} rpc Rest(Drain) returns (Drained);`],
    ]);
    expect(said).toBe("");
  });

  test("is refused when it removes, renumbers, retypes or renames anything", async () => {
    const said = await verdict([
      ["repeated string releases = 5;", ""],
      ["Heartbeat heartbeat = 6;", "Heartbeat heartbeat = 16;"],
      ["Drain drain = 7;", "string drain = 7;"],
      ["uint32 grant = 8;", "uint32 slots = 8;"],
      [LAST_REASON, ""],
      [LAST_RPC, ""],
    ]);
    for (const what of [
      'Previously present field "5" with name "releases" on message "WorkRequest"',
      'Previously present field "6" with name "heartbeat" on message "WorkRequest"',
      'Field "7" with name "drain" on message "WorkRequest" changed type',
      'Field "8" on message "WorkRequest" changed name from "grant" to "slots"',
      'Previously present enum value "5" on enum "RevokeReason"',
      'Previously present RPC "ReleaseCalls" on service "WorkerService"',
    ]) {
      expect(said).toContain(what);
    }
  });
});
