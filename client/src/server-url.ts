import { refuseArgument } from "./argument.js";

/** Where a client finds its server when nothing is given. */
export const DEFAULT_URL = "http://127.0.0.1:7788";

/**
 * A server's address, without the slash at its end.
 *
 * @param credential the option that shows who one is
 * @throws TrunklineError INVALID_FIELD for what is no address, and one that holds a credential
 */
export function checkUrl(given: string, credential: "key" | "token"): string {
  const allowed = `allowed is http://HOST:PORT or https://HOST:PORT, such as ${DEFAULT_URL}`;
  if (!URL.canParse(given)) throw refuseArgument("url", `${JSON.stringify(given)} is not a URL`, allowed);
  const url = new URL(given);
  if (url.username !== "" || url.password !== "") {
    throw refuseArgument("url", "it has a user or a password in it", `give \`${credential}\` instead`);
  }
  if (url.protocol !== "http:" && url.protocol !== "https:") {
    throw refuseArgument("url", `it begins with ${url.protocol}`, allowed);
  }
  return url.origin + url.pathname.replace(/\/+$/, "");
}
