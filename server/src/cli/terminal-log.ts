import { coloursOf, type Sink } from "./output.js";
import { printable } from "./printable.js";

/** pino's numbers: from here on a line is a warning, and an error. */
const WARN = 40;
const ERROR = 50;

/** A line as the log writes it; what is not named here are facts that go with it. */
interface LogLine {
  readonly level: number;
  /** ISO 8601. */
  readonly time: string;
  readonly msg?: string;
  readonly err?: { readonly stack?: string };
}

/** Shows the server's log to a person at a terminal: when, what, and the facts that go with it. */
export class TerminalLog {
  readonly #sink: Sink;

  constructor(sink: Sink) {
    this.#sink = sink;
  }

  /** Takes one line of JSON. */
  write(json: string): void {
    const { level, time, msg = "", err, ...facts } = JSON.parse(json) as LogLine; // our own logger wrote it
    const { dim, yellow, red } = coloursOf(this.#sink);
    const mark = level >= ERROR ? `${red("error:")} ` : level >= WARN ? `${yellow("warning:")} ` : "";
    const clock = new Date(time).toTimeString().slice(0, "00:00:00".length);
    const told = Object.entries(facts).map(([name, value]) => `${name} ${String(value)}`);
    const shown = told.length === 0 ? "" : dim(` (${printable(told.join(", "))})`);
    this.#sink.write(`${dim(clock)} ${mark}${printable(msg)}${shown}\n`);
    for (const frame of err?.stack?.split("\n").slice(1) ?? [])
      this.#sink.write(`${dim(printable(frame))}\n`);
  }
}
