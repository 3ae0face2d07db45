import { cors } from "@connectrpc/connect";
import { quoted } from "../core/json-text.js";
import type { RequestHandler } from "./listener-handler.js";
import { answerPlainly } from "./plain-answer.js";

type Request = Parameters<RequestHandler>[0];

/** Which pages may use a server from a browser. */
export interface CorsOptions {
  /** Origins as browsers write them, such as `https://app.example`. None: no page of another origin may. */
  readonly origins: readonly string[];
  /** Whether the server asks nobody for a key. */
  readonly isOpen: boolean;
}

/** Browsers ask again after two hours, which is as long as any of them waits. */
const PREFLIGHT_SECONDS = "7200";
const ALLOWED_METHODS = cors.allowedMethods.join(", ");
const ALLOWED_HEADERS = [...cors.allowedHeaders, "Authorization"].join(", ");
const EXPOSED_HEADERS = [...cors.exposedHeaders, "Retry-After"].join(", ");

const LOOPBACK_ORIGIN = /^https?:\/\/(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d+)?$/;

/**
 * Tells browsers of which origins pages may use the server; cookies are of no use to it, so it never asks for them.
 *
 * A server that asks nobody for a key refuses pages of other machines, named ones excepted, whatever they ask: one
 * whose name was pointed at this address counts as the same origin in its browser, which then asks for no leave.
 */
export function withCors(handler: RequestHandler, { origins, isOpen }: CorsOptions): RequestHandler {
  if (origins.length === 0 && !isOpen) return handler;
  const named = new Set(origins);
  return (request, response) => {
    const { origin } = request.headers;
    if (named.size > 0) response.setHeader("vary", "Origin");
    if (origin === undefined) {
      handler(request, response);
      return;
    }
    if (named.has(origin)) {
      response.setHeader("access-control-allow-origin", origin);
      if (isPreflight(request)) {
        response.writeHead(204, {
          "access-control-allow-methods": ALLOWED_METHODS,
          "access-control-allow-headers": ALLOWED_HEADERS,
          "access-control-max-age": PREFLIGHT_SECONDS,
        });
        response.end();
        return;
      }
      response.setHeader("access-control-expose-headers", EXPOSED_HEADERS);
    } else if (isPreflight(request) || (isOpen && !LOOPBACK_ORIGIN.test(origin))) {
      const text = `pages of ${quoted(origin, 200)} may not use this server; allowed are those that --cors-origin names`;
      answerPlainly(response, 403, text);
      return;
    }
    handler(request, response);
  };
}

function isPreflight({ method, headers }: Request): boolean {
  return method === "OPTIONS" && headers["access-control-request-method"] !== undefined;
}
