// A worker of a subject whose handler does nothing, or holds its calls until it is told to let go.
import { loadSubject, settingsOf } from "../subjects/subject.mjs";
import { answerJobs, config } from "./answering.mjs";

const { module, url, hold = false } = config;
/** @type {number[]} */
let startTimes = [];
let handled = 0;
let onHandled = () => undefined;
let letGo = () => undefined;
const released = new Promise((resolve) => {
  letGo = () => resolve(null);
});

const subject = await loadSubject(module);
const worker = await subject.workerOf(url, {
  settings: settingsOf(subject, config),
  handler: (input) => {
    startTimes.push(performance.timeOrigin + performance.now());
    handled++;
    onHandled();
    return hold ? released : input;
  },
});

answerJobs({
  jobs: {
    /** When each handler started since this was asked last. */
    starts: () => {
      const times = startTimes;
      startTimes = [];
      return { times };
    },
    /** How many handlers have started. */
    count: () => ({ handled }),
    /** Resolves when so many handlers have started. */
    reach: ({ calls }) =>
      new Promise((resolve) => {
        onHandled = () => {
          if (handled >= calls) resolve({});
        };
        onHandled();
      }),
    letGo: () => letGo(),
  },
  stop: () => worker.stop(),
});
