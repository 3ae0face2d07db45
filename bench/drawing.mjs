// The chart of a run: throughput and latency of each subject, side by side.
import { barX, plot, ruleX, text } from "@observablehq/plot";
import { parseHTML } from "linkedom";
import { rounded } from "./statistics.mjs";

/**
 * @typedef {import("./report.mjs").Figure} Figure
 *
 * @typedef {object} Run What a JSON file of results has.
 * @property {string} machine
 * @property {string} commit
 * @property {number} runs
 * @property {Record<string, string>} versions
 * @property {Figure[]} results
 *
 * @typedef {{ ground: string, text: string, muted: string, ours: string, theirs: string }} Theme
 *
 * @typedef {{ subject: string, value: number, far: number | undefined }} Bar `far`: where its pale end is.
 */

/** @type {Readonly<Record<"light" | "dark", Theme>>} */
export const THEMES = {
  light: { ground: "#ffffff", text: "#1f2328", muted: "#59636e", ours: "#2563eb", theirs: "#9aa4b1" },
  dark: { ground: "#0d1117", text: "#e6edf3", muted: "#9198a1", ours: "#58a6ff", theirs: "#6e7681" },
};

const HEADING = "Trunkline and what one would pick instead, side by side";
const HEADING_HEIGHT = 40;
const WIDTH = 840;
const PADDING = 20;
const COLUMNS = 2;
const PANEL_WIDTH = (WIDTH - (COLUMNS + 1) * PADDING) / COLUMNS;
const LABEL_WIDTH = 150;
const VALUE_WIDTH = 66;
const BAR_HEIGHT = 23;
const TITLE_HEIGHT = 38;
const CAPTION_HEIGHT = 40;

const MORE = "calls/s, more is better";
const calls = (variant) => ({ variant, metric: "calls" });
const PANELS = [
  { title: "100 callers that each await their result", unit: MORE, near: calls("100 callers") },
  { title: "100 opens in flight, not awaited", unit: MORE, near: calls("100 in flight, unawaited") },
  { title: "A batch of 20,000 calls", unit: MORE, near: calls("batch of 20,000") },
  {
    title: "One call every 20 ms, open to result",
    unit: "ms, p50 and p99, less is better",
    near: { variant: "20 ms apart", metric: "open to result, p50" },
    far: { variant: "20 ms apart", metric: "open to result, p99" },
  },
];

/**
 * The chart as SVG, or undefined where the run has nothing of what it shows.
 *
 * @param {Run} run
 * @param {Theme} theme
 */
export function drawing(run, theme) {
  const panels = PANELS.map((panel) => ({ ...panel, bars: barsOf(run.results, panel) })).filter(
    ({ bars }) => bars.length > 0,
  );
  if (panels.length === 0) return undefined;
  const height = TITLE_HEIGHT + BAR_HEIGHT * Math.max(...panels.map(({ bars }) => bars.length));
  const placed = panels.map((panel, index) => {
    const x = PADDING + (index % COLUMNS) * (PANEL_WIDTH + PADDING);
    const y = HEADING_HEIGHT + PADDING + Math.floor(index / COLUMNS) * (height + PADDING);
    return panelDrawing(panel, theme, { x, y, height });
  });
  const total =
    HEADING_HEIGHT + PADDING + Math.ceil(panels.length / COLUMNS) * (height + PADDING) + CAPTION_HEIGHT;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${total}" viewBox="0 0 ${WIDTH} ${total}"`,
    ` font-family="system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif" color="${theme.text}">`,
    `<rect width="100%" height="100%" fill="${theme.ground}"/>`,
    `<text x="${PADDING}" y="${HEADING_HEIGHT}" font-size="17" font-weight="bold" fill="${theme.text}">${HEADING}</text>`,
    ...placed,
    ...captionOf(run).map((line, index) => {
      const y = total - CAPTION_HEIGHT + 8 + index * 15;
      return `<text x="${PADDING}" y="${y}" font-size="11" fill="${theme.muted}">${escaped(line)}</text>`;
    }),
    "</svg>\n",
  ].join("");
}

/**
 * What a panel shows, in the order of the results.
 *
 * @param {readonly Figure[]} results
 * @param {{ near: { variant: string, metric: string }, far?: { variant: string, metric: string } }} panel
 * @returns {Bar[]}
 */
export function barsOf(results, { near, far }) {
  const fits = (figure, what) =>
    what !== undefined && figure.variant === what.variant && figure.metric === what.metric;
  return results
    .filter((figure) => fits(figure, near))
    .map(({ subject, value }) => ({
      subject,
      value,
      far: results.find((figure) => figure.subject === subject && fits(figure, far))?.value,
    }));
}

function panelDrawing({ title, unit, bars }, theme, { x, y, height }) {
  const { document } = parseHTML("<!doctype html><html><body></body></html>");
  const fill = ({ subject }) => (subject === "trunkline" ? theme.ours : theme.theirs);
  const end = ({ value, far = value }) => far;
  const label = ({ value, far }) =>
    [value, far]
      .filter((each) => each !== undefined)
      .map(rounded)
      .join(" · ");
  const bar = { y: "subject", fill, insetTop: 1, insetBottom: 1 };
  const note = { frameAnchor: /** @type {const} */ ("top-left"), dx: -LABEL_WIDTH };
  const svg = plot({
    document,
    width: PANEL_WIDTH,
    height: TITLE_HEIGHT + BAR_HEIGHT * bars.length,
    marginLeft: LABEL_WIDTH,
    marginRight: VALUE_WIDTH,
    marginTop: TITLE_HEIGHT,
    marginBottom: 0,
    style: { fontSize: "12px", background: "none" },
    x: { axis: null, domain: [0, Math.max(...bars.map(end))] },
    y: { domain: bars.map(({ subject }) => subject), label: null, tickSize: 0 },
    marks: [
      barX(bars, { ...bar, x: end, fillOpacity: 0.4 }),
      barX(bars, { ...bar, x: "value" }),
      ruleX([0], { stroke: theme.muted }),
      text(bars, { x: end, y: "subject", text: label, textAnchor: "start", dx: 5 }),
      text([title], { ...note, dy: -TITLE_HEIGHT + 2, fontSize: 13, fontWeight: "bold" }),
      text([unit], { ...note, dy: -TITLE_HEIGHT + 18, fontSize: 11, fill: theme.muted }),
    ],
  });
  // Its style is for pages, where a picture takes the width that there is.
  svg.querySelector("style").remove();
  for (const [name, value] of Object.entries({ x, y, height, overflow: "visible" })) {
    svg.setAttribute(name, String(value));
  }
  svg.setAttribute("viewBox", `0 0 ${PANEL_WIDTH} ${height}`);
  return svg.outerHTML;
}

function captionOf({ machine, commit, runs }) {
  return [
    `${machine}; commit ${commit}; ${runs === 1 ? "one run" : `medians of ${runs} runs`}.`,
    "Everything on this one machine, each part in a process of its own. PostgreSQL with fsync on; BullMQ on Redis.",
  ];
}

const escaped = (line) => line.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
