/** Whose data a credential reaches: a project's, within it one end user's, or of that one run. */
export interface Scope {
  readonly projectId: number;
  /** The end user that the credential is bound to; null reaches the whole project. */
  readonly namespace: string | null;
  /** The run that it is bound to; not set: all of them. */
  readonly runId?: string;
}

/** What tells whether a run, or a call of it, is within a scope. */
export interface Owner {
  readonly projectId: number;
  readonly namespace: string;
  readonly runId: string;
}

/** Whether two scopes reach the same. */
export function isSameScope(a: Scope, b: Scope): boolean {
  return a.projectId === b.projectId && a.namespace === b.namespace && a.runId === b.runId;
}

/** Whether a scope reaches what belongs to this owner. What it does not reach looks as if it were not there. */
export function reaches({ projectId, namespace, runId }: Scope, owner: Owner): boolean {
  return (
    owner.projectId === projectId &&
    (namespace === null || owner.namespace === namespace) &&
    (runId === undefined || owner.runId === runId)
  );
}
