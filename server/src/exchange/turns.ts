import type { ClaimedRow } from "../store/calls-claim.js";
import type { Session } from "./session.js";

interface Group {
  readonly sessions: Set<Session>;
  servedLast: string;
}

/**
 * Whose turn it is: for the sessions that ask for the same, the end user who was served last. It is known to this
 * node alone, and only as long as one of the sessions is here.
 */
export class Turns {
  readonly #groups = new Map<string, Group>();

  /** Counts a session among those that ask for the same, and notes in it which these are. */
  add(session: Session): void {
    session.groupKey = groupKey(session);
    let group = this.#groups.get(session.groupKey);
    if (group === undefined)
      this.#groups.set(session.groupKey, (group = { sessions: new Set(), servedLast: "" }));
    group.sessions.add(session);
  }

  /** Counts it no more. */
  remove(session: Session): void {
    const group = this.#groups.get(session.groupKey);
    group?.sessions.delete(session);
    if (group?.sessions.size === 0) this.#groups.delete(session.groupKey);
  }

  /** The namespace that the sessions of a group served last; empty: none. */
  servedLast(key: string): string {
    return this.#groups.get(key)?.servedLast ?? "";
  }

  /** These calls were claimed for a group, in this order. */
  served(key: string, claimed: readonly ClaimedRow[]): void {
    const group = this.#groups.get(key);
    const last = claimed.at(-1);
    if (group !== undefined && last !== undefined) group.servedLast = last.record.call.namespace;
  }
}

function groupKey({ scope, facts }: Session): string {
  return JSON.stringify([scope.projectId, scope.namespace, scope.runId, facts.toolset, facts.tools]);
}
