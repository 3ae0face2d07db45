/** @typedef {import("./history-index.mjs").Index} Index */
/** @typedef {import("../events.mjs").Event} Event */
/** @typedef {import("../checker.mjs").Report} Report */

/**
 * No worker runs more handlers at once than it offered to.
 *
 * @param {Index} index
 * @param {Report} report
 */
export function checkCredit({ events }, report) {
  /** @type {Map<string, { most: number, running: Map<string, Event>, reported: boolean }>} */
  const workers = new Map();
  for (const event of events) {
    if (event.type === "life" && event.concurrency !== undefined) {
      workers.set(event.p, { most: event.concurrency, running: new Map(), reported: false });
    }
    const worker = workers.get(event.p);
    if (worker === undefined) continue;
    if (event.type === "end") worker.running.delete(`${event.id} ${event.attempt}`);
    if (event.type !== "start") continue;
    worker.running.set(`${event.id} ${event.attempt}`, event);
    const { size } = worker.running;
    if (size <= worker.most || worker.reported) continue;
    worker.reported = true;
    const message = `${event.p} ran ${size} handlers at once; it offered ${worker.most} slots`;
    report("within credit", message, [...worker.running.values()]);
  }
}
