/** Where a text stops being JSON. */
export interface JsonFault {
  /** Offset in UTF-16 units from the start of the text; its length when the text ends too soon. */
  readonly at: number;
  /** What is wrong there, to follow "at offset N: ". */
  readonly why: string;
}

const LITERALS = ["true", "false", "null"] as const;
const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
const NUMBER_START = /[-0-9]/;
const ESCAPE = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y;
const SPACE = /[ \t\n\r]*/y;

/** Reads a text by the grammar of RFC 8259 and stops at the first fault. */
class FaultFinder {
  private at = 0;
  private readonly text: string;

  constructor(text: string) {
    this.text = text;
  }

  find(): JsonFault | undefined {
    this.skipSpace();
    const fault = this.value();
    if (fault !== undefined) return fault;
    this.skipSpace();
    return this.at < this.text.length ? this.here("something follows the value") : undefined;
  }

  private here(why: string): JsonFault {
    const ended = this.at >= this.text.length;
    return { at: Math.min(this.at, this.text.length), why: ended ? `the text ends, ${why}` : why };
  }

  private take(expected: RegExp): boolean {
    expected.lastIndex = this.at;
    if (!expected.test(this.text)) return false;
    this.at = expected.lastIndex;
    return true;
  }

  private skipSpace(): void {
    this.take(SPACE);
  }

  private takeCharacter(character: string): boolean {
    if (this.text[this.at] !== character) return false;
    this.at++;
    return true;
  }

  private value(): JsonFault | undefined {
    const first = this.text[this.at];
    if (first === "{") return this.list("}", "a name in quotes or }", () => this.member());
    if (first === "[") return this.list("]", "a value or ]", () => this.value());
    if (first === '"') return this.string();
    if (first !== undefined && NUMBER_START.test(first)) {
      return this.take(NUMBER) ? undefined : this.here("a number is malformed");
    }
    const literal = LITERALS.find((word) => this.text.startsWith(word, this.at));
    if (literal === undefined) return this.here("a value is expected");
    this.at += literal.length;
    return undefined;
  }

  /** What stands between brackets: `item`s with commas between them. */
  private list(
    close: string,
    firstExpected: string,
    item: () => JsonFault | undefined,
  ): JsonFault | undefined {
    this.at++;
    this.skipSpace();
    if (this.takeCharacter(close)) return undefined;
    if (this.at >= this.text.length) return this.here(`${firstExpected} is expected`);
    for (;;) {
      const fault = item();
      if (fault !== undefined) return fault;
      this.skipSpace();
      if (this.takeCharacter(close)) return undefined;
      if (!this.takeCharacter(",")) return this.here(`a comma or ${close} is expected`);
      this.skipSpace();
    }
  }

  private member(): JsonFault | undefined {
    if (this.text[this.at] !== '"') return this.here("a name in quotes is expected");
    const fault = this.string();
    if (fault !== undefined) return fault;
    this.skipSpace();
    if (!this.takeCharacter(":")) return this.here("a colon is expected");
    this.skipSpace();
    return this.value();
  }

  private string(): JsonFault | undefined {
    this.at++;
    for (; this.at < this.text.length; this.at++) {
      const unit = this.text.charCodeAt(this.at);
      if (unit === 0x22) {
        this.at++;
        return undefined;
      }
      if (unit < 0x20) return this.here("a control character in a string is not escaped");
      if (unit === 0x5c) {
        if (!this.take(ESCAPE)) return this.here("a string has an unknown or cut escape");
        this.at--;
      }
    }
    return this.here("a string is not closed");
  }
}

/**
 * Finds why a text is not one JSON value; `undefined` when it is. Slower than `JSON.parse` and
 * recursive, so only for a text that was refused and whose depth was checked before. Depth of the
 * recursion is the depth of the text.
 */
export function findJsonFault(text: string): JsonFault | undefined {
  return new FaultFinder(text).find();
}

/** Finds the first half of a surrogate pair that stands alone; `undefined` when there is none. */
export function findLoneSurrogate(text: string): JsonFault | undefined {
  const repaired = text.toWellFormed();
  for (let at = 0; at < text.length; at++) {
    if (text.charCodeAt(at) !== repaired.charCodeAt(at)) {
      return { at, why: "half of a surrogate pair stands alone, which UTF-8 cannot carry" };
    }
  }
  return undefined;
}
