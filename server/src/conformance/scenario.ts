import type { Kit } from "./kit.js";

/** One numbered thing that a worker has to do right. */
export interface Scenario {
  readonly number: number;
  readonly title: string;
  /** The worker's handler slots. Default 4. */
  readonly concurrency?: number;
  /**
   * Plays the server's part.
   *
   * @throws Mismatch when the worker does something else than it has to
   */
  readonly play: (kit: Kit) => Promise<void>;
}
