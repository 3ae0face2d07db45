import { CAST } from "../cast.mjs";
import { claimedBy, readLedger } from "../evidence.mjs";
import { formatEuro, formatTime } from "../terminal.mjs";

/** @type {import("../story.mjs").Step} */
export const killInPayment = {
  title: "Kill a worker in the middle of a payment",
  text: `The card terminal knows no keys: a second try might charge twice. So bank.charge is declared
    at_most_once. When its worker dies nobody can know how it went, and the call says just that. It is the
    other worker this time; one in the place of the first starts meanwhile.`,

  async play({ stage, terminal, promises }) {
    const script = stage.program("script");
    script.write(`charge ${CAST.chargeOrder}`);
    await stage.until("the charge in the bank's ledger", async () => {
      return (await readLedger(stage)).some(({ kind }) => kind === "charge") || undefined;
    });
    const doomed = await claimedBy(stage, "bank.charge");
    await stage.fillPlaces();
    const killedAt = performance.now();
    await stage.meanwhile(doomed.kill());
    terminal.act(
      `kill -9 ${doomed.name} (process ${doomed.pid}), with the card charged and nothing reported`,
    );

    const { failure, found } = await stage.jsonResult(script);
    const took = performance.now() - killedAt;
    const call = await stage.client.calls.get(failure.callId);
    const charges = (await readLedger(stage)).filter(({ kind }) => kind === "charge");
    promises.check(
      "An at_most_once call whose worker dies is not repeated: it fails with outcomeUnknown.",
      `failed ${formatTime(took)} after the kill: ${failure.kind}, outcomeUnknown ${failure.outcomeUnknown}, ` +
        `after ${call.attempt} attempt; the script asked the bank, which had charged ` +
        `${formatEuro(charges[0]?.cents ?? 0)} once`,
      {
        "the call has failed": call.state === "failed",
        "its worker was lost": failure.kind === "worker_lost",
        "its outcome is unknown": failure.outcomeUnknown === true && call.error?.outcomeUnknown === true,
        "there was one attempt": call.attempt === 1 && call.spent === 1,
        "the card was charged once": charges.length === 1,
        "the script found the charge": found.length === 1 && found[0].transfer === charges[0]?.transfer,
      },
    );
    await stage.fillPlaces();
  },
};
