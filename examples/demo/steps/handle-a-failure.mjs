import { CAST } from "../cast.mjs";

/** @type {import("../story.mjs").Step} */
export const handleAFailure = {
  title: "Mistype the address",
  text: `A tool may fail for a good reason, and say so, with data for the script (with the SDK it throws a
    HostToolError). That is an answer like any other. It is not retried, and the script decides what to do.`,

  async play({ stage, promises }) {
    const script = stage.program("script");
    script.write(`customer ${CAST.mistyped}`);
    const { customer, corrected } = await stage.jsonResult(script);
    const failed = await stage.client.calls.list({ tool: "crm.find_customer", state: "failed" });
    const [call] = failed.items;
    promises.check(
      "A tool's own failure reaches the script with its data, and is not retried.",
      `"${corrected?.failure.message}" (${corrected?.failure.data.code}), after 1 attempt; ` +
        `the script took the suggestion and found ${customer.name}`,
      {
        "the script got the tool's message and data": corrected?.failure.data.didYouMean === CAST.customer,
        "the script went on": customer.email === CAST.customer,
        "one call has failed": failed.items.length === 1,
        "its failure is the tool's": call?.error?.kind === "tool",
        "it was tried once": call?.attempt === 1,
        "its outcome is known": call?.error?.outcomeUnknown === false,
      },
    );
  },
};
