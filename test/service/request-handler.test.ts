import { once } from "node:events";
import * as http2 from "node:http2";
import { Http2ServerResponse } from "node:http2";
import type { Interceptor } from "@connectrpc/connect";
import { Health, HealthCheckResponse_ServingStatus as Status } from "@trunkline/proto/health";
import { expect, onTestFinished, test } from "vitest";
import { isFault } from "../../server/src/service/error-map.js";
import { listen } from "../../server/src/service/listener.js";
import { requestHandler } from "../../server/src/service/request-handler.js";
import { gate } from "../client/support/claim.js";

/** What a service's stream was ended by. */
function watchEnds(ends: (error: unknown) => void): Interceptor {
  async function* iterate<T>(messages: AsyncIterable<T>): AsyncGenerator<T> {
    try {
      yield* messages;
    } catch (error) {
      ends(error);
      throw error;
    }
  }
  return (next) => async (request) => {
    const response = await next(request);
    return response.stream ? { ...response, message: iterate(response.message) } : response;
  };
}

test("a client that goes away in the moment of a write is no fault of the server (S06)", async () => {
  const ended = gate<unknown>();
  const goOn = gate();
  const handle = requestHandler({
    gate: { admit: async () => null },
    interceptors: [watchEnds(ended.open)],
    routes: (router) =>
      router.service(Health, {
        check: () => ({ status: Status.SERVING }),
        async *watch() {
          yield { status: Status.SERVING };
          await goOn.promise;
          yield { status: Status.NOT_SERVING };
        },
      }),
  });
  const answers: Http2ServerResponse[] = [];
  const listener = await listen({
    host: "127.0.0.1",
    port: 0,
    handler: (request, response) => {
      if (response instanceof Http2ServerResponse) answers.push(response);
      handle(request, response);
    },
  });
  onTestFinished(() => listener.close({ graceMs: 0 }));
  const session = http2.connect(listener.url);
  onTestFinished(() => session.destroy());
  const stream = session.request({
    ":path": `/${Health.typeName}/Watch`,
    ":method": "POST",
    "content-type": "application/grpc",
  });
  stream.on("error", () => undefined);
  stream.end(Buffer.alloc(5));
  await once(stream, "data");
  // As when its reset has been read: the stream is gone, and nobody has been told yet.
  goOn.open();
  answers[0]?.stream.destroy();
  const error = await ended.promise;
  expect(error).toMatchObject({ rawMessage: "the client went away" });
  expect(isFault(error)).toBe(false);
});
