/**
 * Carries bytes between a node and PostgreSQL, each after a while. In a thread of its own, so that the line is as
 * slow as it should be and not as slow as a busy test is.
 */

import { connect, createServer } from "node:net";
import { parentPort, workerData } from "node:worker_threads";

/** @type {{ readonly host: string, readonly port: number, readonly delayMs: number }} */
const { host, port, delayMs } = workerData;

/** @param {() => void} work */
const later = (work) => {
  if (delayMs === 0) work();
  else setTimeout(work, delayMs);
};

/**
 * @param {import("node:net").Socket} from
 * @param {import("node:net").Socket} to
 */
function carry(from, to) {
  from.on("error", () => undefined);
  from.on("data", (bytes) => later(() => to.write(bytes)));
  from.on("close", () => later(() => to.destroy()));
}

const listener = createServer({ noDelay: true }, (client) => {
  const server = connect({ port, host, noDelay: true });
  carry(client, server);
  carry(server, client);
});
listener.listen(0, "127.0.0.1", () => parentPort?.postMessage(listener.address()));
