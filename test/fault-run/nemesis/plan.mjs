/** @typedef {import("../random.mjs").Random} Random */

/**
 * Who takes part, by name.
 *
 * @typedef {object} Topology
 * @property {readonly string[]} nodes
 * @property {readonly string[]} workers
 * @property {readonly string[]} harnesses
 * @property {readonly string[]} answerers
 * @property {boolean} ownPostgres Whether PostgreSQL may be stopped.
 * @property {boolean} faketime Whether clocks can be shifted.
 */

/**
 * One fault; what its kind does not need is missing.
 *
 * @typedef {object} Fault
 * @property {number} atMs After the beginning.
 * @property {string} kind
 * @property {string} target
 * @property {string} [node] The other end of a link.
 * @property {number} [ms] How long it lasts, or how long what was killed is away.
 * @property {"rst" | "fin"} [how]
 * @property {"up" | "down" | "both"} [direction]
 * @property {boolean} [lose] Whether what was held is lost.
 * @property {number} [seconds] By which a clock goes wrong.
 */

/**
 * @typedef {object} Kind
 * @property {number} weight How often it is in a round; each is at least once.
 * @property {(topology: Topology) => boolean} [possible]
 * @property {(random: Random, topology: Topology) => Omit<Fault, "atMs" | "kind">} draw
 */

/** @type {(random: Random, topology: Topology) => string} */
const client = (random, { workers, harnesses, answerers }) =>
  random.pick([...workers, ...workers, ...harnesses, ...answerers]);

/** @type {(random: Random) => Pick<Fault, "how">} */
const cut = (random) => ({ how: random.pick(["rst", "fin"]) });

/** @type {(random: Random, longestMs: number) => Pick<Fault, "ms" | "direction" | "lose">} */
const hole = (random, longestMs) => ({
  ms: random.int(500, longestMs),
  direction: random.pick(["up", "down", "both", "both"]),
  lose: random.chance(0.5),
});

/** @type {(topology: Topology) => boolean} */
const ownPostgres = (topology) => topology.ownPostgres;

/** @type {Readonly<Record<string, Kind>>} */
export const KINDS = {
  "kill-node": { weight: 3, draw: (r, t) => ({ target: r.pick(t.nodes), ms: r.int(0, 3_000) }) },
  "term-node": { weight: 2, draw: (r, t) => ({ target: r.pick(t.nodes), ms: r.int(0, 1_000) }) },
  "pause-node": { weight: 2, draw: (r, t) => ({ target: r.pick(t.nodes), ms: r.int(200, 5_000) }) },
  "kill-all-nodes": { weight: 1, draw: (r) => ({ target: "all nodes", ms: r.int(0, 4_000) }) },
  "kill-worker": { weight: 3, draw: (r, t) => ({ target: r.pick(t.workers), ms: r.int(0, 3_000) }) },
  "term-worker": { weight: 2, draw: (r, t) => ({ target: r.pick(t.workers), ms: r.int(0, 1_000) }) },
  "pause-worker": { weight: 3, draw: (r, t) => ({ target: r.pick(t.workers), ms: r.int(200, 6_000) }) },
  "kill-all-workers": { weight: 1, draw: (r) => ({ target: "all workers", ms: r.int(0, 3_000) }) },
  "kill-harness": { weight: 1, draw: (r, t) => ({ target: r.pick(t.harnesses), ms: r.int(0, 1_500) }) },
  "pause-harness": { weight: 1, draw: (r, t) => ({ target: r.pick(t.harnesses), ms: r.int(200, 4_000) }) },
  "kill-answerer": { weight: 1, draw: (r, t) => ({ target: r.pick(t.answerers), ms: r.int(0, 1_500) }) },
  "pause-answerer": { weight: 1, draw: (r, t) => ({ target: r.pick(t.answerers), ms: r.int(200, 4_000) }) },
  "restart-postgres-fast": {
    weight: 1,
    possible: ownPostgres,
    draw: (r) => ({ target: "postgres", ms: r.int(0, 2_000) }),
  },
  "restart-postgres-immediate": {
    weight: 1,
    possible: ownPostgres,
    draw: (r) => ({ target: "postgres", ms: r.int(0, 3_000) }),
  },
  "kill-postgres": {
    weight: 1,
    possible: ownPostgres,
    draw: (r) => ({ target: "postgres", ms: r.int(0, 1_000) }),
  },
  "pause-postgres": {
    weight: 1,
    possible: ownPostgres,
    draw: (r) => ({ target: "postgres", ms: r.int(200, 4_000) }),
  },
  "kill-backends": { weight: 2, draw: () => ({ target: "postgres" }) },
  "cut-client": { weight: 3, draw: (r, t) => ({ target: client(r, t), ...cut(r) }) },
  "cut-node": { weight: 2, draw: (r, t) => ({ target: r.pick(t.nodes), ...cut(r) }) },
  "hole-client": { weight: 3, draw: (r, t) => ({ target: client(r, t), ...hole(r, 5_000) }) },
  "hole-node": { weight: 2, draw: (r, t) => ({ target: r.pick(t.nodes), ...hole(r, 5_000) }) },
  "hole-link": {
    weight: 2,
    draw: (r, t) => ({ target: client(r, t), node: r.pick(t.nodes), ...hole(r, 6_000) }),
  },
  "slow-client": { weight: 1, draw: (r, t) => ({ target: client(r, t), ms: r.int(1_000, 5_000) }) },
  "cut-database": { weight: 2, draw: (r, t) => ({ target: r.pick(t.nodes), ...cut(r) }) },
  "hole-database": { weight: 3, draw: (r, t) => ({ target: r.pick(t.nodes), ...hole(r, 5_000) }) },
  "slow-database": { weight: 1, draw: (r, t) => ({ target: r.pick(t.nodes), ms: r.int(1_000, 5_000) }) },
  "isolate-node": { weight: 2, draw: (r, t) => ({ target: r.pick(t.nodes), ...hole(r, 5_000) }) },
  "shift-clock": {
    weight: 2,
    possible: ({ faketime }) => faketime,
    draw: (r, t) => ({
      target: r.pick([...t.nodes, ...t.nodes, ...t.workers, ...t.harnesses]),
      seconds: r.pick([0, 1, -1]) * r.pick([3, 60, 3_600, 86_400]) + r.int(-2, 2),
    }),
  },
};

/** Faults so far apart, in milliseconds; closer in a run that is too short for many. */
const APART_MS = { least: 1_000, most: 3_000 };
const SHORT_RUN_MS = 30_000;
/** Nothing breaks before the programs have begun, nor just before all is healed. */
const QUIET_MS = 500;

/**
 * Which faults of which kinds come when: drawn from the seed alone, whatever happens. All kinds come once (in
 * another order each time) before any comes again.
 *
 * @param {Random} random
 * @param {Topology} topology
 * @param {{ durationMs: number, only: readonly string[] | null }} options
 * @returns {Fault[]}
 */
export function makePlan(random, topology, { durationMs, only }) {
  const kinds = Object.entries(KINDS).filter(
    ([name, { possible }]) => (only?.includes(name) ?? true) && (possible?.(topology) ?? true),
  );
  if (kinds.length === 0) return [];
  const pace = durationMs < SHORT_RUN_MS ? 3 : 1;
  /** @type {Fault[]} */
  const faults = [];
  /** @type {[string, Kind][]} */
  let round = [];
  let rounds = 0;
  for (let atMs = QUIET_MS; atMs < durationMs - QUIET_MS; atMs += Math.round(apart(random) / pace)) {
    // In the first round each comes once, so that also a short run has many kinds.
    if (round.length === 0) {
      const bag = kinds.flatMap((kind) =>
        Array.from({ length: rounds === 0 ? 1 : kind[1].weight }, () => kind),
      );
      round = random.shuffle(bag);
      rounds++;
    }
    const [kind, { draw }] = round.pop() ?? ["", kinds[0]?.[1] ?? never()];
    faults.push({ atMs, kind, ...draw(random, topology) });
  }
  return faults;
}

/** @param {Random} random */
const apart = (random) => random.int(APART_MS.least, APART_MS.most);

/** @returns {never} */
function never() {
  throw new Error("a plan needs at least one kind of fault");
}
