import { createConnectRouter, type ConnectRouter, type ConnectRouterOptions } from "@connectrpc/connect";
import {
  compressionBrotli,
  compressionGzip,
  universalRequestFromNodeRequest,
  universalResponseToNodeResponse,
} from "@connectrpc/connect-node";
import type { RequestHandler } from "./listener-handler.js";

/** What a {@link requestHandler} serves. */
export interface RequestHandlerOptions extends ConnectRouterOptions {
  readonly routes: (router: ConnectRouter) => void;
}

/**
 * Serves services over Node's requests and responses. As connect-node's own adapter, which writes a line on the
 * console for each client that goes away in the middle of an answer.
 */
export function requestHandler({ routes, ...options }: RequestHandlerOptions): RequestHandler {
  const router = createConnectRouter({
    acceptCompression: [compressionGzip, compressionBrotli],
    ...options,
  });
  routes(router);
  const handlers = new Map(router.handlers.map((handler) => [handler.requestPath, handler]));
  return (request, response) => {
    const [path = ""] = request.url?.split("?", 1) ?? [];
    const handler = handlers.get(path);
    if (handler === undefined) {
      response.writeHead(404);
      response.end();
      return;
    }
    if (handler.method.methodKind === "bidi_streaming" && request.httpVersionMajor < 2) {
      refuseVersion(response, path);
      return;
    }
    // Whatever a service throws is in its answer already; what is left is a peer that has gone.
    handler(universalRequestFromNodeRequest(request, response, undefined, undefined))
      .then((answer) => universalResponseToNodeResponse(answer, response))
      .catch(() => {});
  };
}

/** Ends the connection as well: a client that goes on sending its half of the stream would wait for ever. */
function refuseVersion(response: Parameters<RequestHandler>[1], path: string): void {
  response.writeHead(505, { "content-type": "text/plain; charset=utf-8", connection: "close" });
  response.end(
    `${path} is a stream in both directions: it needs HTTP/2, from the client and from every proxy before this server\n`,
  );
}
