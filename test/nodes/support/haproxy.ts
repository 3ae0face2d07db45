import { join } from "node:path";
import { findFreePort } from "../../../server/src/embedded/launch.js";
import { documented, type Changes } from "./documented.js";
import { CERTIFICATE, installed, PRIVATE_KEY, startProxy, type ProxyProcess } from "./proxy-process.js";

/** The program, where it is installed. */
export const HAPROXY = installed("haproxy");

/** What docs/operations.md says to change for TCP connections as a whole. */
export const TCP: Changes = { "mode http": "mode tcp", "proto h2 ": "" };

/** A front that knows HTTP/1.1 and nothing else, as there are many. */
export const HTTP1_ONLY: Changes = {
  "alpn h2,http/1.1": "alpn http/1.1",
  "default_backend nodes": "option disable-h2-upgrade\n  default_backend nodes",
};

/** What is easily forgotten. */
export const NO_HTTP2_BEHIND: Changes = { "proto h2 ": "" };

/** A real HAProxy before two nodes, or twice before one. */
export interface Haproxy extends ProxyProcess {
  /** Where it speaks TLS. */
  readonly url: string;
  /** Where it does not. */
  readonly plainUrl: string;
}

/** Starts one as docs/operations.md says; resolves when it takes connections. */
export async function startHaproxy(
  program: string,
  nodePorts: readonly [number, number?],
  changes: Changes = {},
): Promise<Haproxy> {
  const [tls, plain] = [await findFreePort(), await findFreePort()];
  const [one, two = one] = nodePorts;
  const configuration = async (folder: string): Promise<string> =>
    documented("haproxy", {
      "bind :443 ssl crt /etc/haproxy/trunkline.pem": `bind 127.0.0.1:${plain}\n  bind 127.0.0.1:${tls} ssl crt ${join(folder, "trunkline.pem")}`,
      "10.0.0.1:7788": `127.0.0.1:${one}`,
      "10.0.0.2:7788": `127.0.0.1:${two}`,
      ...changes,
    });
  const proxy = await startProxy({
    program,
    args: (folder) => ["-db", "-f", join(folder, "haproxy.cfg")],
    files: async (folder) => ({
      "haproxy.cfg": await configuration(folder),
      "trunkline.pem": CERTIFICATE + PRIVATE_KEY,
    }),
    ports: [tls, plain],
  });
  return Object.assign(proxy, { url: `https://127.0.0.1:${tls}`, plainUrl: `http://127.0.0.1:${plain}` });
}
