import { attemptsByWorker } from "../evidence.mjs";

/** @type {import("../story.mjs").Step} */
export const closeTheShop = {
  title: "Close the shop",
  text: `The script ends its run. The workers are told to stop, then the server, which takes PostgreSQL along.`,

  async play({ stage, troupe, promises }) {
    const script = stage.program("script");
    script.finish();
    const { status: scriptStatus } = await stage.meanwhile(script.ended);
    const open = await stage.client.calls.list({ state: ["queued", "claimed", "deferred"] });
    const attempts = await attemptsByWorker(stage);
    const languages = new Set([...attempts.keys()].map((name) => stage.languageOf(name)));
    const workers = stage.shopWorkers;
    const ends = await stage.meanwhile(Promise.all(workers.map((worker) => worker.stop())));
    const serverEnd = await stage.meanwhile(stage.stopServer());
    const left = await stage.clear();
    promises.check(
      "Everything stops when told, and nothing is left behind.",
      `script, ${workers.length} workers and server ended with status 0; no call is open, no process runs, ` +
        `the folder is gone; attempts: ${[...attempts].map(([name, count]) => `${name} ${count}`).join(", ")}`,
      {
        "the script succeeded": scriptStatus === 0,
        "each language had its part": troupe.languages.every((language) => languages.has(language)),
        "no call is open": open.items.length === 0,
        "two workers were left": workers.length === 2,
        "they ended in order": ends.every(({ status }) => status === 0),
        "the server ended in order": serverEnd?.status === 0,
        [`nothing is left (${left.join(", ") || "nothing is"})`]: left.length === 0,
      },
    );
  },
};
