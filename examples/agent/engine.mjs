/**
 * Does what a request asks, in a session that survives it: killed at any moment, and started again with the same words,
 * it goes on where it was.
 *
 *     node engine.mjs SESSION REQUEST
 *
 * What happens goes to standard error, the final answer to standard output.
 */
import { randomUUID } from "node:crypto";
import { Trunkline } from "@trunkline/sdk";
import { Agent } from "./agent.mjs";
import { chooseModel } from "./model.mjs";
import { SESSIONS_DIR } from "./places.mjs";
import { Transcript } from "./transcript.mjs";

const [, , session = "", text = ""] = process.argv;
const note = (/** @type {string} */ what) => console.error(what);
if (session === "" || text === "") {
  note("usage: node engine.mjs SESSION REQUEST");
  process.exit(2);
}

const transcript = await Transcript.open(SESSIONS_DIR, session);
const [request] = transcript.records;
if (request === undefined) await transcript.append({ type: "request", id: randomUUID(), text });
else if (request.type !== "request" || request.text !== text) {
  note(`session ${session} has another request: ${JSON.stringify(request)}`);
  process.exit(2);
}
note(`session ${session}: ${transcript.records.length} records`);

const trunkline = new Trunkline();
const model = await chooseModel({ session, engine: transcript.engine });
const agent = new Agent({ trunkline, model, transcript, note });
console.log(await agent.work());
await trunkline.close();
await transcript.close();
