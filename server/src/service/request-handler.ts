import { IncomingMessage } from "node:http";
import type { DescMethod } from "@bufbuild/protobuf";
import {
  Code,
  ConnectError,
  createContextValues,
  createConnectRouter,
  type ContextValues,
  type ConnectRouter,
  type ConnectRouterOptions,
} from "@connectrpc/connect";
import {
  compressionBrotli,
  compressionGzip,
  universalRequestFromNodeRequest,
  universalResponseToNodeResponse,
} from "@connectrpc/connect-node";
import type { UniversalServerRequest } from "@connectrpc/connect/protocol";
import { TrunklineError } from "../core/error.js";
import { AnonymousLoad } from "./anonymous-load.js";
import { admissionKey, type Admission } from "./auth.js";
import { withClearCut } from "./clear-body.js";
import { refuseLongType, refusePath, withWords } from "./empty-answer.js";
import { toTrunklineError } from "./error-map.js";
import { dropFarDeadline } from "./far-deadline.js";
import type { Gate } from "./gate.js";
import { READ_OPTIONS, type GrpcStream } from "./grpc-stream.js";
import { isGone, type RequestHandler } from "./listener-handler.js";
import { withProblem } from "./problem-detail.js";
import { isUnsayable, refuseUnsayable, refuseVersion, withoutBody } from "./refused-request.js";
import type { PlainRoute } from "./settle-route.js";

/** What a {@link requestHandler} serves. */
export interface RequestHandlerOptions extends ConnectRouterOptions {
  readonly routes: (router: ConnectRouter) => void;
  /** Lets requests in before anything of their bodies is read or decompressed. */
  readonly gate: Pick<Gate, "admit">;
  /** Of these, whatever is plain gRPC does not come to the routes. */
  readonly streams?: readonly GrpcStream[];
  /** Asked about every path that is no RPC's. */
  readonly otherwise?: PlainRoute;
  /** Bounds requests without a credential, where the RPC asks for none. */
  readonly anonymous?: AnonymousLoad;
}

/**
 * Serves services over Node's requests and responses. As connect-node's own adapter, which writes a line on the
 * console for each client that goes away in the middle of an answer.
 */
export function requestHandler(options: RequestHandlerOptions): RequestHandler {
  const { routes, gate, streams = [], otherwise, anonymous = new AnonymousLoad(), ...rest } = options;
  const router = createConnectRouter({
    acceptCompression: [compressionGzip, compressionBrotli],
    binaryOptions: READ_OPTIONS,
    ...rest,
  });
  routes(router);
  const handlers = new Map(router.handlers.map((handler) => [handler.requestPath, handler]));
  const plain = new Map(streams.map((stream) => [stream.path, stream]));
  return (request, response) => {
    const [path = ""] = request.url?.split("?", 1) ?? [];
    if (plain.get(path)?.tryServe(request, response) === true) return;
    const handler = handlers.get(path);
    if (handler === undefined) {
      if (otherwise?.(path, request, response) === true) return;
      refusePath(response);
      return;
    }
    if (refuseLongType(request, response)) return;
    if (handler.method.methodKind === "bidi_streaming" && request.httpVersionMajor < 2) {
      refuseVersion(request, response, path);
      return;
    }
    const answered = async (): Promise<void> => {
      const authorization = request.headers.authorization ?? null;
      const admission: Admission = await gate
        .admit(handler.method, authorization)
        .then((caller) => {
          if (caller === null && !isGone(response)) anonymous.enter(handler.method, request, response);
          return caller;
        })
        .catch(toTrunklineError);
      const whole = universalRequest(request, response, admission);
      const answer = await handler(admittedPart(whole, handler.method, admission, anonymous));
      const full = handler.method.methodKind === "unary" ? await withProblem(answer) : answer;
      await universalResponseToNodeResponse(withClearEnd(withWords(full)), response);
    };
    // Whatever a service throws is in its answer already; what is left is a peer that has gone, mostly.
    answered()
      .catch((error: unknown) => endUnanswered(request, response, error))
      .catch(() => {});
  };
}

/** Ends a request that got no answer, or not all of it, so that nobody waits for ever. */
function endUnanswered(
  request: Parameters<RequestHandler>[0],
  response: Parameters<RequestHandler>[1],
  error: unknown,
): void {
  if (isGone(response)) return;
  if (isUnsayable(error) && !response.headersSent) refuseUnsayable(request, response);
  else response.destroy();
}

/** What is read of a request: all of it, as much as there is room for, or nothing. */
function admittedPart(
  request: UniversalServerRequest,
  method: DescMethod,
  admission: Admission,
  anonymous: AnonymousLoad,
): UniversalServerRequest {
  if (admission instanceof TrunklineError) return withoutBody(request, method);
  const { body } = request;
  if (admission !== null || body === null || typeof body !== "object") return request;
  return Symbol.asyncIterator in body ? { ...request, body: anonymous.bounded(body) } : request;
}

function valuesOf(admission: Admission): ContextValues {
  return createContextValues().set(admissionKey, admission);
}

/**
 * The request as connect-node takes it. One of HTTP/1.1 that is answered before all of it was read leaves its rest to
 * be dropped: Node's own iterator would end it for good, and whatever comes next on its connection would wait for ever.
 */
function universalRequest(
  request: Parameters<RequestHandler>[0],
  response: Parameters<RequestHandler>[1],
  admission: Admission,
): UniversalServerRequest {
  const universal = universalRequestFromNodeRequest(request, response, undefined, valuesOf(admission));
  dropFarDeadline(universal.header);
  const body = request instanceof IncomingMessage ? request.iterator({ destroyOnReturn: false }) : request;
  return { ...universal, body: withClearCut(body) };
}

type Answer = Parameters<typeof universalResponseToNodeResponse>[0];

/**
 * The answer, whose service is told of a write that failed as of what it is: the client has gone. Node's own error,
 * which connect-node throws into the service, would look like a fault of ours.
 */
function withClearEnd(answer: Answer): Answer {
  const { body } = answer;
  if (body === undefined) return answer;
  const clear: AsyncIterable<Uint8Array> = {
    [Symbol.asyncIterator]: () => {
      const frames = body[Symbol.asyncIterator]();
      const over = (): Promise<IteratorResult<Uint8Array>> =>
        Promise.resolve({ done: true, value: undefined });
      return {
        next: () => frames.next(),
        return: () => frames.return?.() ?? over(),
        throw: (error) =>
          frames.throw?.(
            new ConnectError("the client went away", Code.Canceled, undefined, undefined, error),
          ) ?? over(),
      };
    },
  };
  return { ...answer, body: clear };
}
