/** The name under which the harness stores the declarations, and by which worker and run refer to them. */
export const TOOLSET = "bicycle-shop";

/**
 * How fast a worker that died is missed. These are the defaults; the server's heartbeat interval sets how
 * low they can go.
 */
const { HEARTBEAT_TIMEOUT = "60s", DETACH_GRACE = "10s" } = process.env;

const patience = { heartbeatTimeout: HEARTBEAT_TIMEOUT, detachGrace: DETACH_GRACE };

/**
 * May run again when a worker dies: its effect happens once, or does not matter.
 *
 * @type {import("@trunkline/sdk").Policy}
 */
const retry = { ...patience, mode: "retry" };

/**
 * Never runs twice: when a worker dies in it, the call fails with `outcomeUnknown`.
 *
 * @type {import("@trunkline/sdk").Policy}
 */
const once = { ...patience, mode: "at_most_once" };

const text = { type: "string", minLength: 1 };

/** @type {(properties: Record<string, object>) => Record<string, unknown>} */
const object = (properties) => ({
  type: "object",
  properties,
  required: Object.keys(properties),
  additionalProperties: false,
});

/**
 * What a script may call: the schemas are checked by the server before a worker sees a call.
 *
 * @type {import("@trunkline/sdk").ToolDeclarations}
 */
export const tools = {
  "crm.find_customer": {
    description: "The customer with this email address.",
    input: object({ email: text }),
    policy: retry,
  },
  "crm.list_orders": {
    description: "All orders of the customer with this email address.",
    input: object({ email: text }),
    policy: retry,
  },
  "crm.find_order": {
    description: "An order and its customer.",
    input: object({ id: text }),
    policy: retry,
  },
  "bank.refund": {
    description: "Pays an order back. The bank knows idempotency keys, so it may be tried again.",
    input: object({ order: text, cents: { type: "integer", minimum: 1 } }),
    policy: retry,
  },
  "bank.charge": {
    description: "Charges the customer's card. The card terminal has no keys, so it is tried once.",
    input: object({ order: text, cents: { type: "integer", minimum: 1 } }),
    policy: once,
  },
  "bank.find_transfers": {
    description: "The transfers that the bank has booked for an order.",
    input: object({ order: text }),
    policy: retry,
  },
  ask_user: {
    description: "Asks a person, and waits for the answer, for days if need be.",
    input: object({ question: text, options: { type: "array", items: text, minItems: 1 } }),
    policy: once,
  },
};
