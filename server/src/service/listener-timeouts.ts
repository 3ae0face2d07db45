/** How long a peer may stay silent, in milliseconds. They bound what half-open and slow peers can hold. */
export interface ListenerTimeouts {
  /** From the connection to the bytes that tell its protocol, and from there to HTTP/2's first settings. */
  readonly silenceMs: number;
  /**
   * Between two looks at an HTTP/2 connection: one that sent nothing since the last is asked by a PING, and cut at
   * the next when it has still sent nothing. Half of what it takes to find a dead one.
   */
  readonly quietMs: number;
  /** For the whole header block of an HTTP/1.1 request. */
  readonly headersMs: number;
  /**
   * Without a byte moving while the client of an HTTP/1.1 request owes more of its body, does not read
   * its answer, or has sent the next request already. The request as a whole has no bound: streams last.
   */
  readonly stalledMs: number;
  /** For what is still to come of an HTTP/1.1 request that has its answer. */
  readonly restMs: number;
  /** Between two requests on one HTTP/1.1 connection; above the minute that load balancers keep theirs. */
  readonly keepAliveMs: number;
}

/** What {@link ListenerTimeouts} are unless the caller says otherwise. */
export const DEFAULT_TIMEOUTS: ListenerTimeouts = {
  silenceMs: 5_000,
  quietMs: 30_000,
  headersMs: 15_000,
  stalledMs: 60_000,
  restMs: 5_000,
  keepAliveMs: 75_000,
};
