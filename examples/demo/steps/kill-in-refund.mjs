import { CAST } from "../cast.mjs";
import { claimedBy, readLedger } from "../evidence.mjs";
import { formatEuro, formatTime } from "../terminal.mjs";

/** @type {import("../story.mjs").Step} */
export const killInRefund = {
  title: "Kill a worker in the middle of a refund",
  text: `The bank has booked the refund, but the worker is killed before it can say so. The call is given to
    another worker: attempt 2, under the same idempotency key. The bank knows the key and does not pay again.`,

  async play({ stage, terminal, promises }) {
    const script = stage.program("script");
    script.write(`refund ${CAST.refundOrder}`);
    await stage.until("the refund in the bank's ledger", () => booked(stage, 1));
    const doomed = await claimedBy(stage, "bank.refund");
    const killedAt = performance.now();
    await stage.meanwhile(doomed.kill());
    terminal.act(`kill -9 ${doomed.name} (process ${doomed.pid}), with the refund booked and not reported`);

    const { callId } = await stage.jsonResult(script);
    const took = performance.now() - killedAt;
    const call = await stage.client.calls.get(callId);
    const requests = (await readLedger(stage)).filter(({ kind }) => kind === "refund");
    const paid = requests.filter(({ repeated }) => repeated !== true);
    promises.check(
      "A call whose worker dies is retried, under the same idempotency key.",
      `attempt ${call.attempt} on ${call.worker}, ${formatTime(took)} after the kill; key ${call.id} both times; ` +
        `the bank was asked ${requests.length} times and paid once: ${formatEuro(paid[0]?.cents ?? 0)}`,
      {
        "it succeeded at attempt 2": call.state === "succeeded" && call.attempt === 2,
        "attempt 1 was the killed worker's": call.attempts[0]?.worker === doomed.name,
        "attempt 1 was lost": call.attempts[0]?.error.kind === "worker_lost",
        "another worker took it": call.worker !== doomed.name,
        "both attempts had the call's id as key": requests.every(({ key }) => key === call.id),
        "the bank was asked twice": requests.length === 2,
        "the bank paid once": paid.length === 1,
      },
    );
  },
};

/**
 * @param {import("../stage.mjs").Stage} stage
 * @param {number} times
 */
async function booked(stage, times) {
  const refunds = (await readLedger(stage)).filter(({ kind }) => kind === "refund");
  return refunds.length === times || undefined;
}
