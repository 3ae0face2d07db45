import type { Socket } from "node:net";
import { createSecureContext, createServer, type Server, type TlsOptions } from "node:tls";
import { TrunklineError } from "../core/error.js";
import { messageOf } from "./listener-bind.js";
import type { Protocol } from "./listener-first-bytes.js";

/** The contents of two PEM files: a certificate (with its chain, if any) and its private key. */
export interface TlsFiles {
  readonly cert: string | Buffer;
  readonly key: string | Buffer;
}

/** Options of the server that may change while it serves. Protocols older than TLS 1.2 are broken. */
function secureOptions({ cert, key }: TlsFiles): Pick<TlsOptions, "cert" | "key" | "minVersion"> {
  return { cert, key, minVersion: "TLSv1.2" };
}

function unusable(cause: unknown): TrunklineError {
  return new TrunklineError(
    "INVALID_FIELD",
    `tls: the certificate and key cannot be used (${messageOf(cause)}); allowed: a PEM certificate and its PEM private key`,
    { cause, metadata: { field: "tls" } },
  );
}

/**
 * A server whose connections speak TLS; ALPN chooses their protocol.
 *
 * @param options of its sockets, and how long a handshake may take
 * @throws TrunklineError INVALID_FIELD when the files cannot be used
 */
export function tlsFront(
  files: TlsFiles,
  options: TlsOptions,
  accept: (protocol: Protocol, socket: Socket) => void,
): Server {
  try {
    const settings = { ...options, ...secureOptions(files), ALPNProtocols: ["h2", "http/1.1"] };
    const front = createServer(settings, (socket) => {
      // Its close follows.
      socket.on("error", () => {});
      accept(socket.alpnProtocol === "h2" ? "http2" : "http1", socket);
    });
    // A handshake that takes too long is only reported, and would stay open.
    return front.on("tlsClientError", (_error, socket) => socket.destroy());
  } catch (cause) {
    throw unusable(cause);
  }
}

/**
 * Gives a server another certificate for the handshakes to come.
 *
 * @throws TrunklineError INVALID_FIELD when the files cannot be used; the server goes on with those that it has
 */
export function renewTls(front: Server, files: TlsFiles): void {
  const options = secureOptions(files);
  try {
    // The server would be left with half of what it refuses.
    createSecureContext(options);
    front.setSecureContext(options);
  } catch (cause) {
    throw unusable(cause);
  }
}
