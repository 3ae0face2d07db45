import { Code, ConnectError } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import { KeyScope } from "@trunkline/proto/admin";
import { expect, test } from "vitest";
import { useNode } from "./node.js";
import { clientsOf } from "./protocol-clients.js";

const it = useNode();
const clients = () => clientsOf(createConnectTransport({ baseUrl: it.node.url, httpVersion: "1.1" }));

/** The token of a page that begins after something else. */
function after(token: string, cursor: unknown): string {
  const [list] = JSON.parse(Buffer.from(token, "base64url").toString()) as [string, unknown];
  return Buffer.from(JSON.stringify([list, cursor])).toString("base64url");
}

const LISTS = {
  keys: async (pageToken: string) => clients().admin.listKeys({ pageSize: 1, pageToken }),
  projects: async (pageToken: string) => clients().admin.listProjects({ pageSize: 1, pageToken }),
  toolsets: async (pageToken: string) => clients().toolsets.listToolsets({ pageSize: 1, pageToken }),
  runs: async (pageToken: string) => clients().runs.listRuns({ pageSize: 1, pageToken }),
  calls: async (pageToken: string) => clients().calls.listCalls({ pageSize: 1, pageToken }),
};

test.each(Object.entries(LISTS))(
  "a token of the list of %s that was made up is refused, whatever it begins after (B06)",
  async (_, list) => {
    for (const name of ["a", "b"]) {
      await clients().admin.createKey({ name, scopes: [KeyScope.WORKER] });
      await clients().admin.createProject({ name });
      await clients().toolsets.putToolset({ id: name, tools: [{ name: "t" }] });
      await it.node.open({ tool: "t" });
    }
    const { nextPageToken } = await list("");
    expect(nextPageToken).not.toBe("");
    const odd = [
      "a\0b",
      "\ud800",
      "",
      null,
      1e300,
      [],
      {},
      ["a\0b", 1],
      ["\0"],
      [null, null],
      [1e300, 1e300],
    ];
    for (const cursor of odd) {
      const error = await list(after(nextPageToken, cursor)).then(
        () => expect.fail(`${JSON.stringify(cursor)} was taken`),
        (thrown: unknown) => ConnectError.from(thrown),
      );
      expect([cursor, error.code]).toEqual([cursor, Code.InvalidArgument]);
    }
    expect(it.node.faults).toEqual([]);
  },
);
