import { constants } from "node:http2";
import type { DescMethod } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { LIMITS } from "../core/limits.js";
import { overloaded } from "../exchange/overload.js";
import { isGone, type RequestHandler } from "./listener-handler.js";

type Request = Parameters<RequestHandler>[0];
type Response = Parameters<RequestHandler>[1];

/** Replaces some of the usual bounds, in tests. */
export interface AnonymousBounds {
  readonly requests?: number;
  readonly bodyBytes?: number;
  readonly bodyMs?: number;
}

/** A large result over a poor line. */
const BODY_MS = 60_000;

/**
 * Bounds what those hold of a node who show no credential, since the RPC asks for none: requests of one RPC, bytes of
 * bodies that are not complete, and the time to complete one. The RPCs are bounded one by one, so that the health
 * check answers while somebody floods another.
 */
export class AnonymousLoad {
  readonly #bounds: Required<AnonymousBounds>;
  readonly #requests = new Map<DescMethod, number>();
  #bytes = 0;

  constructor(bounds: AnonymousBounds = {}) {
    const usual = {
      requests: LIMITS.anonymousRequests,
      bodyBytes: LIMITS.anonymousBodyBytes,
      bodyMs: BODY_MS,
    };
    this.#bounds = { ...usual, ...bounds };
  }

  /**
   * Lets a request in; it leaves with its answer, and is cut when its body takes too long.
   *
   * @throws TrunklineError OVERLOADED
   */
  enter(method: DescMethod, request: Request, response: Response): void {
    const { requests: most, bodyMs } = this.#bounds;
    const requests = this.#requests.get(method) ?? 0;
    if (requests >= most) {
      throw overloaded(`this node has ${String(requests)} requests of ${method.name} without a credential`);
    }
    this.#requests.set(method, requests + 1);
    const late = setTimeout(() => {
      if (!request.complete && !isGone(response)) cut(request, response);
    }, bodyMs);
    response.once("close", () => {
      clearTimeout(late);
      this.#requests.set(method, (this.#requests.get(method) ?? 1) - 1);
    });
  }

  /** The body, which fails with RESOURCE_EXHAUSTED while all of them together hold too much. */
  async *bounded(body: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void, undefined> {
    const { bodyBytes: most } = this.#bounds;
    let bytes = 0;
    try {
      for await (const chunk of body) {
        bytes += chunk.length;
        this.#bytes += chunk.length;
        if (this.#bytes > most) {
          const message = `this node holds ${String(most)} bytes of requests without a credential; try again`;
          throw new ConnectError(message, Code.ResourceExhausted);
        }
        yield chunk;
      }
    } finally {
      this.#bytes -= bytes;
    }
  }
}

function cut(request: Request, response: Response): void {
  if ("stream" in response) response.stream.close(constants.NGHTTP2_CANCEL);
  else request.destroy();
}
