import type { UniversalServerResponse } from "@connectrpc/connect/protocol";
import type { RequestHandler } from "./listener-handler.js";
import { answerPlainly, PAGE_HEADERS, PLAIN_TEXT } from "./plain-answer.js";

type Request = Parameters<RequestHandler>[0];
type Response = Parameters<RequestHandler>[1];

/** More than any type has that is served: `application/connect+json; charset=utf-8` has 39 characters. */
const LONGEST_TYPE = 64;

/** What connect-node answers with a status alone, and what a person at a terminal needs to know. */
const WORDS: ReadonlyMap<number, string> = new Map([
  [405, "the method is not allowed; RPCs are called with POST"],
  [
    415,
    "there is no such Content-Type here; JSON is application/json (curl -H 'Content-Type: application/json')",
  ],
]);

/** The answer, with a line of text where it would have nothing but its status. */
export function withWords(answer: UniversalServerResponse): UniversalServerResponse {
  const text = WORDS.get(answer.status);
  if (text === undefined || answer.body !== undefined) return answer;
  const header = new Headers(answer.header);
  for (const [name, value] of Object.entries(PAGE_HEADERS)) header.set(name, value);
  header.set("content-type", PLAIN_TEXT);
  return { ...answer, header, body: line(text) };
}

/**
 * Answers a request whose Content-Type is longer than any that is served; false where it is not. Connect keeps a
 * thousand types of each RPC that it was asked for, whoever asked, for good.
 */
export function refuseLongType(request: Request, response: Response): boolean {
  const { "content-type": type = "" } = request.headers;
  if (type.length <= LONGEST_TYPE) return false;
  answerPlainly(response, 415, WORDS.get(415) ?? "");
  return true;
}

/** Answers a request for a path at which there is nothing. */
export function refusePath(response: Response): void {
  answerPlainly(
    response,
    404,
    "there is nothing here; RPCs are at /trunkline.v1.SERVICE/RPC, as /trunkline.v1.RunService/ListRuns",
  );
}

async function* line(text: string): AsyncGenerator<Uint8Array> {
  yield new TextEncoder().encode(`${text}\n`);
}
