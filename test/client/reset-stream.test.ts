import { once } from "node:events";
import { constants, createServer, type ServerHttp2Session } from "node:http2";
import type { AddressInfo } from "node:net";
import { expect, test } from "vitest";
import { Trunkline } from "../../client/src/index.js";
import { within } from "../support/until.js";

test.each(["before its headers", "after its headers"])(
  "a request whose stream a proxy resets with NO_ERROR %s is sent again, and settles (S01)",
  async (when) => {
    const server = createServer();
    const sessions = new Set<ServerHttp2Session>();
    server.on("session", (session) => sessions.add(session));
    let requests = 0;
    server.on("stream", (stream) => {
      requests++;
      stream.on("error", () => undefined);
      if (when === "after its headers")
        stream.respond({ ":status": 200, "content-type": "application/grpc" });
      stream.close(constants.NGHTTP2_NO_ERROR);
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    const client = new Trunkline({ url: `http://127.0.0.1:${port}`, retryFor: "1s" });
    try {
      const asked = client.calls.get("r/1").catch((error: unknown) => error);
      expect(await within("the request settles", asked, 5_000)).toMatchObject({ reason: "UNAVAILABLE" });
      expect(requests).toBeGreaterThan(1);
    } finally {
      await client.close();
      for (const session of sessions) session.destroy();
      server.close();
    }
  },
);
