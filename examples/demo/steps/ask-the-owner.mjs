import { CAST } from "../cast.mjs";
import { readInbox } from "../evidence.mjs";
import { formatTime } from "../terminal.mjs";

/** @type {import("../story.mjs").Step} */
export const askTheOwner = {
  title: "Ask a person, and restart the server meanwhile",
  text: `The tool puts the question into an inbox, together with a token, and defers its answer. The call now
    waits in the database and needs no worker. It can wait for days; here it waits for a restart.`,

  async play({ stage, terminal, promises }) {
    const script = stage.program("script");
    script.write(`ask ${CAST.returnOrder}`);
    const question = await stage.until("the question", async () => (await readInbox(stage))[0]);
    const { items } = await stage.client.calls.list({ tool: "ask_user", state: "deferred" });

    const stoppedAt = performance.now();
    terminal.act("stop the server, and PostgreSQL with it");
    const end = await stage.meanwhile(stage.stopServer());
    const allGone = !stage.postgresRuns;
    terminal.act("both are gone; script and workers keep trying; start the server again, on the same data");
    await stage.startServer();
    const away = performance.now() - stoppedAt;

    const { status, said } = await answer(stage, question.name);
    terminal.relay("answer", said);

    const { callId, attempt, answer: got } = await stage.jsonResult(script);
    const back = await bothWorkersAnswer(stage, callId);
    promises.check(
      "A question to a person outlives the server, and is answered by its token from any process.",
      `deferred, server and PostgreSQL away for ${formatTime(away)}, then answered "${got?.answer}" with the ` +
        `token alone; the script, which had waited all the time, got it; attempt ${attempt}; ` +
        `${back.join(" and ")} take calls again`,
      {
        "the call was deferred": items[0]?.id === callId,
        "the server stopped when told": end?.status === 0,
        "PostgreSQL was gone too": allGone,
        "the answering program succeeded": status === 0,
        "the script got the answer": got?.answer === "yes",
        "the person was asked once": attempt === 1,
        "both workers are back": back.length === stage.shopWorkers.length,
      },
    );
  },
};

/**
 * Looks a customer up until each worker of the shop has had a part in that since the question was answered: both
 * have found their way back to the server by themselves.
 *
 * @param {import("../stage.mjs").Stage} stage
 * @param {string} questionId
 */
async function bothWorkersAnswer(stage, questionId) {
  const script = stage.program("script");
  const asked = seqOf(questionId);
  return stage.until("both workers' answers", async () => {
    script.write(`customer ${CAST.customer}`);
    await stage.jsonResult(script);
    const { items } = await stage.client.calls.list({ namespace: "harbour", state: "succeeded" });
    const since = items.filter(({ id }) => seqOf(id) > asked).map(({ worker }) => worker ?? "");
    const back = [...new Set(since)].sort();
    return back.length === stage.shopWorkers.length ? back : undefined;
  });
}

/** @type {(callId: string) => number} */
const seqOf = (callId) => Number(callId.split("/")[1]);

/**
 * @param {import("../stage.mjs").Stage} stage
 * @param {string} name
 */
async function answer(stage, name) {
  const program = stage.startProgram("answer", "host-tools/answer.mjs", [name, "yes"]);
  program.mayEnd();
  const { status } = await stage.meanwhile(program.ended);
  return { status, said: program.takeResult() ?? "nothing" };
}
