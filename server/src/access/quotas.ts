import type { Caller } from "../core/caller.js";
import { TrunklineError } from "../core/error.js";
import type { Database } from "../store/database.js";
import { OpenCalls, type CallOwner } from "./open-calls.js";
import type { QuotaLimits, QuotaName } from "../core/quota.js";
import { Rate } from "./rate.js";

/** An end user of a project. */
export interface EndUser {
  readonly projectId: number;
  readonly namespace: string;
}

/** How long whoever has too much open waits before another try: about as long as something takes to end. */
const RETRY_MS = 1_000;

/** Bounds what one key, end user or project uses, so that none takes the server from the others. */
export class Quotas {
  readonly #limits: QuotaLimits;
  readonly #ratePerKey: Rate | null;
  readonly #ratePerNamespace: Rate | null;
  readonly #openOfNamespaces: OpenCalls | null;
  readonly #openOfProjects: OpenCalls | null;
  readonly #streams = new Map<string, number>();

  constructor(db: Database, limits: QuotaLimits) {
    const rate = (perSecond: number | undefined): Rate | null =>
      perSecond === undefined ? null : new Rate(perSecond);
    const open = (max: number | undefined): OpenCalls | null =>
      max === undefined ? null : new OpenCalls(db, max);
    this.#limits = limits;
    this.#ratePerKey = rate(limits["key.calls_per_second"]);
    this.#ratePerNamespace = rate(limits["namespace.calls_per_second"]);
    this.#openOfNamespaces = open(limits["namespace.open_calls"]);
    this.#openOfProjects = open(limits["project.open_calls"]);
  }

  /**
   * Lets a call be opened; at once, unless its owner's calls were never counted here. What was let in is on its way
   * until {@link opened}.
   *
   * @throws TrunklineError OVERLOADED, with when to come back
   */
  openCall(caller: Caller, endUser: EndUser): Promise<void> | undefined {
    const { projectId, namespace } = endUser;
    const project = { projectId, namespace: null };
    if (caller.kind === "key") this.#takeRate("key.calls_per_second", this.#ratePerKey, caller.id);
    this.#takeRate("namespace.calls_per_second", this.#ratePerNamespace, `${projectId}:${namespace}`);
    if (this.#openOfNamespaces === null && this.#openOfProjects === null) return undefined;
    const ofUser = this.#reserve("namespace.open_calls", this.#openOfNamespaces, endUser);
    const releaseUser = (error: unknown): never => {
      this.#openOfNamespaces?.opened(endUser, false);
      throw error;
    };
    const reserveProject = (): Promise<void> | undefined => {
      try {
        return this.#reserve("project.open_calls", this.#openOfProjects, project)?.catch(releaseUser);
      } catch (error) {
        return releaseUser(error);
      }
    };
    return ofUser === undefined ? reserveProject() : ofUser.then(reserveProject);
  }

  /** A call that was on its way is stored, or is not. */
  opened({ projectId, namespace }: EndUser, stored: boolean): void {
    this.#openOfNamespaces?.opened({ projectId, namespace }, stored);
    this.#openOfProjects?.opened({ projectId, namespace: null }, stored);
  }

  /** A call has ended on this node. */
  ended({ projectId, namespace }: EndUser): void {
    this.#openOfNamespaces?.ended({ projectId, namespace });
    this.#openOfProjects?.ended({ projectId, namespace: null });
  }

  /**
   * Counts a stream, or a request that waits, until {@link leave}.
   *
   * @throws TrunklineError OVERLOADED, with when to come back
   */
  enter(caller: Caller): void {
    const counted = this.#ownersOfStream(caller);
    for (const [name, owner] of counted) {
      const max = this.#limits[name] ?? Infinity;
      const open = this.#streams.get(owner) ?? 0;
      if (open >= max) throw tooMuch(name, max, RETRY_MS);
    }
    for (const [, owner] of counted) this.#streams.set(owner, (this.#streams.get(owner) ?? 0) + 1);
  }

  /** A stream that was counted has ended. */
  leave(caller: Caller): void {
    for (const [, owner] of this.#ownersOfStream(caller)) {
      const left = (this.#streams.get(owner) ?? 0) - 1;
      if (left > 0) this.#streams.set(owner, left);
      else this.#streams.delete(owner);
    }
  }

  #ownersOfStream({ kind, id, scope }: Caller): (readonly [QuotaName, string])[] {
    const owners: (readonly [QuotaName, string])[] = [];
    if (kind === "key" && this.#limits["key.streams"] !== undefined)
      owners.push(["key.streams", `key:${id}`]);
    if (scope.namespace !== null && this.#limits["namespace.streams"] !== undefined) {
      owners.push(["namespace.streams", `${scope.projectId}:${scope.namespace}`]);
    }
    return owners;
  }

  #takeRate(name: QuotaName, rate: Rate | null, owner: string): void {
    const waitMs = rate?.take(owner) ?? 0;
    if (waitMs > 0) throw tooMuch(name, this.#limits[name] ?? 0, waitMs);
  }

  /** At once, or the promise of it; refused where there is no room. */
  #reserve(name: QuotaName, counts: OpenCalls | null, owner: CallOwner): Promise<void> | undefined {
    const check = (taken: boolean): void => {
      if (!taken) throw tooMuch(name, this.#limits[name] ?? 0, RETRY_MS);
    };
    const taken = counts?.reserve(owner) ?? true;
    if (typeof taken !== "boolean") return taken.then(check);
    check(taken);
    return undefined;
  }
}

function tooMuch(name: QuotaName, max: number, retryAfterMs: number): TrunklineError {
  return new TrunklineError(
    "OVERLOADED",
    `${name} is at its limit, ${String(max)}; try again after the delay`,
    {
      metadata: { limit: name, max: String(max) },
      // Not all in one moment.
      retryAfterMs: Math.ceil(retryAfterMs * (1 + Math.random())),
    },
  );
}
