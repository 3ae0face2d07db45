import { once } from "node:events";
import { createServer, type Socket } from "node:net";
import { describe, expect, test } from "vitest";
import { trunkline } from "./command.js";

describe("a database whose connections are", () => {
  test.each<[string, (socket: Socket) => void]>([
    ["reset", (socket) => socket.resetAndDestroy()],
    ["closed", (socket) => socket.once("data", () => socket.end())],
  ])("%s is named as what is wrong, not as a fault of trunkline itself", async (_, refuse) => {
    const server = createServer(refuse).listen(0, "127.0.0.1");
    await once(server, "listening");
    const address = server.address();
    const port = typeof address === "object" ? (address?.port ?? 0) : 0;
    const DATABASE_URL = `postgres://somebody:secret@127.0.0.1:${port}/trunkline`;
    const { status, stderr } = await trunkline(["serve", "--insecure", "--port", "0"], {
      env: { DATABASE_URL },
    });
    server.close();
    expect(status).toBe(1);
    expect(stderr).toContain(`cannot use the database postgres://somebody:***@127.0.0.1:${port}/trunkline: `);
    expect(stderr).not.toMatch(/secret|a fault of trunkline itself/);
  });
});
