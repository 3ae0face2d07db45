import { once } from "node:events";
import { createServer, type ServerHttp2Session } from "node:http2";
import type { AddressInfo } from "node:net";
import { expect, test } from "vitest";
import { Trunkline } from "../../client/src/index.js";
import { until, within } from "../support/until.js";

const MIB = 1024 * 1024;

test.each([
  ["a worker", (client: Trunkline) => void client.worker({ tools: { echo: (input) => input } })],
  ["a harness", (client: Trunkline) => void client.runs.create().catch(() => undefined)],
])(
  "%s may be sent several large payloads before it reads, not 64 KiB in each round trip",
  async (_, open) => {
    const server = createServer();
    const opened = once(server, "session") as Promise<[ServerHttp2Session]>;
    server.on("stream", (stream) => stream.on("error", () => undefined));
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    const client = new Trunkline({ url: `http://127.0.0.1:${port}`, transport: "stream" });
    try {
      open(client);
      const [session] = await within("it connects", opened, 5_000);
      await until("its windows are open", () => (session.state.remoteWindowSize ?? 0) >= 4 * MIB);
      expect(session.remoteSettings.initialWindowSize).toBe(4 * MIB);
      session.destroy();
    } finally {
      await client.close();
      server.close();
    }
  },
);
