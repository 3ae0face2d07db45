/**
 * Runs the travel desk's tools. Start as many as you like:
 *
 *     node worker.mjs [name]
 */
import { setTimeout as delay } from "node:timers/promises";
import { HostToolError, Trunkline } from "@trunkline/sdk";
import { Approvals } from "./approvals.mjs";
import { witness } from "./evidence.mjs";
import { APPROVALS_DIR } from "./places.mjs";
import { TOOLSET } from "./toolset.mjs";

/** How long the timetable takes. */
const { TRAINS_MS = "1500" } = process.env;

/** How often the booking system is busy before it holds seats. */
const BUSY_ATTEMPTS = 2;

/** @type {Readonly<Record<string, string>>} */
const SKIES = { Oslo: "snow", Bergen: "rain", Trondheim: "sun" };

const TRAINS = [
  { id: "R-601", from: "Oslo", to: "Bergen", leaves: "08:25", cents: 54_900 },
  { id: "R-609", from: "Oslo", to: "Bergen", leaves: "16:03", cents: 39_900 },
  { id: "R-602", from: "Bergen", to: "Oslo", leaves: "07:59", cents: 49_900 },
];

const approvals = new Approvals(APPROVALS_DIR);

/** @type {Record<string, import("@trunkline/sdk").ToolHandler>} */
const handlers = {
  weather: async (/** @type {{ city: string }} */ { city }) => {
    const sky = Object.hasOwn(SKIES, city) ? SKIES[city] : undefined;
    if (sky === undefined) throw new HostToolError(`no weather station in ${city}`);
    return { city, sky };
  },

  find_trains: async (/** @type {{ from: string, to: string }} */ { from, to }, ctx) => {
    await delay(Number(TRAINS_MS), undefined, { signal: ctx.signal });
    return TRAINS.filter((train) => train.from === from && train.to === to).sort((a, b) => a.cents - b.cents);
  },

  hold_seats: async (/** @type {{ train: string, seats: number }} */ { train, seats }, ctx) => {
    // Real ones would pass ctx.idempotencyKey on, so that an attempt whose answer was lost holds no second seats.
    if (ctx.attempt <= BUSY_ATTEMPTS)
      throw new HostToolError("the booking system is busy", { retryable: true });
    return { hold: `${train}/${seats}`, hours: 24 };
  },

  approve: async (/** @type {{ cents: number, reason: string }} */ { cents, reason }, ctx) => {
    // Kept before the call is deferred: a crash between the two asks again, and this way nothing is lost. Until the
    // deferral is stored the token is not good, so whoever is faster than that tries again.
    const token = ctx.newToken();
    await approvals.save({ callId: ctx.idempotencyKey, cents, reason, token });
    await ctx.defer({ token });
    // What is returned now is no answer: whoever holds the token answers.
  },
};

/**
 * A handler that tells of each start.
 *
 * @param {import("@trunkline/sdk").ToolHandler} handler
 * @returns {import("@trunkline/sdk").ToolHandler}
 */
function told(handler) {
  return async (input, ctx) => {
    const { tool, idempotencyKey, attempt } = ctx;
    console.log(`${tool} ${ctx.inputJson}  (key ${idempotencyKey}, attempt ${attempt})`);
    await witness("work", { callId: idempotencyKey, attempt, tool });
    return handler(input, ctx);
  };
}

const trunkline = new Trunkline();
const worker = trunkline.worker({
  toolset: TOOLSET,
  tools: Object.fromEntries(Object.entries(handlers).map(([name, handler]) => [name, told(handler)])),
  ...(process.argv[2] && { name: process.argv[2] }),
});
console.log(`${worker.name} takes calls`);

for (const signal of ["SIGTERM", "SIGINT"]) process.once(signal, () => void worker.stop());
await worker.done;
