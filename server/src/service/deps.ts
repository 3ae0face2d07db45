import type { Quotas } from "../access/quotas.js";
import { OpenStreams } from "./open-streams.js";
import type { Exchange } from "../exchange/exchange.js";
import { SeenTools } from "./seen-tools.js";
import { LEAVE_MS } from "./stream-age.js";
import { ToolsetCatalog } from "./toolset-catalog.js";

/** What the services work with. */
export interface ServiceDeps {
  readonly exchange: Exchange;
  readonly catalog: ToolsetCatalog;
  /** The streams that are open on this node. */
  readonly streams: OpenStreams;
  readonly seenTools: SeenTools;
  /** Null: nobody has a bound of their own. */
  readonly quotas: Quotas | null;
  /** How old a stream may grow before its client is asked to open the next one; a quarter less by jitter. */
  readonly maxStreamAgeMs: number;
  /** Hears faults of the server, never those of clients. */
  readonly onError: (error: unknown) => void;
}

const DEFAULT_STREAM_AGE_MS = 30 * 60_000;

/** What the services of one node work with. */
export function serviceDeps(
  exchange: Exchange,
  onError: (error: unknown) => void,
  maxStreamAgeMs = DEFAULT_STREAM_AGE_MS,
  quotas: Quotas | null = null,
): ServiceDeps {
  const streams = new OpenStreams(quotas);
  if (quotas !== null) exchange.onEnded((call) => quotas.ended(call));
  exchange.availability.onChange((isDown) => {
    if (isDown) streams.databaseLost(LEAVE_MS);
  });
  return {
    exchange,
    catalog: new ToolsetCatalog(exchange.db),
    seenTools: new SeenTools(exchange),
    streams,
    quotas,
    maxStreamAgeMs,
    onError,
  };
}
