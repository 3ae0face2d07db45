/** The name under which the engine stores the declarations, and by which worker and run refer to them. */
export const TOOLSET = "travel-desk";

/**
 * How fast a worker that died is missed. These are the defaults; the server's heartbeat interval sets how
 * low they can go.
 */
const { HEARTBEAT_TIMEOUT = "60s", DETACH_GRACE = "10s" } = process.env;

/**
 * All of these tools may run again when a worker dies: each has its effect once, or none.
 *
 * @type {import("@trunkline/sdk").Policy}
 */
const retry = { mode: "retry", heartbeatTimeout: HEARTBEAT_TIMEOUT, detachGrace: DETACH_GRACE };

const text = { type: "string", minLength: 1 };
const cents = { type: "integer", minimum: 1 };

/** @type {(properties: Record<string, object>) => Record<string, unknown>} */
const object = (properties) => ({
  type: "object",
  properties,
  required: Object.keys(properties),
  additionalProperties: false,
});

/**
 * What the model may call. Their names have no dots, which some providers refuse.
 *
 * @type {import("@trunkline/sdk").ToolDeclarations}
 */
export const tools = {
  weather: {
    description: "Tomorrow's weather in a city.",
    input: object({ city: text }),
    policy: retry,
  },
  find_trains: {
    description: "Tomorrow's trains between two cities, the cheapest first. This takes a while.",
    input: object({ from: text, to: text }),
    policy: retry,
  },
  hold_seats: {
    description: "Holds seats in a train for a day. The booking system is often busy, so it is tried again.",
    input: object({ train: text, seats: { type: "integer", minimum: 1 } }),
    policy: { ...retry, maxAttempts: 20, backoff: { initial: "100ms", max: "1s" } },
  },
  ask_traveller: {
    description: "Asks the traveller to choose, on the page that is open in front of them.",
    input: object({ question: text, options: { type: "array", items: text, minItems: 1 } }),
    // No worker gets it: whoever holds the page settles it.
    executor: "client",
    policy: { deferTimeout: "3d" },
  },
  approve: {
    description:
      "Asks the traveller's manager to approve a price, and waits for the answer, for days if need be.",
    input: object({ cents, reason: text }),
    policy: { ...retry, deferTimeout: "3d" },
  },
};
