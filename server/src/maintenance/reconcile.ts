import type { Call, ClaimedCall } from "../core/call.js";
import { isClaimed, type Exchange } from "../exchange/exchange.js";
import type { HeldClaim, Session } from "../exchange/session.js";
import { sessionClaims } from "../store/sessions.js";

/** A session with its epoch when the comparison began. */
interface SessionThen {
  readonly session: Session;
  readonly number: number;
  readonly epoch: number;
}

function isStill(then: SessionThen | undefined): then is SessionThen {
  return then !== undefined && then.session.epoch === then.epoch && !then.session.greeting;
}

interface Held {
  readonly claim: HeldClaim;
  readonly session: Session;
}

/**
 * Compares what the database says this node's sessions hold with what this node knows, in one statement:
 * whatever a lost reply left behind heals here. Claims of the last interval are left alone, and so are
 * calls that something is being done to.
 */
export async function reconcile(exchange: Exchange): Promise<void> {
  const { db, heartbeatIntervalMs, sessions } = exchange;
  const mine = new Map<number, SessionThen>();
  // What a hello that is under way names is not held yet.
  for (const session of sessions.all()) {
    if (!session.greeting)
      mine.set(session.number, { session, number: session.number, epoch: session.epoch });
  }
  if (mine.size === 0) return;
  const settledBefore = performance.now() - heartbeatIntervalMs;
  const held = new Map<string, Held>();
  for (const { session } of mine.values()) {
    for (const claim of session.held.values()) held.set(claim.id, { claim, session });
  }
  const stored = (await sessionClaims(db, [...mine.values()], heartbeatIntervalMs)).filter(isClaimed);
  // One that polled has left with its request, and with whatever that brought.
  const here = new Set(sessions.all());
  const unknownHere = stored.filter(({ claim }) => {
    const then = mine.get(claim.session);
    return !held.has(claim.id) && isStill(then) && here.has(then.session);
  });
  const known = new Set(stored.map(({ claim }) => claim.id));
  const unknownThere = [...held.values()].filter(
    ({ claim, session }) =>
      !known.has(claim.id) && claim.offeredAt <= settledBefore && session.held.get(claim.id) === claim,
  );
  await Promise.all([
    ...unknownHere.map((call) => takeBack(exchange, call)),
    ...unknownThere.map(({ claim }) => dropUnlessThere(exchange, claim)),
  ]);
}

/** Takes a claim back that nobody holds, unless it came to be known while the statement ran. */
async function takeBack(exchange: Exchange, call: ClaimedCall): Promise<void> {
  if (exchange.isBusy(call) || exchange.sessions.recall(call)?.claim.id === call.claim.id) return;
  await exchange.applyAsRead(call, { type: "take_back", claimId: call.claim.id, cause: "undelivered" });
}

/** Drops a claim that the database does not have, after a second look. */
async function dropUnlessThere(exchange: Exchange, claim: HeldClaim): Promise<void> {
  if (exchange.isBusy(claim.call)) return;
  const now: Call | undefined = await exchange.load(claim.call);
  if (now === undefined || !isClaimed(now) || now.claim.id !== claim.id) {
    exchange.sessions.drop(claim, "lease_lost");
  }
}
