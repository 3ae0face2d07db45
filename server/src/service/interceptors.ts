import type { ConnectError, Interceptor, StreamResponse } from "@connectrpc/connect";
import { Health } from "@trunkline/proto/health";
import { TrunklineError } from "../core/error.js";
import type { Availability } from "../exchange/availability.js";
import { admissionKey } from "./auth.js";
import { isFault, toConnectError } from "./error-map.js";
import { checkItems, withCheckedItems } from "./message-items.js";
import { isReflection } from "./reflection-service.js";
import { RequestLoad } from "./request-load.js";

/**
 * The one interceptor of all services: it refuses what the gate refused, or what never came by it, and where the node
 * has no database or too much to do, and maps whatever a handler throws, at once or while it streams, to the
 * error that the caller gets. Faults of the server go to `onError`, and nothing else does.
 *
 * @param load shared with what is served beside the services
 */
export function serviceInterceptor(
  availability: Availability,
  onError: (error: unknown) => void,
  load = new RequestLoad(),
): Interceptor {
  const mapped = (error: unknown): ConnectError => {
    if (isFault(error)) onError(error);
    return toConnectError(error);
  };
  return (next) => async (request) => {
    try {
      const admission = request.contextValues.get(admissionKey);
      if (admission === undefined) throw new TrunklineError("UNAUTHENTICATED", "the request passed no gate");
      if (admission instanceof TrunklineError) throw admission;
      if (request.service.typeName === Health.typeName || isReflection(request.service)) {
        return await next(request);
      }
      availability.check();
      if (!request.stream) checkItems(request.message);
      const response = request.stream
        ? await next({ ...request, message: withCheckedItems(request.message) })
        : await load.count(request.method, () => availability.guard(next(request)));
      return response.stream ? withMappedErrors(response, mapped) : response;
    } catch (error) {
      throw mapped(error);
    }
  };
}

function withMappedErrors(
  response: StreamResponse,
  mapped: (error: unknown) => ConnectError,
): StreamResponse {
  return { ...response, message: iterate(response.message, mapped) };
}

async function* iterate<T>(
  messages: AsyncIterable<T>,
  mapped: (error: unknown) => ConnectError,
): AsyncGenerator<T> {
  try {
    yield* messages;
  } catch (error) {
    throw mapped(error);
  }
}
