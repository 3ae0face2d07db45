import type { Timer } from "../core/event.js";

/** A timer as a parameter of the database's function `timer_at`. */
export function timerMs(timer: Timer): number | null {
  if (timer === "keep") return -1;
  return timer === "clear" ? null : timer.inMs;
}
