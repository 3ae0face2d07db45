import type { Server } from "node:net";
import { TrunklineError } from "../core/error.js";

/** Waiting connections that the kernel keeps; Node's 511 is little when every worker reconnects at once. */
const BACKLOG = 4096;

/** What an unknown thrown value says. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function codeOf(error: unknown): string | undefined {
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : undefined;
}

function listenError(error: unknown, host: string, port: number): TrunklineError {
  const where = `cannot listen on ${authority(host, port)}`;
  const details = { cause: error, metadata: { host, port: String(port) } };
  switch (codeOf(error)) {
    case "EADDRINUSE":
      return new TrunklineError(
        "UNAVAILABLE",
        `${where}: the port is in use; stop the process that holds it or choose another port`,
        details,
      );
    case "EACCES":
      return new TrunklineError(
        "UNAVAILABLE",
        `${where}: this user may not; choose a port from 1024 to 65535`,
        details,
      );
    case "EADDRNOTAVAIL":
    case "ENOTFOUND":
    case "EAI_AGAIN":
      return new TrunklineError(
        "UNAVAILABLE",
        `${where}: this machine has no such host; choose one of its addresses, 127.0.0.1 or 0.0.0.0`,
        details,
      );
    case "ERR_SOCKET_BAD_PORT":
      return new TrunklineError(
        "INVALID_FIELD",
        `port: ${String(port)} is not a port; allowed: 0 to 65535`,
        details,
      );
    default:
      return new TrunklineError("UNAVAILABLE", `${where}: ${messageOf(error)}`, details);
  }
}

/** `host:port` as a URL has it: IPv6 addresses in brackets. */
export function authority(host: string, port: number): string {
  return host.includes(":") ? `[${host}]:${String(port)}` : `${host}:${String(port)}`;
}

/** Starts listening and resolves with the port that was taken; rejects with a {@link TrunklineError} that says what to do. */
export function bind(front: Server, host: string, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const refuse = (error: unknown): void => {
      reject(listenError(error, host, port));
    };
    front.once("error", refuse);
    const ready = (): void => {
      front.off("error", refuse);
      const address = front.address();
      resolve(address === null || typeof address === "string" ? port : address.port);
    };
    try {
      front.listen({ host, port, backlog: BACKLOG }, ready);
    } catch (error) {
      refuse(error);
    }
  });
}
