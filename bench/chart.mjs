// npm run bench:chart -- RESULTS.json [CHART.svg]: throughput and latency of each subject, side by side.
import { readFileSync, writeFileSync } from "node:fs";
import { parseHTML } from "linkedom";
import { barX, plot, ruleX, text } from "@observablehq/plot";
import { refuse } from "./options.mjs";
import { rounded } from "./statistics.mjs";

const [input, output = input?.replace(/\.json$/, "") + ".svg"] = process.argv.slice(2);
if (input === undefined) refuse("usage: npm run bench:chart -- RESULTS.json [CHART.svg]");

const WIDTH = 760;
const BAR_HEIGHT = 22;
const LABEL_WIDTH = 260;
const OURS = "#2563eb";
const THEIRS = "#9ca3af";

const PANELS = [
  { title: "100 callers that await their results, calls/s", variant: "100 callers", metric: "calls" },
  { title: "100 opens in flight, calls/s", variant: "100 in flight, unawaited", metric: "calls" },
  { title: "One call, open to result, p50, ms", variant: "20 ms apart", metric: "open to result, p50" },
  { title: "One call, open to result, p99, ms", variant: "20 ms apart", metric: "open to result, p99" },
];

const { document } = parseHTML("<!doctype html><html><body></body></html>");
const { results, machine, commit } = JSON.parse(readFileSync(input, "utf8"));
const drawn = PANELS.map(({ title, variant, metric }) => ({
  title,
  bars: results.filter((each) => each.variant === variant && each.metric === metric),
})).filter(({ bars }) => bars.length > 0);
if (drawn.length === 0) refuse(`${input} has no throughput and no latency`);
writeFileSync(output, stacked(drawn.map(panel)));
console.log(output);

/** One chart: a bar for each subject, ours first. */
function panel({ title, bars }) {
  const fill = ({ subject }) => (subject === "trunkline" ? OURS : THEIRS);
  const height = BAR_HEIGHT * (bars.length + 2);
  const most = Math.max(...bars.map(({ value }) => value));
  const svg = plot({
    document,
    width: WIDTH,
    height,
    marginLeft: LABEL_WIDTH / 2,
    marginRight: LABEL_WIDTH / 4,
    marginTop: BAR_HEIGHT,
    marginBottom: BAR_HEIGHT / 2,
    x: { axis: null, domain: [0, most] },
    y: { domain: bars.map(({ subject }) => subject), label: null, tickSize: 0 },
    marks: [
      barX(bars, { x: "value", y: "subject", fill }),
      ruleX([0]),
      text(bars, {
        x: "value",
        y: "subject",
        text: ({ value }) => rounded(value),
        textAnchor: "start",
        dx: 4,
      }),
      text([title], { frameAnchor: "top-left", dy: -BAR_HEIGHT + 4, dx: 0, fontWeight: "bold" }),
    ],
  });
  // Its style is for pages, where a picture takes the width that there is.
  svg.querySelector("style").remove();
  return { svg, height };
}

/** The charts one below the other, in one picture. */
function stacked(panels) {
  let y = BAR_HEIGHT / 2;
  const parts = panels.map(({ svg, height }) => {
    svg.setAttribute("y", String(y));
    y += height + BAR_HEIGHT / 2;
    return svg.outerHTML;
  });
  const note = `<text x="8" y="${y + 4}" font-size="11" fill="#6b7280">${machine}, commit ${commit}</text>`;
  const size = `width="${WIDTH}" height="${y + BAR_HEIGHT}"`;
  const font = 'font-family="system-ui, sans-serif" font-size="12"';
  const ground = '<rect width="100%" height="100%" fill="white"/>';
  return `<svg xmlns="http://www.w3.org/2000/svg" ${size} ${font}>${ground}${parts.join("")}${note}</svg>\n`;
}
