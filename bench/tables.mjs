// Results as tables: one for each scenario, a column for each subject that it measured.
import { rounded } from "./statistics.mjs";

/**
 * @typedef {import("./report.mjs").Figure} Figure
 *
 * @typedef {object} Table
 * @property {string} scenario
 * @property {string[]} subjects
 * @property {{ variant: string, what: string, values: string[] }[]} rows `what`: the metric with its unit.
 */

/**
 * The tables of these results, in the order in which they were measured.
 *
 * @param {readonly Figure[]} results
 * @returns {Table[]}
 */
export function tablesOf(results) {
  return unique(results.map(({ scenario }) => scenario)).map((scenario) => {
    const figures = results.filter((figure) => figure.scenario === scenario);
    const subjects = unique(figures.map(({ subject }) => subject));
    const variants = unique(figures.map(({ variant }) => variant));
    const rows = variants.flatMap((variant) => {
      const some = figures.filter((figure) => figure.variant === variant);
      return unique(some.map(named)).map((what) => ({
        variant,
        what,
        values: subjects.map((subject) => {
          const figure = some.find((each) => each.subject === subject && named(each) === what);
          return figure === undefined ? "" : rounded(figure.value);
        }),
      }));
    });
    return { scenario, subjects, rows };
  });
}

/** A metric with its unit: `calls/s` of calls in calls/s, `WAL, B/call`, `commits/call`. */
function named({ metric, unit }) {
  if (unit.startsWith(`${metric}/`)) return unit;
  return unit.startsWith("/") ? `${metric}${unit}` : `${metric}, ${unit}`;
}

const unique = (values) => [...new Set(values)];

/**
 * A table for a terminal: subjects' names take as many lines as they have parts.
 *
 * @param {Table} table
 */
export function textTable({ scenario, subjects, rows }) {
  const names = subjects.map((subject) => subject.split(/, |(?<=-)/));
  const height = Math.max(...names.map((parts) => parts.length));
  const heads = Array.from({ length: height }, (_, line) => [
    line === height - 1 ? scenario : "",
    "",
    ...names.map((parts) => parts[line - height + parts.length] ?? ""),
  ]);
  const lines = rows.map(({ variant, what, values }, index) => [
    rows[index - 1]?.variant === variant ? "" : variant,
    what,
    ...values,
  ]);
  const all = [...heads, ...lines];
  const widths = widthsOf(all);
  const ruled = [...heads, widths.map((width) => "─".repeat(width)), ...lines];
  return ruled.map((cells) => padded(cells, widths).join("  ").trimEnd()).join("\n");
}

/**
 * A table for Markdown.
 *
 * @param {Pick<Table, "subjects" | "rows">} table
 */
export function markdownTable({ subjects, rows }) {
  const head = ["", "", ...subjects];
  const lines = rows.map(({ variant, what, values }, index) => [
    rows[index - 1]?.variant === variant ? "" : variant,
    what,
    ...values,
  ]);
  const widths = widthsOf([head, ...lines, head.map(() => "---")]);
  const rule = widths.map((width, column) =>
    column < TEXT_COLUMNS ? "-".repeat(width) : `${"-".repeat(width - 1)}:`,
  );
  return [padded(head, widths), rule, ...lines.map((cells) => padded(cells, widths))]
    .map((cells) => `| ${cells.join(" | ")} |`)
    .join("\n");
}

/** The first columns are texts, the others figures. */
const TEXT_COLUMNS = 2;

const widthsOf = (lines) =>
  lines[0].map((_, column) => Math.max(...lines.map((line) => line[column].length)));

function padded(cells, widths) {
  return cells.map((cell, column) =>
    column < TEXT_COLUMNS ? cell.padEnd(widths[column]) : cell.padStart(widths[column]),
  );
}
