/** Widest line that the demo writes by itself. */
const WIDTH = 100;
const NAME_WIDTH = 8;
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

/**
 * Whether to write in colours: only on a terminal that has them and whose user did not refuse (no-color.org).
 *
 * @param {{ isTTY?: boolean }} stream
 * @param {NodeJS.ProcessEnv} environment
 * @returns {boolean}
 */
export function wantsColours({ isTTY = false }, { NO_COLOR = "", TERM }) {
  return isTTY && NO_COLOR === "" && TERM !== "dumb";
}

/** Tells the story: headings, sentences, what programs say, and what came of promises. */
export class Terminal {
  #write;
  #colours;
  #startedAt = performance.now();

  /**
   * @param {(text: string) => void} write
   * @param {boolean} colours
   */
  constructor(write, colours) {
    this.#write = write;
    this.#colours = colours;
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
    this.#write(
      `${wrap(text, WIDTH - 3)
        .map((line) => `   ${line}\n`)
        .join("")}`,
    );
  }

  /**
   * What a program said, with the seconds since the beginning.
   *
   * @param {string} name
   * @param {string} text
   */
  relay(name, text) {
    const head = `${this.#clock()}  ${name.padEnd(NAME_WIDTH)} │ `;
    const [first = "", ...others] = wrap(shorten(text), WIDTH - head.length);
    this.#write(`${this.#paint("2", `${head}${first}`)}\n`);
    for (const line of others) this.#write(`${this.#paint("2", `${"│ ".padStart(head.length)}${line}`)}\n`);
  }

  /**
   * Something that the demo does.
   *
   * @param {string} text
   */
  act(text) {
    this.#write(`${this.#paint("2", this.#clock())}  ${this.#paint("33", `▸ ${shorten(text)}`)}\n`);
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

  #clock() {
    return ((performance.now() - this.#startedAt) / 1000).toFixed(1).padStart(8);
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
