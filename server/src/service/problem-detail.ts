import { Code, ConnectError } from "@connectrpc/connect";
import { readAllBytes, type UniversalServerResponse } from "@connectrpc/connect/protocol";
import {
  codeToHttpStatus,
  contentTypeUnaryJson,
  errorFromJsonBytes,
  errorToJsonBytes,
} from "@connectrpc/connect/protocol-connect";
import { findTrailerError, setTrailerStatus } from "@connectrpc/connect/protocol-grpc";
import { trailerFlag, trailerParse, trailerSerialize } from "@connectrpc/connect/protocol-grpc-web";
import { LIMITS } from "../core/limits.js";
import { toConnectError } from "./error-map.js";
import { ENVELOPE_BYTES } from "./frame-reader.js";

type Bytes = AsyncIterable<Uint8Array>;

/**
 * The answer of a unary RPC, with a `Problem` in its error whatever the error is. What connect-node finds before the
 * service is asked, such as a message that is too large or cannot be read, comes by no interceptor and has none.
 */
export async function withProblem(answer: UniversalServerResponse): Promise<UniversalServerResponse> {
  const { status, header, body, trailer } = answer;
  if (trailer !== undefined) {
    addToTrailers(trailer);
    return answer;
  }
  const type = header?.get("content-type") ?? "";
  if (header === undefined || body === undefined) return answer;
  if (type.startsWith("application/grpc-web")) return { ...answer, body: withWebTrailers(body) };
  // An error that was compressed is long, and explains itself.
  if (status === 200 || type !== contentTypeUnaryJson || header.has("content-encoding")) return answer;
  const told = addToJson(await readAllBytes(body, LIMITS.frameBytes));
  header.set("content-length", String(told.bytes.length));
  return { ...answer, status: told.status ?? status, body: chunk(told.bytes) };
}

/** Whether there was an error that lacked one. */
function addToTrailers(trailers: Headers): boolean {
  const error = findTrailerError(trailers);
  if (error === undefined || error.details.length > 0) return false;
  setTrailerStatus(trailers, toConnectError(new ConnectError(error.rawMessage, error.code)));
  return true;
}

/** The status is that of the error, where there is one that lacked its problem. */
function addToJson(bytes: Uint8Array): { readonly bytes: Uint8Array; readonly status?: number } {
  const unreadable = new ConnectError("unreadable", Code.Unknown);
  const error = errorFromJsonBytes(bytes, undefined, unreadable);
  if (error === unreadable || error.details.length > 0) return { bytes };
  const told = toConnectError(error);
  return { bytes: errorToJsonBytes(told, undefined), status: codeToHttpStatus(told.code) };
}

async function* withWebTrailers(body: Bytes): AsyncGenerator<Uint8Array> {
  for await (const envelope of body) {
    const trailers = envelope[0] === trailerFlag && trailerParse(envelope.subarray(ENVELOPE_BYTES));
    yield trailers !== false && addToTrailers(trailers) ? enveloped(trailerSerialize(trailers)) : envelope;
  }
}

function enveloped(trailers: Uint8Array): Uint8Array {
  const bytes = Buffer.alloc(ENVELOPE_BYTES + trailers.length);
  bytes.writeUInt8(trailerFlag, 0);
  bytes.writeUInt32BE(trailers.length, 1);
  bytes.set(trailers, ENVELOPE_BYTES);
  return bytes;
}

async function* chunk(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}
