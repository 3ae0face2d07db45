import { connectTrunkline } from "@trunkline/sdk/browser";

const user = new URLSearchParams(location.search).get("user") ?? "mara";
const main = element("questions");
const trouble = element("trouble");

/** What the web server said last; asked again a minute before its token expires. */
let session = await askWebServer();
async function renewed() {
  if (Date.parse(session.expiresAt) - Date.now() < 60_000) session = await askWebServer();
  return session;
}

const trunkline = connectTrunkline({
  url: session.url,
  token: async () => (await renewed()).token,
  onWarning: (message) => (trouble.textContent = message),
});

/** The list comes whole, at once and whenever it has changed. */
for await (const calls of trunkline.openCalls()) {
  trouble.textContent = "";
  main.replaceChildren(...(calls.length === 0 ? ["Nothing any more."] : calls.map(question)));
}

/** @returns {Promise<{ url: string, token: string, expiresAt: string }>} */
async function askWebServer() {
  const response = await fetch(`/session?user=${encodeURIComponent(user)}`);
  return response.json();
}

/** @param {import("@trunkline/sdk/browser").Call} call */
function question(call) {
  // As its toolset declares it.
  const input = /** @type {{ question: string, choices: string[] }} */ (call.input);
  const form = document.createElement("fieldset");
  const legend = document.createElement("legend");
  legend.textContent = input.question;
  form.append(
    legend,
    ...input.choices.map((choice) => button(choice, { type: "tool.result", result: { choice } })),
  );
  form.append(button("Rather not say", { type: "tool.error", error: "the user would rather not say" }));
  return form;

  /**
   * @param {string} label
   * @param {import("@trunkline/sdk/browser").Settlement} settlement
   */
  function button(label, settlement) {
    const made = document.createElement("button");
    made.textContent = label;
    made.addEventListener("click", () => {
      form.disabled = true;
      // Whoever is first settles it: another tab, or another person, is told that it has ended.
      trunkline.settle(call, settlement).catch((error) => (trouble.textContent = error.message));
    });
    return made;
  }
}

/** @param {string} id */
function element(id) {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`the page has no #${id}`);
  return found;
}
