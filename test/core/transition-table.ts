import { describe, expect, test } from "vitest";
import type { Call } from "../../server/src/core/call.js";
import type { CallEvent } from "../../server/src/core/event.js";
import { decide } from "../../server/src/core/transition.js";
import {
  after,
  AT_MOST_ONCE_SITUATIONS,
  inOneLine,
  opened,
  policyOf,
  RETRY_SITUATIONS,
} from "./transition-situations.js";

/** What an event comes to in some situations, and in all others (`otherwise`); as `inOneLine` writes it. */
type Row<Situation extends string> = Readonly<Partial<Record<Situation | "otherwise", string>>>;

/** A row of a retry call. */
export type RetryRow = Row<keyof typeof RETRY_SITUATIONS>;
/** A row of an at_most_once call. */
export type AtMostOnceRow = Row<keyof typeof AT_MOST_ONCE_SITUATIONS>;

/** An event of the table: made for the call's last claim, or "c1" before the first. */
export interface TableEvent {
  readonly name: string;
  readonly of: (claimId: string) => CallEvent;
  readonly retry: RetryRow;
  readonly atMostOnce: AtMostOnceRow;
}

/** Checks every cell: each of the events in each of the situations, under both modes. */
export function checkTable(events: readonly TableEvent[]): void {
  describe("on a retry call", () => {
    check(events, RETRY_SITUATIONS, opened(policyOf("retry")), (event) => event.retry);
  });
  describe("on an at_most_once call", () => {
    check(events, AT_MOST_ONCE_SITUATIONS, opened(policyOf("at_most_once")), (event) => event.atMostOnce);
  });
}

function check(
  events: readonly TableEvent[],
  situations: Readonly<Record<string, readonly CallEvent[]>>,
  born: Call,
  rowOf: (event: TableEvent) => Readonly<Record<string, string | undefined>>,
): void {
  const cells = events.flatMap((event) =>
    Object.entries(situations).map(([situation, past]) => {
      const row = rowOf(event);
      return { event, situation, past, expected: row[situation] ?? row["otherwise"] };
    }),
  );
  test.each(cells)("$event.name, $situation: $expected", ({ event, past, expected }) => {
    const call = after(born, ...past);
    const decision = decide(call, event.of(call.claim?.id ?? "c1"), 0);
    expect(inOneLine(decision)).toBe(expected);
  });
}
