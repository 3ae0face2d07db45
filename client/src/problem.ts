import { create } from "@bufbuild/protobuf";
import { durationMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import { FailureKind as WireKind, FailureSchema, type Failure as WireFailure } from "@trunkline/proto/model";
import { ProblemSchema, Reason as WireReason, type Problem } from "@trunkline/proto/problem";
import { mayPass, TrunklineError, type Failure, type FailureKind, type Reason } from "./errors.js";

const REASON_OF: Record<WireReason, Reason> = {
  [WireReason.UNSPECIFIED]: "INTERNAL",
  [WireReason.INVALID_FIELD]: "INVALID_FIELD",
  [WireReason.INVALID_JSON]: "INVALID_JSON",
  [WireReason.LIMIT_EXCEEDED]: "LIMIT_EXCEEDED",
  [WireReason.FRAME_TOO_LARGE]: "FRAME_TOO_LARGE",
  [WireReason.PROTOCOL_VIOLATION]: "PROTOCOL_VIOLATION",
  [WireReason.SCHEMA_VIOLATION]: "SCHEMA_VIOLATION",
  [WireReason.TOOL_UNKNOWN]: "TOOL_UNKNOWN",
  [WireReason.NOT_FOUND]: "NOT_FOUND",
  [WireReason.RUN_ENDED]: "RUN_ENDED",
  [WireReason.KEY_REUSED]: "KEY_REUSED",
  [WireReason.CLAIM_LOST]: "CLAIM_LOST",
  [WireReason.STALE_ATTEMPT]: "STALE_ATTEMPT",
  [WireReason.TOKEN_INVALID]: "TOKEN_INVALID",
  [WireReason.CALL_ENDED]: "CALL_ENDED",
  [WireReason.CALL_DEFERRED]: "CALL_DEFERRED",
  [WireReason.CALL_NOT_DEFERRED]: "CALL_NOT_DEFERRED",
  [WireReason.SESSION_IN_USE]: "SESSION_IN_USE",
  [WireReason.SUPERSEDED]: "SUPERSEDED",
  [WireReason.UNAUTHENTICATED]: "UNAUTHENTICATED",
  [WireReason.PERMISSION_DENIED]: "PERMISSION_DENIED",
  [WireReason.OVERLOADED]: "OVERLOADED",
  [WireReason.UNAVAILABLE]: "UNAVAILABLE",
  [WireReason.UNIMPLEMENTED]: "UNIMPLEMENTED",
  [WireReason.INTERNAL]: "INTERNAL",
};

const CODE_NAME: Record<Code, string> = {
  [Code.Canceled]: "CANCELED",
  [Code.Unknown]: "UNKNOWN",
  [Code.InvalidArgument]: "INVALID_ARGUMENT",
  [Code.DeadlineExceeded]: "DEADLINE_EXCEEDED",
  [Code.NotFound]: "NOT_FOUND",
  [Code.AlreadyExists]: "ALREADY_EXISTS",
  [Code.PermissionDenied]: "PERMISSION_DENIED",
  [Code.ResourceExhausted]: "RESOURCE_EXHAUSTED",
  [Code.FailedPrecondition]: "FAILED_PRECONDITION",
  [Code.Aborted]: "ABORTED",
  [Code.OutOfRange]: "OUT_OF_RANGE",
  [Code.Unimplemented]: "UNIMPLEMENTED",
  [Code.Internal]: "INTERNAL",
  [Code.Unavailable]: "UNAVAILABLE",
  [Code.DataLoss]: "DATA_LOSS",
  [Code.Unauthenticated]: "UNAUTHENTICATED",
};

/** The reason of an error that carries no `Problem`: one of a proxy, of the network, of another server. */
const REASON_OF_CODE: Partial<Record<Code, Reason>> = {
  [Code.Unauthenticated]: "UNAUTHENTICATED",
  [Code.PermissionDenied]: "PERMISSION_DENIED",
  [Code.Unimplemented]: "UNIMPLEMENTED",
  [Code.NotFound]: "NOT_FOUND",
  [Code.InvalidArgument]: "INVALID_FIELD",
  [Code.ResourceExhausted]: "LIMIT_EXCEEDED",
};

/** Codes under which a cut or a node that is going away may show, when no `Problem` says otherwise. */
const CUT_CODES: ReadonlySet<Code> = new Set([
  Code.Unavailable,
  Code.Aborted,
  Code.Canceled,
  Code.Internal,
  Code.Unknown,
  Code.DeadlineExceeded,
  Code.DataLoss,
]);

const KIND_OF: Record<WireKind, FailureKind> = {
  [WireKind.UNSPECIFIED]: "tool",
  [WireKind.TOOL]: "tool",
  [WireKind.EXCEPTION]: "exception",
  [WireKind.WORKER_LOST]: "worker_lost",
  [WireKind.ATTEMPT_TIMEOUT]: "attempt_timeout",
  [WireKind.TOTAL_TIMEOUT]: "total_timeout",
  [WireKind.DEFER_TIMEOUT]: "defer_timeout",
  [WireKind.CANCELED]: "canceled",
  [WireKind.INVALID_ANSWER]: "invalid_answer",
  [WireKind.OVERSIZED]: "oversized",
};

/** What a table has for an enum's number; numbers of newer servers, legal in proto3, get the fallback. */
export function translate<T>(table: Readonly<Record<number, T>>, value: number, fallback: NoInfer<T>): T {
  return table[value] ?? fallback;
}

/** The error that a problem of the server is. */
export function errorFromProblem(problem: Problem): TrunklineError {
  return new TrunklineError(translate(REASON_OF, problem.reason, "INTERNAL"), problem.message, {
    code: translate<string | undefined>(CODE_NAME, problem.code, undefined),
    metadata: { ...problem.metadata },
    retryAfterMs: problem.retryAfter === undefined ? undefined : durationMs(problem.retryAfter),
  });
}

/** The error that anything thrown by an RPC or a stream is. */
export function errorFromRpc(thrown: unknown, url: string): TrunklineError {
  if (thrown instanceof TrunklineError) return thrown;
  const error = ConnectError.from(thrown);
  const [problem] = error.findDetails(ProblemSchema);
  if (problem !== undefined) return errorFromProblem(problem);
  if (isUnsendable(error)) {
    return new TrunklineError("INVALID_FIELD", `the request cannot be sent: ${error.rawMessage}`, {
      cause: error,
    });
  }
  const cut = CUT_CODES.has(error.code);
  const reason = REASON_OF_CODE[error.code] ?? (cut ? "UNAVAILABLE" : "INTERNAL");
  return new TrunklineError(reason, messageOf(error, cut, url), {
    code: CODE_NAME[error.code],
    cause: error,
  });
}

/** What connect-node says of a message that it cannot write. */
const UNSENDABLE = "serialize binary: ";

/** Whether a message could not be written: an argument that no check has stopped. */
export function isUnsendable(thrown: unknown): boolean {
  return (
    thrown instanceof ConnectError &&
    thrown.code === Code.Internal &&
    thrown.rawMessage.startsWith(UNSENDABLE)
  );
}

/** What is likely wrong, where the libraries below say it in words of their own. */
const PLAIN_CAUSES: readonly (readonly [RegExp, string])[] = [
  [/wrong version number|packet length too long/, "it does not speak TLS; is it http:// and not https://?"],
  [
    /^Protocol error|unsupported content type/,
    "it does not speak as a Trunkline server does; is it one, and does every proxy before it speak HTTP/2?",
  ],
  [
    /self-signed certificate|unable to (get|verify)/,
    "its certificate is not trusted ($&); give its CA in NODE_EXTRA_CA_CERTS, or as the option tls: { ca }",
  ],
  [/^http\/2 stream closed with error code CANCEL/, "the connection was closed"],
];

function messageOf(error: ConnectError, cut: boolean, url: string): string {
  if (cut) return `no answer from ${url}: ${plainCause(error)}`;
  if (error.code !== Code.Unimplemented) return `${url} says: ${error.rawMessage}`;
  return `${url} does not know the request (${error.rawMessage}); is it the address of a Trunkline server?`;
}

function plainCause({ rawMessage }: ConnectError): string {
  const raw = rawMessage.trim();
  const [pattern, plain] = PLAIN_CAUSES.find(([each]) => each.test(raw)) ?? [];
  const found = pattern?.exec(raw)?.[0];
  return plain === undefined || found === undefined ? raw : plain.replace("$&", found);
}

/** Whether what failed may be sent again unchanged: a cut, a node that goes away, an overload. */
export function isTransient(thrown: unknown): boolean {
  if (thrown instanceof TrunklineError) return mayPass(thrown);
  const error = ConnectError.from(thrown);
  const [problem] = error.findDetails(ProblemSchema);
  if (problem === undefined) return CUT_CODES.has(error.code) && !isUnsendable(error);
  return problem.reason === WireReason.UNAVAILABLE || problem.reason === WireReason.OVERLOADED;
}

/** Whether what was thrown is what a Trunkline server said, and not the network or what is in between. */
export function isServersWord(thrown: unknown): boolean {
  if (!(thrown instanceof ConnectError)) return false;
  return thrown.findDetails(ProblemSchema).length > 0;
}

/** A failure as the server tells it. */
export function failureFromWire(failure: WireFailure | undefined): Failure {
  const { kind, message, dataJson, retryable, outcomeUnknown } = failure ?? create(FailureSchema);
  return {
    kind: translate(KIND_OF, kind, "tool"),
    message,
    data: dataJson === "" ? undefined : JSON.parse(dataJson),
    dataJson: dataJson === "" ? undefined : dataJson,
    retryable,
    outcomeUnknown,
  };
}
