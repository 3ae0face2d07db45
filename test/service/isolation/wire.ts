import { connect, type ClientHttp2Session, type IncomingHttpHeaders } from "node:http2";
import {
  fromBinary,
  toBinary,
  toJson,
  toJsonString,
  type DescMethod,
  type Message,
} from "@bufbuild/protobuf";

/** How a request is carried. Each but `json` and `proto`, which are Connect's for unary RPCs, carries streams too. */
export type Carrier = "json" | "proto" | "grpc" | "grpc-web" | "connect+json" | "connect+proto";

/** A request as it leaves. */
export interface Sent {
  readonly path: string;
  readonly type: string;
  /** The whole header; null: none is sent. */
  readonly authorization: string | null;
  readonly body: Uint8Array;
}

/** An answer as it came. */
export interface Answer {
  readonly status: number;
  /** Without its date and its length, and with what is base64 decoded. */
  readonly headers: string;
  readonly body: Buffer;
  readonly trailers: string;
}

const TYPES: Readonly<Record<Carrier, string>> = {
  json: "application/json",
  proto: "application/proto",
  grpc: "application/grpc",
  "grpc-web": "application/grpc-web+proto",
  "connect+json": "application/connect+json",
  "connect+proto": "application/connect+proto",
};
const END_OF_STREAM = 2;
const WEB_TRAILERS = 128;

/** An HTTP/2 connection that says no more than it is told to, and shows all that comes back. */
export class Wire {
  readonly #session: ClientHttp2Session;

  constructor(url: string) {
    this.#session = connect(url);
    this.#session.on("error", () => undefined);
  }

  /** @param endless the answer has no end: what comes first is all of it */
  ask({ path, type, authorization, body }: Sent, endless = false): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const stream = this.#session.request({
        ":method": "POST",
        ":path": path,
        "content-type": type,
        te: "trailers",
        ...(authorization !== null && { authorization }),
      });
      let headers: IncomingHttpHeaders = {};
      let trailers: IncomingHttpHeaders = {};
      const chunks: Buffer[] = [];
      const done = (): void =>
        resolve({
          status: Number(headers[":status"]),
          headers: linesOf(headers),
          body: Buffer.concat(chunks),
          trailers: linesOf(trailers),
        });
      stream.on("response", (given) => (headers = given));
      stream.on("trailers", (given) => (trailers = given));
      stream.on("data", (chunk: Buffer) => {
        chunks.push(chunk);
        if (!endless) return;
        stream.close();
        done();
      });
      stream.on("close", done);
      stream.on("error", reject);
      stream.end(body);
    });
  }

  close(): void {
    this.#session.close();
  }
}

/** A request of an RPC. */
export function encode(
  method: DescMethod,
  carrier: Carrier,
  messages: readonly Message[],
  authorization: string | null,
): Sent {
  const bytes = messages.map((message) =>
    carrier.endsWith("json")
      ? Buffer.from(toJsonString(method.input, message))
      : Buffer.from(toBinary(method.input, message)),
  );
  const isBare = carrier === "json" || carrier === "proto";
  return {
    path: `/${method.parent.typeName}/${method.name}`,
    type: TYPES[carrier],
    authorization,
    body: Buffer.concat(isBare ? bytes : bytes.map((each) => envelope(each))),
  };
}

/** What an answer says, byte for byte: but for its date, and with what is base64 in it decoded. */
export function wordsOf({ status, headers, body, trailers }: Answer, carrier: Carrier): string {
  const isWeb = carrier === "grpc-web";
  const text = isWeb ? withWebTrailers(body) : withDetails(body.toString("latin1"));
  return [status, headers, text, trailers].join("\n");
}

/**
 * What an answer to a stream says: the items of all its frames, in one order, since those that are refused at the
 * same time come as they come; and how it ended.
 */
export function itemsOf(method: DescMethod, answer: Answer, carrier: Carrier): string {
  const items: string[] = [];
  let end = answer.trailers;
  for (const { flags, bytes } of envelopes(answer.body)) {
    if ((flags & WEB_TRAILERS) !== 0) end = decodedLines(bytes.toString("latin1"));
    else if ((flags & END_OF_STREAM) !== 0) end = withDetails(bytes.toString("latin1"));
    else if (carrier.endsWith("json")) items.push(...itemsOfMessage(JSON.parse(bytes.toString("utf8"))));
    else items.push(...itemsOfMessage(toJson(method.output, fromBinary(method.output, bytes))));
  }
  return [answer.status, ...items.sort(), end].join("\n");
}

function itemsOfMessage(json: unknown): string[] {
  return Object.entries(json ?? {}).flatMap(([name, value]) =>
    (Array.isArray(value) ? value : [value]).map((item) => `${name}: ${JSON.stringify(item)}`),
  );
}

function linesOf(headers: IncomingHttpHeaders): string {
  const { date: _, "content-length": __, ...rest } = headers;
  return decodedLines(
    Object.entries(rest)
      .map(([name, value]) => `${name}: ${String(value)}`)
      .sort()
      .join("\n"),
  );
}

function decodedLines(lines: string): string {
  return lines.replaceAll(/^(\S+-bin): *(\S+)/gm, (_, name: string, value: string) => {
    return `${name}: ${Buffer.from(value, "base64").toString("latin1")}`;
  });
}

/** The details of Connect's errors are in base64 as well. */
function withDetails(text: string): string {
  return text.replaceAll(
    /\},"value":"([\w+/]*)"\}/g,
    (_, value: string) => `},"value":${JSON.stringify(Buffer.from(value, "base64").toString("latin1"))}}`,
  );
}

function withWebTrailers(body: Buffer): string {
  return envelopes(body)
    .map(({ flags, bytes }) =>
      (flags & WEB_TRAILERS) === 0 ? bytes.toString("latin1") : decodedLines(bytes.toString("latin1")),
    )
    .join("\n");
}

function envelope(message: Uint8Array): Buffer {
  const head = Buffer.alloc(5);
  head.writeUInt32BE(message.length, 1);
  return Buffer.concat([head, message]);
}

function envelopes(body: Buffer): { readonly flags: number; readonly bytes: Buffer }[] {
  const found: { flags: number; bytes: Buffer }[] = [];
  for (let at = 0; at + 5 <= body.length;) {
    const end = at + 5 + body.readUInt32BE(at + 1);
    found.push({ flags: body.readUInt8(at), bytes: body.subarray(at + 5, end) });
    at = end;
  }
  return found;
}
