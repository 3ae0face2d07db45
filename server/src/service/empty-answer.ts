import type { UniversalServerResponse } from "@connectrpc/connect/protocol";
import type { RequestHandler } from "./listener-handler.js";
import { answerPlainly, PAGE_HEADERS, PLAIN_TEXT } from "./plain-answer.js";

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

/** Answers a request for a path at which there is nothing. */
export function refusePath(response: Parameters<RequestHandler>[1]): void {
  answerPlainly(
    response,
    404,
    "there is nothing here; RPCs are at /trunkline.v1.SERVICE/RPC, as /trunkline.v1.RunService/ListRuns",
  );
}

async function* line(text: string): AsyncGenerator<Uint8Array> {
  yield new TextEncoder().encode(`${text}\n`);
}
