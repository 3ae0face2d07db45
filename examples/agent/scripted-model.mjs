import { randomBytes } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";

/** How long the script thinks. */
const { THINK_MS = "500" } = process.env;

/**
 * What the script says at each step, from what it was told before. The mistakes are on purpose: models make such.
 *
 * @type {readonly ((told: (id: string) => any) => { text: string, toolCalls?: { id: string, name: string, input: unknown }[] })[]}
 */
const SCRIPT = [
  () => ({
    text: "Let me look around.",
    toolCalls: [
      { id: "look_1", name: "weather", input: { city: "Bergen" } },
      // There is no such place.
      { id: "look_2", name: "weather", input: { city: "Atlantis" } },
      // Lacks where to.
      { id: "look_3", name: "find_trains", input: { from: "Oslo" } },
    ],
  }),
  () => ({
    text: "",
    toolCalls: [
      { id: "find_1", name: "find_trains", input: { from: "Oslo", to: "Bergen" } },
      { id: "find_2", name: "find_trains", input: { from: "Bergen", to: "Oslo" } },
      { id: "find_3", name: "weather", input: { city: "Oslo" } },
    ],
  }),
  (told) => ({
    text: "I hold seats, and ask where you like to sit.",
    toolCalls: [
      { id: "hold_1", name: "hold_seats", input: { train: told("find_1")[0].id, seats: 1 } },
      {
        id: "hold_2",
        name: "ask_traveller",
        input: { question: "Which seat?", options: ["window", "aisle"] },
      },
      { id: "hold_3", name: "hold_seats", input: { train: told("find_2")[0].id, seats: 1 } },
    ],
  }),
  (told) => ({
    text: "",
    toolCalls: [
      {
        id: "approve_1",
        name: "approve",
        input: {
          cents: told("find_1")[0].cents + told("find_2")[0].cents,
          reason: "Oslo to Bergen and back",
        },
      },
      { id: "approve_2", name: "weather", input: { city: "Trondheim" } },
    ],
  }),
  (told) => ({
    text:
      `${told("find_1")[0].leaves} to Bergen (${told("hold_1").hold}), ${told("find_2")[0].leaves} back ` +
      `(${told("hold_3").hold}), by the ${told("hold_2").choice}; approved by your ${told("approve_1").by}. ` +
      `Take a coat: ${told("look_1").sky} there. Of Atlantis I know only: ${told("look_2")}.`,
  }),
];

/**
 * A model that says the same to the same conversation, at no cost: for tests and for a first look. Only its ids of tool
 * calls are new each time, as those of real ones are: whoever asks it again must not open what it says again.
 *
 * @returns {import("./model.mjs").Model}
 */
export function scriptedModel() {
  return {
    name: "script",
    answer: async ({ messages }) => {
      await delay(Number(THINK_MS));
      const results = messages.flatMap((message) => (message.role === "tool" ? message.results : []));
      const step = SCRIPT[messages.filter(({ role }) => role === "assistant").length];
      if (step === undefined) throw new Error("the script is over");
      const { text, toolCalls = [] } = step((id) => {
        const result = results.find((each) => each.id.startsWith(`${id}-`));
        if (result === undefined) throw new Error(`no result for ${id}`);
        return result.state === "succeeded" ? JSON.parse(result.resultJson) : result.error.message;
      });
      const ask = randomBytes(4).toString("hex");
      return { text, toolCalls: toolCalls.map((call) => ({ ...call, id: `${call.id}-${ask}` })) };
    },
  };
}
