// Opens calls of a subject as it is told, and reports what it saw.
import { loadSubject, settingsOf } from "../subjects/subject.mjs";
import { answerJobs, config } from "./answering.mjs";
import { randomText } from "./random-text.mjs";

const { module, url, callers = 1 } = config;
const subject = await loadSubject(module);
const opener = await subject.openerOf(url, settingsOf(subject, config));

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const input = (n, bytes) => (bytes === undefined ? { n } : { n, text: randomText(bytes) });

/** So many loops of `work` at once, for so long, or until there were so many calls. */
async function loops(count, { seconds, most = Infinity }, work) {
  let calls = 0;
  const startedAt = performance.now();
  const until = startedAt + seconds * 1_000;
  const loop = async () => {
    while (calls < most && performance.now() < until) await work(calls++);
  };
  await Promise.all(Array.from({ length: count }, loop));
  return { calls, seconds: (performance.now() - startedAt) / 1_000 };
}

answerJobs({
  jobs: {
    /** Callers that each await their result before the next call; `most`: not more calls than that. */
    callers: ({ seconds, most, bytes }) =>
      loops(callers, { seconds, most }, (n) => opener.call(input(n, bytes))),
    /** As many opens in flight, results not awaited. */
    opens: ({ seconds }) => loops(callers, { seconds }, (n) => opener.open(input(n))),
    /** Many calls at once; resolves when all are stored. */
    batch: async ({ calls }) => {
      const startedAt = performance.now();
      await opener.openMany(Array.from({ length: calls }, (_, n) => input(n)));
      return { seconds: (performance.now() - startedAt) / 1_000 };
    },
    /** Resolves when everything that was opened has ended. */
    drained: async () => {
      await opener.drained();
    },
    /** One call at a time, to its end; when each was opened, and when it was known to be stored. */
    wake: async ({ calls, pauseMs }) => {
      const openedAt = [];
      const storedAt = [];
      for (let n = 0; n < calls; n++) {
        await pause(pauseMs);
        openedAt.push(performance.timeOrigin + performance.now());
        await opener.open(input(n));
        storedAt.push(performance.timeOrigin + performance.now());
        await opener.drained();
      }
      return { openedAt, storedAt };
    },
    /** One call at a time, one after the other or with a pause between; when each was opened, and took how long. */
    latency: async ({ calls, pauseMs }) => {
      const ms = [];
      const openedAt = [];
      for (let n = 0; n < calls; n++) {
        if (pauseMs > 0) await pause(pauseMs);
        const startedAt = performance.now();
        openedAt.push(performance.timeOrigin + startedAt);
        await opener.call(input(n));
        ms.push(performance.now() - startedAt);
      }
      return { ms, openedAt };
    },
  },
  stop: () => opener.close(),
});
