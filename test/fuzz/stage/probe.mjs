import { once } from "node:events";
import { request } from "node:http";
import { Trunkline } from "@trunkline/sdk";

const CALLS = 5;
const GIVE_UP_MS = 20_000;

/** What asks for no credential, and has bounds of its own for that. */
const ANYBODYS = ["/grpc.health.v1.Health/Check", "/trunkline.v1.TaskService/GetTask"];

/**
 * Opens calls one after the other, has a worker answer them, and returns how long each took, in milliseconds. What
 * anybody may ask is asked as well.
 *
 * @param {string} url
 * @param {string} key
 */
export async function probe(url, key) {
  for (const path of ANYBODYS) await askWithoutKey(url, path);
  const client = new Trunkline({ url, key, onWarning: () => undefined });
  try {
    return await timed(client);
  } finally {
    await client.close();
  }
}

/**
 * @param {string} url
 * @param {string} path
 */
async function askWithoutKey(url, path) {
  const headers = { "content-type": "application/json" };
  // On a connection of its own, of which nothing is left.
  const asked = request(`${url}${path}`, { method: "POST", headers, agent: false }).end("{}");
  const [answer] = await once(asked, "response");
  const { statusCode: status } = answer.resume();
  // There is no such task.
  if (status !== 200 && status !== 404 && status !== 400)
    throw new Error(`${path} answers ${status} without a key`);
}

/** @param {Trunkline} client */
async function timed(client) {
  const worker = client.worker({
    tools: { probe: async (/** @type {any} */ input) => ({ doubled: input.number * 2 }) },
    concurrency: 2,
  });
  worker.done.catch(() => undefined);
  const run = await client.runs.create({ namespace: "probe" });
  const took = [];
  for (let number = 0; number <= CALLS; number++) {
    const began = performance.now();
    const result = await within(run.call("probe", { number }));
    if (/** @type {any} */ (result).doubled !== number * 2)
      throw new Error(`the probe's result is ${JSON.stringify(result)}`);
    // The first waits for the worker's stream.
    if (number > 0) took.push(performance.now() - began);
  }
  await run.end();
  return took.sort((a, b) => a - b);
}

/**
 * @template T
 * @param {PromiseLike<T>} work
 * @returns {Promise<T>}
 */
async function within(work) {
  /** @type {NodeJS.Timeout | undefined} */
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(
      () => reject(new Error(`a normal call has no result after ${GIVE_UP_MS} ms`)),
      GIVE_UP_MS,
    );
  });
  try {
    return /** @type {T} */ (await Promise.race([work, late]));
  } finally {
    clearTimeout(timer);
  }
}
