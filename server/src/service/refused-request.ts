import type { DescMethod } from "@bufbuild/protobuf";
import type { UniversalServerRequest } from "@connectrpc/connect/protocol";
import { setTrailerStatus } from "@connectrpc/connect/protocol-grpc";
import { TrunklineError } from "../core/error.js";
import { toConnectError } from "./error-map.js";
import type { RequestHandler } from "./listener-handler.js";
import { answerPlainly } from "./plain-answer.js";

const JSON_TYPE = /^application\/json *(?:;|$)/i;
const WEB_TYPE = "application/grpc-web";
const UNARY_PROTO = "application/proto";
/** An empty message of gRPC, gRPC-Web and Connect's streams: no flags, no bytes. */
const EMPTY_ENVELOPE = new Uint8Array(5);
const ENCODINGS = ["content-encoding", "grpc-encoding", "connect-content-encoding"];

/**
 * The request with an empty message in place of its body, which is neither read nor decompressed: so it gets as far as
 * the interceptor, which answers with the refusal in the words of whatever protocol it came in.
 */
export function withoutBody(request: UniversalServerRequest, method: DescMethod): UniversalServerRequest {
  const header = new Headers(request.header);
  for (const name of ENCODINGS) header.delete(name);
  header.delete("content-length");
  const type = header.get("content-type") ?? "";
  return { ...request, header, body: only(emptyBody(type, method)) };
}

/**
 * Answers a stream in both directions that came over HTTP/1.1. Ends the connection as well: a client that goes on
 * sending its half of the stream would wait for ever.
 */
export function refuseVersion(
  request: Parameters<RequestHandler>[0],
  response: Parameters<RequestHandler>[1],
  path: string,
): void {
  const text = `${path} is a stream in both directions: it needs HTTP/2, from the client and from every proxy before this server`;
  const { "content-type": type = "" } = request.headers;
  if (type.startsWith(WEB_TYPE)) {
    // Its clients read no text of another answer than this.
    const status = statusOf(new TrunklineError("UNIMPLEMENTED", text));
    response.writeHead(200, { ...status, "content-type": type, connection: "close" });
    response.end();
    return;
  }
  answerPlainly(response, 505, text, { connection: "close" });
}

/**
 * Whether connect-node failed to tell a client what is wrong with its request: gRPC's status cannot carry half a
 * surrogate pair, which JSON can, and which its own messages quote.
 */
export function isUnsayable(error: unknown): boolean {
  return error instanceof URIError || (error instanceof Error && error.cause instanceof URIError);
}

/** Answers a request that {@link isUnsayable}. */
export function refuseUnsayable(
  request: Parameters<RequestHandler>[0],
  response: Parameters<RequestHandler>[1],
): void {
  const text =
    "the request has half a surrogate pair where its type has no text; allowed is what the type says";
  const { "content-type": type = "" } = request.headers;
  const status = statusOf(new TrunklineError("INVALID_JSON", text));
  const isWeb = type.startsWith(WEB_TYPE);
  response.writeHead(200, { ...(isWeb && status), "content-type": type });
  if (!isWeb) response.addTrailers(status);
  response.end();
}

function statusOf(error: TrunklineError): Record<string, string> {
  return Object.fromEntries(setTrailerStatus(new Headers(), toConnectError(error)));
}

function emptyBody(type: string, { methodKind }: DescMethod): Uint8Array {
  if (methodKind === "unary" && JSON_TYPE.test(type)) return new TextEncoder().encode("{}");
  if (methodKind === "unary" && type.startsWith(UNARY_PROTO)) return new Uint8Array(0);
  if (type.includes("json")) return new Uint8Array([0, 0, 0, 0, 2, ...new TextEncoder().encode("{}")]);
  return EMPTY_ENVELOPE;
}

async function* only(bytes: Uint8Array): AsyncGenerator<Uint8Array, void, undefined> {
  yield bytes;
}
