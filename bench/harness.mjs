// Opens calls as it is told, and reports what it saw.
import { Trunkline } from "@trunkline/sdk";

const { url } = JSON.parse(process.env.BENCH_CONFIG);
const trunkline = new Trunkline({ url });
const run = await trunkline.runs.create({ namespace: "bench" });

const jobs = {
  /** So many callers, each awaiting its result before the next call. */
  async callers({ callers, seconds }) {
    let calls = 0;
    const until = performance.now() + seconds * 1_000;
    const startedAt = performance.now();
    await Promise.all(
      Array.from({ length: callers }, async () => {
        while (performance.now() < until) {
          await run.call("noop", { n: calls });
          calls++;
        }
      }),
    );
    return { calls, seconds: (performance.now() - startedAt) / 1_000 };
  },
  /** One call at a time, one after the other or with a pause between. */
  async latency({ calls, pauseMs }) {
    const ms = [];
    const openedAt = [];
    for (let index = 0; index < calls; index++) {
      if (pauseMs > 0) await new Promise((resolve) => setTimeout(resolve, pauseMs));
      const startedAt = performance.now();
      openedAt.push(performance.timeOrigin + startedAt);
      await run.call("noop", { index });
      ms.push(performance.now() - startedAt);
    }
    return { ms, openedAt };
  },
  /** Many calls at once; resolves when all are stored, then when all have ended. */
  async burst({ calls }) {
    const startedAt = performance.now();
    const handles = await Promise.all(
      Array.from({ length: calls }, (_, index) => run.open("noop", { index })),
    );
    const openedSeconds = (performance.now() - startedAt) / 1_000;
    open = handles;
    return { openedSeconds };
  },
  async finish() {
    const startedAt = performance.now();
    await Promise.all(open.map((handle) => handle.outcome()));
    return { seconds: (performance.now() - startedAt) / 1_000 };
  },
};
/** @type {import("@trunkline/sdk").CallHandle[]} */
let open = [];

process.on("message", (/** @type {any} */ message) => {
  jobs[message.job](message).then(
    (answer) => process.send(answer),
    (error) => {
      console.error(error);
      process.exit(1);
    },
  );
});
process.on("SIGTERM", () => process.exit(0));
process.send("ready");
