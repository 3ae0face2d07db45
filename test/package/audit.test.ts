import { execFile } from "node:child_process";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";

const PROGRAM = fileURLToPath(new URL("../../tools/audit.mjs", import.meta.url));
const ADVISORIES = "/-/npm/v1/security/advisories/bulk";
const URL_OF_IT = "https://github.com/advisories/GHSA-aaaa-bbbb-cccc";

/** A registry that knows these advisories, each for all versions of its package; null: it does not serve any. */
async function auditAgainst(names: readonly string[] | null): Promise<{ status: number; text: string }> {
  const advisory = (id: number) => [
    { id, url: URL_OF_IT, title: "forged", severity: "high", vulnerable_versions: "*", cwe: [] },
  ];
  const bulk = names && JSON.stringify(Object.fromEntries(names.map((name, id) => [name, advisory(id)])));
  const registry = createServer((request, response) => {
    const answer = answerOf(request);
    response.writeHead(answer === null ? 405 : 200, { "content-type": "application/json" }).end(answer);
    request.resume();
  });
  const answerOf = ({ url = "" }: IncomingMessage): string | null => {
    if (url === ADVISORIES) return bulk;
    const name = decodeURIComponent(url.slice(1));
    return names?.includes(name) === true ? JSON.stringify({ name, versions: {} }) : null;
  };
  await new Promise<void>((resolve) => registry.listen(0, "127.0.0.1", resolve));
  const { port } = registry.address() as AddressInfo;
  const env = { ...process.env, npm_config_registry: `http://127.0.0.1:${port}/` };
  try {
    return await new Promise((resolve) => {
      execFile(process.execPath, [PROGRAM], { env }, (error, stdout) => {
        resolve({ status: error === null ? 0 : Number(error.code), text: stdout });
      });
    });
  } finally {
    registry.close();
    registry.closeAllConnections();
  }
}

describe("the audit", () => {
  test.concurrent("fails for a fault of a package that is published with ours, and names it", async () => {
    const { status, text } = await auditAgainst(["jose"]);
    expect(text).toContain(`FAULT: jose: forged (high, ${URL_OF_IT})`);
    expect(status).toBe(1);
  });

  test.concurrent("only tells of a fault of a tool", async () => {
    const { status, text } = await auditAgainst(["prettier"]);
    expect(text).toContain("in a tool: prettier: forged");
    expect(status).toBe(0);
  });

  test.concurrent(
    "passes where the registry tells nothing, and does not pretend to have looked",
    async () => {
      const { status, text } = await auditAgainst(null);
      expect(text).toContain("NOT CHECKED");
      expect(text).not.toContain("0 known faults");
      expect(status).toBe(0);
    },
  );
});
