import type { Call } from "../core/call.js";
import { isClaimed, type Exchange } from "../exchange/exchange.js";
import type { Session } from "../exchange/session.js";
import { sessionClaims } from "../store/sessions.js";

/**
 * Compares what the database says this node's sessions hold with what this node knows, in one statement:
 * whatever a lost reply left behind heals here. Claims of the last interval are left alone, and so are
 * calls that something is being done to.
 */
export async function reconcile(exchange: Exchange): Promise<void> {
  const { db, heartbeatIntervalMs, sessions } = exchange;
  const mine = new Map<number, Session>();
  for (const session of sessions.all()) if (session.stream !== null) mine.set(session.number, session);
  if (mine.size === 0) return;
  const settledBefore = performance.now() - heartbeatIntervalMs;
  const held = new Map<string, Session>();
  for (const session of mine.values()) for (const claim of session.held.values()) held.set(claim.id, session);
  const stored = await sessionClaims(db, [...mine.keys()], heartbeatIntervalMs);
  await Promise.all(
    stored.filter((call) => isUnknown(call, exchange, mine, held)).map((call) => takeBack(exchange, call)),
  );
  const known = new Set(stored.map(({ claim }) => claim?.id));
  for (const [claimId, session] of held) {
    const claim = session.held.get(claimId);
    if (claim === undefined || known.has(claimId) || claim.offeredAt > settledBefore) continue;
    if (exchange.isBusy(claim.call)) continue;
    const now = await exchange.load(claim.call);
    if (now === undefined || !isClaimed(now) || now.claim.id !== claimId)
      sessions.drop(claim.call, "lease_lost");
  }
}

function isUnknown(
  call: Call,
  exchange: Exchange,
  mine: ReadonlyMap<number, Session>,
  held: ReadonlyMap<string, Session>,
): boolean {
  if (!isClaimed(call) || held.has(call.claim.id)) return false;
  // Known by now: it was delivered while the statement ran.
  if (mine.get(call.claim.session)?.held.has(call.claim.id) === true) return false;
  return !exchange.isBusy(call) && exchange.sessions.recall(call) === undefined;
}

async function takeBack(exchange: Exchange, call: Call): Promise<void> {
  if (!isClaimed(call)) return;
  await exchange.apply(call, { type: "take_back", claimId: call.claim.id, cause: "undelivered" }, null);
}
