// What everything that is measured does first, floors too: V8 compiles what runs often, and is slow until it has.

/** Calls one at a time, back to back: so many, or for so long, whichever is over first. */
export const LONE_WARM_UP = { most: 2_000, seconds: 5 };

/** The load itself, for so long. */
export const LOAD_WARM_UP_SECONDS = 2;
