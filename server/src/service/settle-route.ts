import { toJsonString } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { CallService, SettleResultSchema, type CallRef, type SettleResult } from "@trunkline/proto/call";
import { CallState } from "@trunkline/proto/model";
import type { Problem } from "@trunkline/proto/problem";
import { TrunklineError } from "../core/error.js";
import { quoted } from "../core/json-text.js";
import { LIMITS } from "../core/limits.js";
import { parseCallId } from "../core/name.js";
import type { Scope } from "../core/scope.js";
import { resolveRef } from "./call-refs.js";
import type { ServiceDeps } from "./deps.js";
import { isFault, toProblem } from "./error-map.js";
import type { Gate } from "./gate.js";
import { isGone, type RequestHandler } from "./listener-handler.js";
import { PAGE_HEADERS } from "./plain-answer.js";
import type { RequestLoad } from "./request-load.js";
import { findTargets, settleTarget } from "./settle-calls.js";
import { readSettleBody, type SettleBody } from "./settle-route-body.js";

type Request = Parameters<RequestHandler>[0];
type Response = Parameters<RequestHandler>[1];

/** What a plain HTTP route does with a request: answers it, or says by false that it is for another one. */
export type PlainRoute = (path: string, request: Request, response: Response) => boolean;

const PATH = /^\/api\/machine\/sessions\/([^/]+)\/calls\/settle$/;
const JSON_TYPE = /^application\/json *(?:;|$)/i;

/** HTTP's words for a problem's code; a state that forbids what was asked is a conflict. */
const STATUSES: ReadonlyMap<number, number> = new Map<number, number>([
  [Code.InvalidArgument, 400],
  [Code.Unauthenticated, 401],
  [Code.PermissionDenied, 403],
  [Code.NotFound, 404],
  [Code.FailedPrecondition, 409],
  [Code.Aborted, 409],
  [Code.ResourceExhausted, 429],
  [Code.Unavailable, 503],
]);

interface Answer {
  readonly status: number;
  readonly result: SettleResult;
  readonly headers?: Readonly<Record<string, string>>;
}

/**
 * `POST /api/machine/sessions/{run_id}/calls/settle`: `SettleCalls` of one call, for programs that speak plain HTTP.
 * The answer is a `SettleResult` as JSON, which has a `problem` unless its status is 200.
 *
 * @param load counts it among the other requests
 */
export function settleRoute(deps: ServiceDeps, gate: Gate, load: RequestLoad): PlainRoute {
  return (path, request, response) => {
    const [, runId] = PATH.exec(path) ?? [];
    if (runId === undefined) return false;
    const refused = (error: unknown): Answer => {
      if (isFault(error)) deps.onError(error);
      return refusal(toProblem(error));
    };
    const answered = async (): Promise<Answer> => {
      const unfit = unfitness(request);
      if (unfit !== undefined) return unfit;
      const { scope } = await gate.admitCaller(
        CallService.method.settleCalls,
        request.headers.authorization ?? null,
      );
      const body = readSettleBody(await readBytes(request));
      const { availability } = deps.exchange;
      availability.check();
      const settled = load.count(CallService.method.settleCalls, () =>
        availability.guard(settle(deps, scope, runId, body)),
      );
      return answerOf(await settled);
    };
    answered()
      .catch(refused)
      .then((answer) => reply(request, response, answer))
      .catch((error: unknown) => {
        if (!isGone(response)) deps.onError(error);
      });
    return true;
  };
}

/** What is wrong with a request before anybody looks into it. */
function unfitness({ method = "", headers }: Request): Answer | undefined {
  if (method !== "POST") {
    return unfit(405, `the method is ${quoted(method)}; allowed is POST`, { allow: "POST" });
  }
  // A page of another origin may send any other type without asking the browser first.
  const type = headers["content-type"] ?? "";
  if (!JSON_TYPE.test(type)) {
    return unfit(415, `Content-Type is ${quoted(type)}; allowed is application/json`);
  }
  const encoding = headers["content-encoding"] ?? "identity";
  if (encoding !== "identity") {
    return unfit(415, `Content-Encoding is ${quoted(encoding)}; allowed is identity`);
  }
  return undefined;
}

function unfit(status: number, message: string, headers: Record<string, string> = {}): Answer {
  return { ...refusal(toProblem(new TrunklineError("INVALID_FIELD", message))), status, headers };
}

async function settle(
  deps: ServiceDeps,
  scope: Scope,
  runId: string,
  { id, attempt, answer }: SettleBody,
): Promise<SettleResult> {
  const ref = await resolveRef(deps, scope, refOf(runId, id), "id");
  const [target] = await findTargets(deps, scope, [ref]);
  return settleTarget(deps, scope, target, { attempt, attemptField: "attempt", answer });
}

/** A model's tool-call id is the call's key; a call's own id names its run as well. */
function refOf(runId: string, id: string): CallRef {
  const isCallId = parseCallId(id)?.runId === runId;
  return {
    $typeName: "trunkline.v1.CallRef",
    ...(isCallId ? { callId: id, runId: "", key: "" } : { callId: "", runId, key: id }),
  };
}

/**
 * The whole body.
 *
 * @throws TrunklineError LIMIT_EXCEEDED as soon as it is larger than a frame; ConnectError when the client goes away
 */
function readBytes(request: Request): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    request.on("data", (chunk: Buffer) => {
      size += chunk.length;
      // Whatever still comes is let go, so that the client gets to read the answer.
      if (size > LIMITS.frameBytes) reject(tooLarge());
      else chunks.push(chunk);
    });
    request.once("end", () => resolve(Buffer.concat(chunks)));
    request.once("close", () => reject(new ConnectError("the client went away", Code.Canceled)));
  });
}

function tooLarge(): TrunklineError {
  const max = String(LIMITS.frameBytes);
  return new TrunklineError("LIMIT_EXCEEDED", `body is too large; allowed are at most ${max} bytes`, {
    metadata: { field: "body", limit: "bytes", max },
  });
}

function answerOf(result: SettleResult): Answer {
  if (result.problem === undefined) return { status: 200, result };
  return { ...refusal(result.problem), result };
}

function refusal(problem: Problem): Answer {
  const result: SettleResult = {
    $typeName: "trunkline.v1.SettleResult",
    callId: "",
    state: CallState.UNSPECIFIED,
    problem,
  };
  const { retryAfter } = problem;
  const headers = retryAfter && { "retry-after": String(Math.max(1, Number(retryAfter.seconds))) };
  return { status: statusOf(problem), result, ...(headers && { headers }) };
}

function statusOf({ code, metadata }: Problem): number {
  return metadata["limit"] === "bytes" ? 413 : (STATUSES.get(code) ?? 500);
}

function reply(request: Request, response: Response, { status, result, headers }: Answer): void {
  if (isGone(response)) return;
  const isCut = !request.complete && request.httpVersionMajor < 2;
  response.writeHead(status, {
    ...PAGE_HEADERS,
    "content-type": "application/json",
    ...(status === 401 && { "www-authenticate": "Bearer" }),
    ...(isCut && { connection: "close" }),
    ...headers,
  });
  response.end(toJsonString(SettleResultSchema, result));
}
