import type { Scenario } from "./scenario.js";
import { ANSWERS } from "./scenarios/answers.js";
import { BOUNDS } from "./scenarios/bounds.js";
import { CUTS } from "./scenarios/cuts.js";
import { DEFERRALS } from "./scenarios/deferrals.js";
import { HELLO } from "./scenarios/hello.js";
import { HOLDING } from "./scenarios/holding.js";
import { LEAVING } from "./scenarios/leaving.js";
import { NOVELTIES } from "./scenarios/novelties.js";
import { OUTAGES } from "./scenarios/outages.js";
import { PAYLOADS } from "./scenarios/payloads.js";
import { STARTS } from "./scenarios/starts.js";

/** All scenarios, in the order of their numbers. */
export const SCENARIOS: readonly Scenario[] = [
  ...HELLO,
  ...ANSWERS,
  ...DEFERRALS,
  ...STARTS,
  ...CUTS,
  ...HOLDING,
  ...OUTAGES,
  ...LEAVING,
  ...PAYLOADS,
  ...NOVELTIES,
  ...BOUNDS,
].sort((a, b) => a.number - b.number);
