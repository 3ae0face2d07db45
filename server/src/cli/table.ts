import { cutToWidth, displayWidth } from "./display-width.js";
import { printable } from "./printable.js";

/** A column of a table. */
export interface Column {
  readonly title: string;
  /** Never cut, even where the table gets too wide for it: ids, which are there to be copied. */
  readonly whole?: boolean;
}

const GAP = "  ";
/** Below this a column says nothing any more. */
const MIN_WIDTH = 6;

/**
 * Lays out a table, its titles first. Cells are made {@link printable}; columns are as wide as their
 * widest cell, and where all together are wider than `width`, the widest of them are cut.
 *
 * @param width cells of the terminal; undefined: nothing is cut
 * @returns one text per line, without blanks at its end
 */
export function layOut(
  columns: readonly Column[],
  rows: readonly (readonly string[])[],
  width: number | undefined,
): string[] {
  const lines = [columns.map(({ title }) => title), ...rows.map((row) => row.map(printable))];
  const widths = columns.map((_, index) =>
    Math.max(0, ...lines.map((line) => displayWidth(line[index] ?? ""))),
  );
  if (width !== undefined) shrink(columns, widths, width);
  return lines.map((line) =>
    line
      .map((cell, index) => pad(cell, widths[index] ?? 0))
      .join(GAP)
      .trimEnd(),
  );
}

function pad(cell: string, width: number): string {
  const cut = cutToWidth(cell, width);
  return cut + " ".repeat(Math.max(0, width - displayWidth(cut)));
}

/** Takes cells from the widest column that may be cut until all fit, or none can be cut any more. */
function shrink(columns: readonly Column[], widths: number[], width: number): void {
  const gaps = GAP.length * (columns.length - 1);
  let excess = widths.reduce((sum, each) => sum + each, gaps) - width;
  while (excess > 0) {
    const open = columns.map(({ whole }, index) => (whole === true ? 0 : (widths[index] ?? 0)));
    const widest = Math.max(...open);
    if (widest <= MIN_WIDTH) return;
    // All that are equally wide come down together, to the next width below.
    const next = Math.max(MIN_WIDTH, ...open.filter((each) => each < widest));
    const tied = open.filter((each) => each === widest).length;
    const step = Math.min(widest - next, Math.ceil(excess / tied));
    for (const [index, each] of open.entries()) if (each === widest) widths[index] = widest - step;
    excess -= step * tied;
  }
}
