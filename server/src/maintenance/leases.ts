import type { Exchange } from "../exchange/exchange.js";
import { lapsedClaims, renewSessions } from "../store/sessions.js";

const SWEEP_LIMIT = 500;

/** As {@link renew}; whether that can be done is whether the node has its database. */
export async function renewOrTell(exchange: Exchange): Promise<number> {
  const { availability } = exchange;
  let accessVersion: number;
  try {
    accessVersion = await renew(exchange);
  } catch (error) {
    availability.failed(error);
    throw error;
  }
  // Others may have counted this node among the dead: it tells them that it is here, as one that starts does.
  if (availability.renewed()) await exchange.hints.greet();
  return accessVersion;
}

/**
 * Renews this node's sessions with when each was last heard, not with now: a node that is cut off from its
 * workers must not keep their claims alive. Sessions that another node has are let go, those without a stream
 * too.
 *
 * @returns the number of the last change to keys and tokens
 */
export async function renew(exchange: Exchange): Promise<number> {
  const { upkeep, nodeId, heartbeatIntervalMs, hints, sessions } = exchange;
  const now = performance.now();
  const mine = [...sessions.all()];
  const items = mine.map(({ number, epoch, heardAt }) => ({
    number,
    epoch,
    heardMsAgo: Math.max(0, Math.round(now - heardAt)),
  }));
  const renewed = await renewSessions(upkeep, nodeId, heartbeatIntervalMs, items);
  const kept = new Set(renewed.kept);
  hints.othersAlive = renewed.othersAlive;
  mine.forEach((session, index) => {
    // A hello during the renewal has given it a newer epoch, and so another answer.
    if (!kept.has(session.number) && session.epoch === items[index]?.epoch) sessions.lose(session);
  });
  sessions.prune();
  return renewed.accessVersion;
}

/**
 * Ends the claims whose leases have ended, on whatever node; true when there may be more. To be left alone for one
 * interval after the database was away: what was heard meanwhile is not written down yet, here and on other nodes.
 */
export async function sweepLeases(exchange: Exchange): Promise<boolean> {
  const calls = await lapsedClaims(exchange.db, exchange.heartbeatIntervalMs, SWEEP_LIMIT);
  await Promise.all(
    calls.map(async (call) => {
      if (call.claim === null) return;
      await exchange.apply(call, { type: "lease_ended", claimId: call.claim.id }, null);
    }),
  );
  return calls.length === SWEEP_LIMIT;
}
