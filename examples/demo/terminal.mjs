/** Widest line that the demo writes by itself. */
const WIDTH = 96;
const NAME_WIDTH = 9;
const UUID = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{8}([0-9a-f]{4})/g;

/**
 * Ids that a reader can compare at a glance: the last four digits of each UUID.
 *
 * @param {string} text
 */
export const shorten = (text) => text.replaceAll(UUID, "…$1");

/**
 * A length of time for people.
 *
 * @param {number} ms
 */
export const formatTime = (ms) => (ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`);

/**
 * An amount for people.
 *
 * @param {number} cents
 */
export const formatEuro = (cents) => `${(cents / 100).toFixed(2)} EUR`;

/** Tells the story: headings, sentences, what programs say, and what came of promises. */
export class Terminal {
  #write;
  #colours;

  /**
   * @param {(text: string) => void} write
   * @param {boolean} colours
   */
  constructor(write, colours) {
    this.#write = write;
    this.#colours = colours;
  }

  /**
   * The process's standard output, in colours if it is a terminal whose user did not refuse them.
   *
   * @returns {Terminal}
   */
  static standard() {
    const { NO_COLOR = "", TERM } = process.env;
    const colours = process.stdout.isTTY && NO_COLOR === "" && TERM !== "dumb";
    return new Terminal((text) => process.stdout.write(text), colours);
  }

  /** @param {string} text */
  title(text) {
    this.#write(`\n${this.#paint("1", text)}\n`);
  }

  /**
   * @param {number} number
   * @param {string} title
   */
  heading(number, title) {
    this.#write(`\n${this.#paint("1;36", `${number}. ${title}`)}\n`);
  }

  /**
   * Sentences, broken into lines.
   *
   * @param {string} text
   */
  say(text) {
    this.#write(`${wrap(text, WIDTH - 3).map((line) => `   ${line}\n`).join("")}`);
  }

  /**
   * What a program said.
   *
   * @param {string} name
   * @param {string} text
   */
  relay(name, text) {
    this.#write(`   ${this.#paint("2", `${name.padEnd(NAME_WIDTH)} │ ${shorten(text)}`)}\n`);
  }

  /**
   * Something that the demo does to a program.
   *
   * @param {string} text
   */
  act(text) {
    this.#write(`   ${this.#paint("33", `▸ ${shorten(text)}`)}\n`);
  }

  /**
   * What came of a promise.
   *
   * @param {boolean} kept
   * @param {string} promise
   * @param {string} seen
   */
  verdict(kept, promise, seen) {
    const mark = kept ? this.#paint("32", "✔") : this.#paint("1;31", "✘");
    this.#write(` ${mark} ${promise}\n`);
    for (const line of wrap(shorten(seen), WIDTH - 5)) this.#write(`     ${line}\n`);
  }

  /**
   * @param {string} codes Of ECMA-48's "select graphic rendition".
   * @param {string} text
   */
  #paint(codes, text) {
    return this.#colours ? `\u001b[${codes}m${text}\u001b[0m` : text;
  }
}

/**
 * @param {string} text
 * @param {number} width
 * @returns {string[]}
 */
function wrap(text, width) {
  /** @type {string[]} */
  const lines = [];
  let line = "";
  for (const word of text.split(/\s+/)) {
    if (line !== "" && line.length + 1 + word.length > width) {
      lines.push(line);
      line = "";
    }
    line = line === "" ? word : `${line} ${word}`;
  }
  return [...lines, line];
}
