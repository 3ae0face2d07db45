import { RE2JS } from "re2js";
import type { Run } from "./tool-schema-node.js";

/**
 * The engine keeps automaton states per pattern, up to 8 MiB, of which a character of text makes at
 * most one. Dropping them now and then bounds what a hostile pattern can keep, and costs an
 * ordinary one a few states.
 */
const CHARACTERS_BETWEEN_RESETS = 1_000;

/** What starting the engine costs, whatever the text. */
const UNITS_PER_TEST = 50;

/** A `pattern`, run by an engine whose time is linear in the text, whatever the pattern. */
export class SchemaPattern {
  /** Instructions of the compiled pattern: what a character of text may cost. */
  readonly size: number;
  private readonly regex: RE2JS;
  private sinceReset = 0;

  /** @throws Error with the engine's reason, when it cannot run the pattern */
  constructor(source: string) {
    this.regex = RE2JS.compile(RE2JS.translateRegExp(source));
    this.size = this.regex.programSize();
  }

  /** Whether the pattern is found anywhere in the text. */
  test(text: string, run: Run): boolean {
    run.charge(UNITS_PER_TEST + text.length * this.size);
    const found = this.regex.test(text);
    this.sinceReset += text.length;
    if (this.sinceReset > CHARACTERS_BETWEEN_RESETS) {
      this.sinceReset = 0;
      this.regex.reset();
    }
    return found;
  }
}
