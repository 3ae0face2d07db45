import { short } from "./mismatch.js";

const LINE_CHARACTERS = 400;
/** So many lines are kept at least. */
const KEPT_LINES = 100;

/** What happened in a scenario, line by line, with the seconds since its beginning. */
export class Trace {
  readonly #telling: string[] = [];
  readonly #startedAt = performance.now();
  readonly #onLine: (line: string) => void;

  /** @param onLine hears each line as it is written */
  constructor(onLine: (line: string) => void = () => undefined) {
    this.#onLine = onLine;
  }

  /** Milliseconds since the beginning. */
  get nowMs(): number {
    return performance.now() - this.#startedAt;
  }

  /** Adds a line; `repeats` is one that says nothing new, and would hide what came before it. */
  add(text: string, repeats = false): void {
    const line = `${(this.nowMs / 1000).toFixed(3).padStart(7)} ${short(text, LINE_CHARACTERS)}`;
    if (!repeats) this.#telling.push(line);
    if (this.#telling.length > 2 * KEPT_LINES) this.#telling.splice(0, KEPT_LINES);
    this.#onLine(line);
  }

  /** The last lines that say something, at most 100, oldest first. */
  last(count: number): string[] {
    return this.#telling.slice(-count);
  }
}
