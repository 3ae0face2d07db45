import type { Socket } from "node:net";

/** The two protocols that share the plain port. */
export type Protocol = "http1" | "http2";

/** How every HTTP/2 connection begins ("PRI * HTTP/2.0"); no HTTP/1.1 method does. */
const HTTP2_START = Buffer.from("PRI");

function protocolOf(bytes: Buffer): Protocol | undefined {
  const seen = bytes.subarray(0, HTTP2_START.length);
  if (!seen.equals(HTTP2_START.subarray(0, seen.length))) return "http1";
  return seen.length === HTTP2_START.length ? "http2" : undefined;
}

/**
 * Calls `handOver` once, as soon as the first bytes of a connection tell its protocol, with those
 * bytes put back into the socket. A connection that ends first, or stays undecided for `silenceMs`,
 * is destroyed and never handed over.
 *
 * `handOver` runs in the same turn of the event loop in which the bytes are put back: an HTTP server
 * must take the socket before more of it is read.
 */
export function onFirstBytes(
  socket: Socket,
  silenceMs: number,
  handOver: (protocol: Protocol) => void,
): void {
  let bytes = Buffer.alloc(0);

  const stop = (): void => {
    clearTimeout(deadline);
    socket.off("readable", read);
    socket.off("end", giveUp);
    socket.off("close", stop);
  };
  const giveUp = (): void => {
    stop();
    socket.destroy();
  };
  const read = (): void => {
    const chunk: unknown = socket.read();
    if (!Buffer.isBuffer(chunk)) return;
    bytes = Buffer.concat([bytes, chunk]);
    const protocol = protocolOf(bytes);
    if (protocol === undefined) return;
    stop();
    socket.unshift(bytes);
    handOver(protocol);
  };
  const deadline = setTimeout(giveUp, silenceMs);

  socket.on("readable", read);
  socket.on("end", giveUp);
  socket.on("close", stop);
}
