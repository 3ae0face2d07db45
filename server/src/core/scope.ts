/** Whose data a credential reaches: a project's, or within it one end user's. */
export interface Scope {
  readonly projectId: number;
  /** The end user that the credential is bound to; null reaches the whole project. */
  readonly namespace: string | null;
}
