import { fromBinary } from "@bufbuild/protobuf";
import { ProblemSchema, Reason, type Problem } from "@trunkline/proto/problem";

/** What a Connect RPC over plain HTTP and JSON came to. */
export interface JsonAnswer {
  readonly status: number;
  /** The message, or the error. */
  readonly body: JsonMessage;
  /** The name of the problem's reason; undefined when there is none. */
  readonly reason: string | undefined;
  readonly problem: Problem | undefined;
}

/** A message or an error as JSON; the test knows what is in it. */
// eslint-disable-next-line @typescript-eslint/no-explicit-any
export type JsonMessage = any;

/**
 * Calls an RPC as `curl` would.
 *
 * @param rpc service and method, as `CallService/OpenCalls`
 * @param body a message, or a text that is sent as it is
 */
export async function postJson(url: string, rpc: string, body: object | string): Promise<JsonAnswer> {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  return post(url, rpc, "application/json", text);
}

/** Calls an RPC with the bytes of a message. */
export function postBinary(url: string, rpc: string, body: Uint8Array<ArrayBuffer>): Promise<JsonAnswer> {
  return post(url, rpc, "application/proto", body);
}

async function post(
  url: string,
  rpc: string,
  type: string,
  body: string | Uint8Array<ArrayBuffer>,
): Promise<JsonAnswer> {
  const response = await fetch(`${url}/trunkline.v1.${rpc}`, {
    method: "POST",
    headers: { "content-type": type },
    body,
  });
  const isJson = response.headers.get("content-type")?.includes("json") === true;
  const answer: JsonMessage = isJson ? await response.json() : await response.text();
  const problem = problemOf(answer);
  const reason = problem === undefined ? undefined : Reason[problem.reason];
  return { status: response.status, body: answer, problem, reason };
}

function problemOf(answer: JsonMessage): Problem | undefined {
  const details: readonly { type: string; value: string }[] = answer?.details ?? [];
  const detail = details.find(({ type }) => type === "trunkline.v1.Problem");
  return detail && fromBinary(ProblemSchema, Buffer.from(detail.value, "base64"));
}
