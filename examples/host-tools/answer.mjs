/**
 * Answers the questions that tools have put to people. It needs no key: a token is the right to answer its
 * one call.
 *
 *     node answer.mjs                  lists what is open
 *     node answer.mjs NAME ANSWER      answers
 */
import { Trunkline, TrunklineError } from "@trunkline/sdk";
import { Inbox } from "./inbox.mjs";
import { INBOX_DIR } from "./places.mjs";

const inbox = new Inbox(INBOX_DIR);
const questions = await inbox.list();
const [, , name, ...words] = process.argv;

if (name === undefined) {
  if (questions.length === 0) console.log("nobody is asking");
  for (const { name, to, question, options } of questions) {
    console.log(`${name}  to ${to}: ${question} [${options.join(" | ")}]`);
  }
} else {
  const question = questions.find((candidate) => candidate.name === name);
  const answer = words.join(" ");
  if (question === undefined)
    fail(`no question ${name}; open are: ${list(questions.map((open) => open.name))}`);
  else if (!question.options.includes(answer)) {
    fail(`answer "${answer}"; allowed are: ${list(question.options)}`);
  } else await complete(question, answer);
}

/**
 * @param {import("./inbox.mjs").Question} question
 * @param {string} answer
 */
async function complete({ name, token }, answer) {
  const trunkline = new Trunkline();
  try {
    const { callId } = await trunkline.tasks.complete(token, { answer });
    console.log(`answered ${name} with "${answer}" (call ${callId})`);
  } catch (error) {
    // The call has ended or was given to another attempt: nobody waits for this answer any more.
    if (!(error instanceof TrunklineError) || error.reason === "UNAVAILABLE") throw error;
    fail(`too late: ${error.message}`);
  } finally {
    await trunkline.close();
  }
  await inbox.remove(name);
}

/** @param {string} message */
function fail(message) {
  console.error(message);
  process.exitCode = 1;
}

/** @type {(names: readonly string[]) => string} */
function list(names) {
  return names.length === 0 ? "none" : names.join(", ");
}
