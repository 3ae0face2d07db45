/** Reads every call once more when all is over, as a process that has seen nothing of it. */
import { Trunkline } from "@trunkline/sdk";
import { History, readHistories } from "../history.mjs";
import { Random } from "../random.mjs";
import { readConfig } from "./program.mjs";
import { seenCall } from "./seen.mjs";

/** Calls that are read one by one; all are read in lists. */
const ONE_BY_ONE = 3_000;
const AT_ONCE = 20;

const config = readConfig();
/** @type {string[]} */
const ids = [];
/** @type {Set<string>} */
const runs = new Set();
for (const event of readHistories(config.folder)) {
  if (event.type === "opened") ids.push(event.id);
  else if (event.type === "run-created") runs.add(event.run);
}
const history = new History(config.folder, config.name, config.life);
const trunkline = new Trunkline({ url: config.url, retryFor: "2m", onWarning: () => undefined });

/** @param {readonly string[]} work @param {(item: string) => Promise<void>} each */
async function inParallel(work, each) {
  const left = [...work];
  const lane = async () => {
    for (let item = left.pop(); item !== undefined; item = left.pop()) await each(item);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, lane));
}

/** @param {string} what @param {string} subject @param {unknown} error */
const refused = (what, subject, error) => {
  const message = String(error);
  history.write({ type: "refused", what, subject, reason: "READ", message });
};

await inParallel([...runs], async (run) => {
  try {
    for await (const call of await trunkline.calls.list({ run, payloads: true, pageSize: 1_000 })) {
      history.write({ type: "read", ...seenCall(call) });
    }
  } catch (error) {
    refused("list", run, error);
  }
});
const sample = new Random(`${config.seed}/audit`).shuffle([...new Set(ids)]).slice(0, ONE_BY_ONE);
await inParallel(sample, async (id) => {
  try {
    history.write({ type: "read", ...seenCall(await trunkline.calls.get(id)) });
  } catch (error) {
    refused("get", id, error);
  }
});
await trunkline.close();
process.exit(0);
