import type { DescService } from "@bufbuild/protobuf";
import { createClient, type CallOptions, type Client } from "@connectrpc/connect";
import type { Connection } from "./transport.js";

/** How long an answer may take beside what is waited for on purpose. */
export const ANSWER_MS = 10_000;

/** How one request is sent. */
export interface PollRequestOptions {
  /** How long its answer may take. Default {@link ANSWER_MS}. */
  readonly timeoutMs?: number;
  /** Gives it up alone. */
  readonly own?: AbortController | undefined;
}

/** The single requests of one carrier: on connections of their own, and all given up when it ends. */
export class PollRequests {
  readonly #connection: Connection;
  readonly #underWay = new Set<AbortController>();
  #over = false;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** Whether they have ended. */
  get over(): boolean {
    return this.#over;
  }

  client<S extends DescService>(service: S): Client<S> {
    return createClient(service, this.#connection.transport);
  }

  /**
   * Sends a request; undefined when it was given up, or all of them were meanwhile. Rejects with whatever the server or
   * the network says otherwise.
   */
  async send<T>(
    request: (options: CallOptions) => Promise<T>,
    { timeoutMs = ANSWER_MS, own = new AbortController() }: PollRequestOptions = {},
  ): Promise<T | undefined> {
    if (this.#over) return undefined;
    this.#underWay.add(own);
    try {
      const response = await request({ signal: own.signal, timeoutMs });
      return own.signal.aborted ? undefined : response;
    } catch (cause) {
      if (own.signal.aborted) return undefined;
      throw cause;
    } finally {
      this.#underWay.delete(own);
    }
  }

  /** Gives all of them up, and their connections; none is sent any more. */
  end(): void {
    this.#over = true;
    for (const request of this.#underWay) request.abort();
    this.#connection.abort();
  }
}
