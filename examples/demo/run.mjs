/**
 * The demo: `npm run demo`, and with workers in other languages `npm run demo -- --workers python,go`. Plays the story, checks every promise of it, and clears everything away, also
 * when it fails or is interrupted. Status 0: every promise was kept; 1: one was not; 2: it was called wrongly;
 * 128 and more: interrupted.
 */
import { readBooks } from "./cast.mjs";
import { readOptions, USAGE, UsageError } from "./options.mjs";
import { Promises } from "./promises.mjs";
import { Stage } from "./stage.mjs";
import { STORY } from "./story.mjs";
import { formatTime, Terminal, wantsColours } from "./terminal.mjs";
import { CastingError, Troupe } from "./troupe.mjs";

/** It takes about 10 s; a machine that needs longer than this is stuck. */
const { DEMO_TIMEOUT_MS = "180000" } = process.env;

const SIGNALS = /** @type {const} */ ({ SIGHUP: 129, SIGINT: 130, SIGTERM: 143 });

const troupe = castTroupe();
const startedAt = performance.now();
const terminal = new Terminal(
  (text) => process.stdout.write(text),
  wantsColours(process.stdout, process.env),
);
const promises = new Promises(terminal);
const story = new AbortController();
/** @type {number | undefined} */
let interrupted;

for (const [signal, status] of Object.entries(SIGNALS)) {
  // For good: a second Ctrl-C, or npm's, does not end the clearing half-way.
  process.on(signal, () => {
    interrupted ??= status;
    story.abort(new Error(`interrupted by ${signal}`));
  });
}
// Nobody reads on (`| head`): there is nobody to tell the story to.
process.stdout.on("error", (error) => story.abort(error));
const timer = setTimeout(
  () => story.abort(new Error(`not over after ${DEMO_TIMEOUT_MS} ms`)),
  Number(DEMO_TIMEOUT_MS),
);

const stage = await Stage.build(terminal, troupe, story);
try {
  await play();
} catch (error) {
  giveUp(error);
} finally {
  clearTimeout(timer);
  const left = await stage.clear();
  if (left.length > 0) promises.broken("Nothing is left behind.", `left: ${left.join(", ")}`);
}
if (interrupted === undefined) promises.summarize(formatTime(performance.now() - startedAt));
const status = interrupted ?? (promises.allKept ? 0 : 1);
if (status !== 0) process.exitCode = status;

/** Who plays; where that cannot be, or help was wanted, the demo ends here. */
function castTroupe() {
  try {
    const { help, workers } = readOptions(process.argv.slice(2));
    if (!help) return new Troupe(workers);
    console.log(USAGE);
    return process.exit(0);
  } catch (error) {
    if (error instanceof UsageError) console.error(`${error.message}\n\n${USAGE}`);
    else if (error instanceof CastingError) console.error(error.message);
    else throw error;
    return process.exit(2);
  }
}

async function play() {
  const books = await readBooks();
  terminal.title("Trunkline: a morning at a bicycle shop");
  terminal.say(
    `An agent's script calls tools; workers in other processes run them. Everything here is real: the
    processes, the database, the kills. Each step says what is promised (✔) and what was seen.`,
  );
  for (const [index, step] of STORY.entries()) {
    terminal.heading(index + 1, step.title);
    terminal.say(step.text);
    await step.play({ stage, troupe, terminal, promises, books });
  }
}

/** @param {unknown} error */
function giveUp(error) {
  const reason = story.signal.aborted ? story.signal.reason : error;
  const message = reason instanceof Error ? reason.message : String(reason);
  if (interrupted !== undefined) {
    terminal.title(`${message}: clearing up`);
    return;
  }
  promises.broken("The story is told to its end.", `it ended early: ${message}`);
  if (stage.serverLog.length > 0) terminal.say("The server's last words:");
  for (const line of stage.serverLog) terminal.relay("server", line);
}
