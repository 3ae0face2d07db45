import { Agent as HttpAgent } from "node:http";
import { Agent as HttpsAgent } from "node:https";
import type { SecureClientSessionOptions } from "node:http2";
import type { Interceptor } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import type { Connection } from "./transport.js";

/** Below the minute after which many proxies close a connection that says nothing. */
const KEEP_ALIVE_MS = 20_000;

/**
 * Makes connections for single requests over HTTP/1.1, by the Connect protocol, which every proxy carries. They connect
 * to nothing yet, and keep no process alive between requests.
 */
export function plainConnection(
  baseUrl: string,
  interceptors: Interceptor[],
  tls: SecureClientSessionOptions | undefined,
): Connection {
  const kept = { keepAlive: true, timeout: KEEP_ALIVE_MS };
  const agent = baseUrl.startsWith("https:")
    ? new HttpsAgent({ ...tls, ...kept, ALPNProtocols: ["http/1.1"] })
    : new HttpAgent(kept);
  return {
    transport: createConnectTransport({
      baseUrl,
      httpVersion: "1.1",
      nodeOptions: { agent },
      interceptors,
      acceptCompression: [],
    }),
    abort: () => agent.destroy(),
  };
}
