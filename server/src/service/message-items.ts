import type { Message } from "@bufbuild/protobuf";
import { TrunklineError } from "../core/error.js";
import { LIMITS } from "../core/limits.js";
import { toConnectError } from "./error-map.js";

/**
 * Refuses a message whose lists have too many items together. An item may take two bytes, and its work a thousand
 * times as much: one frame of 4 MiB would have two million.
 *
 * @throws ConnectError INVALID_ARGUMENT, LIMIT_EXCEEDED
 */
export function checkItems(message: Message): void {
  const items = itemsOf(message) + nestedItemsOf(message);
  const max = LIMITS.messageItems;
  if (items <= max) return;
  const text = `the message has ${String(items)} items; allowed are at most ${String(max)}`;
  const metadata = { limit: "items", max: String(max) };
  throw toConnectError(new TrunklineError("LIMIT_EXCEEDED", text, { metadata }));
}

/** The messages of a stream, each checked when it is read: see {@link checkItems}. */
export async function* withCheckedItems<M extends Message>(messages: AsyncIterable<M>): AsyncGenerator<M> {
  for await (const message of messages) {
    checkItems(message);
    yield message;
  }
}

function itemsOf(message: object): number {
  const values: unknown[] = Object.values(message);
  return values.reduce<number>((sum, value) => sum + (Array.isArray(value) ? value.length : 0), 0);
}

/** A hello and a heartbeat have lists of their own; others are smaller than what they are in. */
function nestedItemsOf(message: object): number {
  const values: unknown[] = Object.values(message);
  return values.reduce<number>((sum, value) => sum + (isMessage(value) ? itemsOf(value) : 0), 0);
}

function isMessage(value: unknown): value is object {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
