// The figures of a run: printed as they come, as tables at the end, and as JSON.
import { median, rounded } from "./statistics.mjs";
import { tablesOf, textTable } from "./tables.mjs";

/**
 * @typedef {object} Figure
 * @property {string} scenario
 * @property {string} variant
 * @property {string} subject `trunkline`, `floor` or a peer's name.
 * @property {string} metric
 * @property {number} value
 * @property {string} unit
 *
 * @typedef {Pick<Figure, "metric" | "unit" | "value">} Measured
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

  /**
   * The same for samples of several metrics each, of which not every sample has to have all.
   *
   * @param {Pick<Figure, "scenario" | "variant" | "subject">} what
   * @param {readonly (readonly Measured[])[]} samples
   */
  addAll(what, samples) {
    const all = samples.flat();
    const firsts = all.filter(
      (each, index) => all.findIndex(({ metric }) => metric === each.metric) === index,
    );
    for (const { metric, unit } of firsts) {
      const values = all.filter((each) => each.metric === metric).map(({ value }) => value);
      this.add({ ...what, metric, unit }, values);
    }
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

  /** Everything, one table for each scenario. */
  tables() {
    return tablesOf(this.results).map(textTable).join("\n\n");
  }
}
