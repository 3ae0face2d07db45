import pc from "picocolors";
import { writeJson, type Json } from "./json-document.js";
import { printable, printableJson } from "./printable.js";
import { layOut, type Column } from "./table.js";

/** Where a command writes: standard output or standard error. What is no terminal has no `isTTY` at all. */
export type Sink = Pick<NodeJS.WriteStream, "write" | "columns"> & { readonly isTTY?: boolean };

/** Fields of a thing that is shown alone: name and value; undefined values are left out. */
export type Fields = readonly (readonly [name: string, value: string | undefined])[];

/**
 * What commands say. Answers go to standard output; with `--json` each is a document on a line of its
 * own, otherwise text for people. Everything else goes to standard error.
 */
export class Output {
  readonly json: boolean;
  readonly #out: Sink;
  readonly #err: Sink;

  constructor(json: boolean, out: Sink = process.stdout, err: Sink = process.stderr) {
    this.json = json;
    this.#out = out;
    this.#err = err;
  }

  /** A line of text, made safe for a terminal. */
  line(text: string): void {
    this.#out.write(`${printable(text)}\n`);
  }

  /** A line about something that was tried, which begins with how it went. */
  verdict(passed: boolean, text: string): void {
    const { green, red } = coloursOf(this.#out);
    this.#out.write(`${passed ? green("passed") : red("FAILED")} ${printable(text)}\n`);
  }

  /** JSON text as it is; on a terminal, what it could act on is escaped. */
  jsonText(text: string): void {
    this.#out.write(`${this.#out.isTTY ? printableJson(text) : text}\n`);
  }

  /** A document for machines. */
  document(value: Json): void {
    this.jsonText(writeJson(value));
  }

  /** The same answer for machines or for people, whichever was asked for. */
  answer(value: Json, text: string): void {
    if (this.json) this.document(value);
    else this.line(text);
  }

  /** Things for people, one a row, fitted to the terminal; nothing at all when there are none. */
  table(columns: readonly Column[], rows: readonly (readonly string[])[]): void {
    if (rows.length === 0) return;
    const { isTTY, columns: width } = this.#out;
    const [titles = "", ...lines] = layOut(columns, rows, isTTY ? width : undefined);
    const { bold } = coloursOf(this.#out);
    this.#out.write([bold(titles), ...lines, ""].join("\n"));
  }

  /** One thing for people, a field a line. */
  fields(fields: Fields): void {
    const width = Math.max(0, ...fields.map(([name]) => name.length));
    const { bold } = coloursOf(this.#out);
    for (const [name, value] of fields) {
      if (value === undefined) continue;
      this.#out.write(`${bold(name.padEnd(width))}  ${printable(value)}\n`);
    }
  }

  /** A remark to whoever watches; not part of the answer. */
  note(text: string): void {
    this.#err.write(`${printable(text)}\n`);
  }

  /** What went wrong, on one line. */
  error(text: string): void {
    const { red } = coloursOf(this.#err);
    this.#err.write(`${red("error:")} ${printable(text)}\n`);
  }

  /** What went wrong, for machines: on standard error too, so that answers stay alone. */
  errorDocument(error: Json): void {
    const line = writeJson({ error });
    this.#err.write(`${this.#err.isTTY ? printableJson(line) : line}\n`);
  }
}

/** The colours of a sink: those of a terminal that can, unless NO_COLOR is set; else none. */
export function coloursOf(sink: Sink): ReturnType<typeof pc.createColors> {
  const able = sink.isTTY === true && process.env["TERM"] !== "dumb";
  return pc.createColors(able && (process.env["NO_COLOR"] ?? "") === "");
}
