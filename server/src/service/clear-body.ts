import { Code, ConnectError } from "@connectrpc/connect";

/**
 * A body whose reader is told of its cut as of what it is: the client has gone. Node's own errors ("Premature close",
 * "aborted") would look like faults of ours.
 */
export function withClearCut(body: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array> {
  return {
    [Symbol.asyncIterator]: () => {
      const chunks = body[Symbol.asyncIterator]();
      return {
        next: () =>
          chunks.next().catch((error: unknown) => {
            throw new ConnectError("the client went away", Code.Canceled, undefined, undefined, error);
          }),
        return: () => chunks.return?.() ?? Promise.resolve({ done: true, value: undefined }),
      };
    },
  };
}
