import { createServer } from "node:net";
import { once } from "node:events";
import { expect, test } from "vitest";
import { freePort } from "./postgres.mjs";

test("a port of a fault run is free, and none that the system hands out to others by itself", async () => {
  const port = await freePort();
  expect(port).toBeGreaterThan(1_023);
  expect(port).toBeLessThan(32_768);
  const server = createServer().listen(port, "127.0.0.1");
  await once(server, "listening");
  server.close();
  await once(server, "close");
});
