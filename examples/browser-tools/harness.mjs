/**
 * Asks a user something, and waits until a page of theirs answers, as long as that takes.
 *
 *     node harness.mjs mara "Which room?" Red Blue
 */
import { ToolError, Trunkline } from "@trunkline/sdk";
import { tools, TOOLSET } from "./toolset.mjs";

const [, , user = "mara", question = "Which room?", ...given] = process.argv;
const choices = given.length > 0 ? given : ["The red one", "The blue one"];

const trunkline = new Trunkline();
await trunkline.toolsets.put(TOOLSET, tools);
const run = await trunkline.runs.create({ namespace: user, toolset: TOOLSET, ttl: "7d" });
try {
  console.error(`asked ${user}: ${question}`);
  const answer = await run.call("ask.user", { question, choices });
  console.log(JSON.stringify({ user, question, answer }));
} catch (error) {
  if (!(error instanceof ToolError)) throw error;
  console.log(JSON.stringify({ user, question, refused: error.message }));
} finally {
  await run.end();
  await trunkline.close();
}
