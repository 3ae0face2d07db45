import { Code, ConnectError } from "@connectrpc/connect";

/**
 * Calls `gone` when a stream's client has gone away, one turn of the event loop later: a frame that cannot be
 * read closes the request as well, and its error is to be heard first.
 *
 * @returns what takes the listener away
 */
export function onClientGone(signal: AbortSignal, gone: () => void): () => void {
  const listener = (): void => void setImmediate(gone);
  if (signal.aborted) listener();
  else signal.addEventListener("abort", listener, { once: true });
  return () => signal.removeEventListener("abort", listener);
}

const UNREADABLE: ReadonlySet<Code> = new Set([Code.ResourceExhausted, Code.InvalidArgument, Code.Internal]);

/** Whether reading a stream failed because of what was in it: a frame too large, or bytes that are no message. */
export function isUnreadable(error: unknown): boolean {
  return error instanceof ConnectError && UNREADABLE.has(error.code) && !isReset(error);
}

/** HTTP/2 has its own errors, for streams that were cut. */
function isReset({ rawMessage }: ConnectError): boolean {
  return rawMessage.startsWith("http/2 stream closed");
}
