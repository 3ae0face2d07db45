import { Code, ConnectError } from "@connectrpc/connect";

/** Why a request is over before its answer whose signal has aborted: its deadline has passed, or its client has gone. */
export function endedEarly({ reason }: AbortSignal): ConnectError {
  const isLate = reason instanceof ConnectError && reason.code === Code.DeadlineExceeded;
  return isLate
    ? new ConnectError("the request's deadline has passed", Code.DeadlineExceeded)
    : new ConnectError("the client went away", Code.Canceled);
}
