/**
 * Serves the page, and gives it the token of its user. Your own web server does both.
 *
 *     node serve.mjs
 */
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { Trunkline } from "@trunkline/sdk";

const { PORT = "5173" } = process.env;
const TYPES = { html: "text/html", mjs: "text/javascript", js: "text/javascript" };

const here = new URL("./", import.meta.url);
/** The SDK's files are modules that a browser loads as they are; a bundler makes one file of them. */
const sdk = new URL("../", import.meta.resolve("@trunkline/sdk/browser"));

const trunkline = new Trunkline();

/** @param {URL} url */
async function answer({ pathname, searchParams }) {
  if (pathname === "/session") {
    // Who the user is your login knows, and nothing that the page says.
    const namespace = searchParams.get("user") ?? "mara";
    const made = await trunkline.tokens.create({ namespace, scopes: ["harness"], ttl: "10m" });
    return { type: "application/json", body: JSON.stringify({ url: trunkline.url, ...made }) };
  }
  const file = pathname === "/" ? "index.html" : pathname.slice(1);
  const url = file.startsWith("sdk/") ? new URL(file.slice("sdk/".length), sdk) : new URL(file, here);
  const type = Object.entries(TYPES).find(([ending]) => file.endsWith(`.${ending}`))?.[1];
  const isInside = url.href.startsWith(sdk.href) || url.href.startsWith(here.href);
  if (type === undefined || !isInside) return undefined;
  return { type: `${type};charset=utf-8`, body: await readFile(url).catch(() => undefined) };
}

const server = createServer((request, response) => {
  answer(new URL(request.url ?? "/", "http://localhost")).then(
    (given) => {
      if (given?.body === undefined) response.writeHead(404).end();
      else response.writeHead(200, { "content-type": given.type }).end(given.body);
    },
    (error) => response.writeHead(500).end(String(error)),
  );
});
server.listen(Number(PORT), "localhost", () => console.log(`open http://localhost:${PORT}`));

process.once("SIGTERM", () => {
  server.closeAllConnections();
  server.close();
  void trunkline.close();
});
