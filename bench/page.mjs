// The page of a run: everything that it measured, in Markdown.
import { rounded } from "./statistics.mjs";
import { markdownTable, tablesOf } from "./tables.mjs";

/** What each scenario looks at; one that is not here has its table alone. */
const SCENARIOS = {
  floor:
    "What nobody can beat on this machine: the two statements of a call's life against the same PostgreSQL, without\na server; the same frames over the same two streams, with nothing stored; commits of one row.",
  throughput:
    "Callers that each await their result before the next call; opens in flight whose results nobody awaits; many\ncalls at once. The last two are timed from the first open until every result is stored; Trunkline's until the\nopener has them, too.",
  latency: "One call at a time: from the open until its handler starts, and until its result is there.",
  payloads: "Input and result of this size, beside the database alone.",
  inflight: "Calls that one worker holds all at once.",
  idle: "Workers that wait for calls, each on a connection of its own, beside bare streams that nobody watches over.",
  nodes:
    "Servers on one database, with the workers spread over them; and the callers too, as behind a balancer, or all on\none of them.",
  keys: "500 callers, with nothing asked of them, with an API key, and with an end user's token.",
  wake: "A call opened on one node, whose only worker is on another.",
  waiting: "Deferred calls, and a twentieth as many that no worker serves, beside an empty table.",
  turns:
    "Open turns of one deferred call each, for which nobody holds a connection, beside none; then some that a harness\nwaits for, each by a request of its own, and whose calls are settled.",
  growth:
    "The same load on an empty table, beside old calls, and while an old snapshot keeps every row version.",
  fairness:
    "One end user's few calls on an idle pool, on a busy one, and beside 150,000 queued calls of another.",
};

/** Where subjects are compared: is more better, or less? */
const COMPARED = [
  { scenario: "throughput", metric: "calls", better: "more" },
  { scenario: "latency", metric: "open to result, p50", better: "less" },
  { scenario: "latency", metric: "open to result, p99", better: "less" },
];

/**
 * The page.
 *
 * @param {import("./drawing.mjs").Run} run
 */
export function page(run) {
  const { machine, commit, runs, versions, results } = run;
  const peers = Object.entries(versions).map(([name, version]) => `${name} ${version}`);
  const sections = tablesOf(results).flatMap((table) => [
    `## ${table.scenario}`,
    ...(SCENARIOS[table.scenario] === undefined ? [] : [SCENARIOS[table.scenario]]),
    markdownTable(table),
  ]);
  const parts = [
    "# What it costs",
    `${machine}; commit ${commit}; ${runs === 1 ? "one run" : `medians of ${runs} runs`}; ${peers.join(", ")}.`,
    PICTURE,
    METHOD,
    "Made by `npm run bench -- --json FILE` and `npm run bench:chart -- FILE`.",
    "## Where peers are ahead",
    lead(results),
    ...sections,
  ];
  return `${parts.join("\n\n")}\n`;
}

const PICTURE = `<picture>
  <source media="(prefers-color-scheme: dark)" srcset="chart-dark.svg">
  <img src="chart.svg" alt="Calls per second and latency of Trunkline and of each peer">
</picture>`;

const METHOD = `Every subject does the same work: open a call, run a handler that does nothing in another process, make the result
known to the opener, or stored where nobody awaits it. Harness, worker, server and database are processes of their own on this one machine. PostgreSQL
has fsync on. Each subject has the fastest settings that were found for each load, which its file in \`../peers/\` (or
\`../subjects/\`) names, is warmed up as long as the others, and takes its turns with them.`;

/**
 * Every comparison in which a peer is better than Trunkline, as a list.
 *
 * @param {readonly import("./report.mjs").Figure[]} results
 */
export function lead(results) {
  const ahead = COMPARED.flatMap(({ scenario, metric, better }) => {
    const figures = results.filter((figure) => figure.scenario === scenario && figure.metric === metric);
    return figures
      .filter(({ subject }) => subject === "trunkline")
      .flatMap((ours) =>
        figures.filter((figure) => isAhead(figure, ours, better)).map((figure) => line(figure, ours)),
      );
  });
  return ahead.length === 0 ? "Nowhere in this run." : ahead.join("\n");
}

function isAhead({ subject, variant, value }, ours, better) {
  if (subject === "trunkline" || variant !== ours.variant) return false;
  return better === "more" ? value > ours.value : value < ours.value;
}

function line({ subject, variant, metric, value, unit }, ours) {
  const what = metric === "calls" ? "" : `${metric}, `;
  return `- ${subject}, ${variant}: ${what}${rounded(value)} ${unit} against ${rounded(ours.value)} ${unit}`;
}
