import type { OutgoingHttpHeaders } from "node:http";
import type { RequestHandler } from "./listener-handler.js";

type Response = Parameters<RequestHandler>[1];

/** Browsers come back by TLS alone, for a year. */
const STRICT_TRANSPORT = "max-age=31536000";

/**
 * For whatever a browser may show: it runs nothing of it, puts it into no frame, tells nobody of its address and keeps
 * no copy.
 */
export const PAGE_HEADERS: Readonly<Record<string, string>> = {
  "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
  "referrer-policy": "no-referrer",
  "cache-control": "no-store",
};

/** The type of a line of words. */
export const PLAIN_TEXT = "text/plain; charset=utf-8";

/** Sets what every answer has, whatever it is: it is of the type that it says, and under TLS the next is by TLS too. */
export function guardBrowsers(response: Response, isTls: boolean): void {
  response.setHeader("x-content-type-options", "nosniff");
  if (isTls) response.setHeader("strict-transport-security", STRICT_TRANSPORT);
}

/** Answers with a line of text; where an answer was begun already, that is cut. */
export function answerPlainly(
  response: Response,
  status: number,
  text: string,
  headers: OutgoingHttpHeaders = {},
): void {
  if (response.headersSent) {
    response.destroy();
    return;
  }
  response.writeHead(status, { ...PAGE_HEADERS, "content-type": PLAIN_TEXT, ...headers });
  response.end(`${text}\n`);
}
