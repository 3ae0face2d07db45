// Everything that can be measured, in the order in which it is.
import { fairness } from "./scenarios/fairness.mjs";
import { floor } from "./scenarios/floor.mjs";
import { growth } from "./scenarios/growth.mjs";
import { idle } from "./scenarios/idle.mjs";
import { inflight } from "./scenarios/inflight.mjs";
import { keys } from "./scenarios/keys.mjs";
import { latency } from "./scenarios/latency.mjs";
import { nodes } from "./scenarios/nodes.mjs";
import { payloads } from "./scenarios/payloads.mjs";
import { throughput } from "./scenarios/throughput.mjs";
import { turns } from "./scenarios/turns.mjs";
import { waiting } from "./scenarios/waiting.mjs";
import { wake } from "./scenarios/wake.mjs";

/**
 * What a scenario is given.
 *
 * @typedef {object} Setting
 * @property {{ url: string }} postgres
 * @property {import("./report.mjs").Report} report
 * @property {import("./options.mjs").Options} options
 * @property {readonly import("./peers.mjs").Peer[]} peers
 */

/** @type {Readonly<Record<string, (setting: Setting) => Promise<void>>>} */
export const SCENARIOS = {
  floor,
  throughput,
  latency,
  payloads,
  inflight,
  idle,
  nodes,
  keys,
  wake,
  waiting,
  turns,
  growth,
  fairness,
};
