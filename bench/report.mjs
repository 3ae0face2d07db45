// The figures of a run: printed as they come, as a table at the end, and as JSON.
import { median, rounded } from "./statistics.mjs";

/**
 * @typedef {object} Figure
 * @property {string} scenario
 * @property {string} variant
 * @property {string} subject `trunkline`, `floor` or a peer's name.
 * @property {string} metric
 * @property {number} value
 * @property {string} unit
 */

/** Gathers the figures of a run. */
export class Report {
  /** @type {Figure[]} */
  results = [];

  /**
   * Keeps and prints the median of a figure's samples.
   *
   * @param {Omit<Figure, "value">} what
   * @param {readonly number[]} samples
   */
  add({ scenario, variant, subject, metric, unit }, samples) {
    const value = median(samples);
    this.results.push({ scenario, variant, subject, metric, value, unit });
    const [least, most] = [Math.min(...samples), Math.max(...samples)];
    const spread = samples.length > 1 ? `  (${rounded(least)} to ${rounded(most)})` : "";
    console.log(
      `${scenario}, ${variant}, ${subject}: ${metric} ${rounded(value)} ${unit}${spread}`.replace(" ,", ""),
    );
  }

  /** Says why something was not measured. */
  skip(what, why) {
    console.log(`${what}: skipped, ${why}`);
  }

  /**
   * A figure that was measured, or undefined.
   *
   * @param {Partial<Figure>} what
   */
  find(what) {
    const wanted = Object.entries(what);
    return this.results.find((figure) => wanted.every(([name, value]) => figure[name] === value))?.value;
  }

  /** Everything, one line for each scenario, variant and metric, one column for each subject. */
  table() {
    const subjects = [...new Set(this.results.map(({ subject }) => subject))];
    const rows = new Map();
    for (const { scenario, variant, subject, metric, value, unit } of this.results) {
      const name = [scenario, variant, `${metric}, ${unit}`];
      const row = rows.get(name.join("\n")) ?? { name, values: new Map() };
      row.values.set(subject, rounded(value));
      rows.set(name.join("\n"), row);
    }
    const lines = [...rows.values()].map(({ name, values }) => [
      ...name,
      ...subjects.map((subject) => values.get(subject) ?? ""),
    ]);
    return aligned([["scenario", "variant", "metric", ...subjects], ...lines]);
  }
}

const TEXT_COLUMNS = 3;

function aligned(lines) {
  const widths = lines[0].map((_, column) => Math.max(...lines.map((line) => line[column].length)));
  const pad = (cell, column) =>
    column < TEXT_COLUMNS ? cell.padEnd(widths[column]) : cell.padStart(widths[column]);
  return lines.map((line) => line.map(pad).join("  ").trimEnd()).join("\n");
}
