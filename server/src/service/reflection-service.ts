import type { DescService } from "@bufbuild/protobuf";
import { Code, type ConnectRouter } from "@connectrpc/connect";
import { ServerReflection, type ServerReflectionRequest } from "@trunkline/proto/reflection";
import {
  ServerReflection as AlphaReflection,
  type ServerReflectionRequest as AlphaRequest,
} from "@trunkline/proto/reflection-v1alpha";
import type { Caller } from "../core/caller.js";
import { quoted } from "../core/json-text.js";
import { callerOf } from "./auth.js";
import type { OpenStreams } from "./open-streams.js";
import { ReflectionFiles } from "./reflection-files.js";

/** The two versions differ in their names only. */
type Request = ServerReflectionRequest | AlphaRequest;

type Answer =
  | {
      readonly case: "fileDescriptorResponse";
      readonly value: { readonly fileDescriptorProto: Uint8Array[] };
    }
  | {
      readonly case: "allExtensionNumbersResponse";
      readonly value: { readonly baseTypeName: string; readonly extensionNumber: number[] };
    }
  | { readonly case: "listServicesResponse"; readonly value: { readonly service: { name: string }[] } }
  | {
      readonly case: "errorResponse";
      readonly value: { readonly errorCode: Code; readonly errorMessage: string };
    };

interface Response<R extends Request> {
  readonly validHost: string;
  readonly originalRequest: R;
  readonly messageResponse: Answer;
}

/** Both names of the reflection service: clients ask for the newer one first, or know the older one only. */
const REFLECTION: ReadonlySet<DescService> = new Set<DescService>([ServerReflection, AlphaReflection]);

/** Whether a service tells of the others, and so needs nothing but the program itself. */
export function isReflection(service: DescService): boolean {
  return REFLECTION.has(service);
}

/**
 * Adds the standard reflection service, under both of its names, for what the router serves so far and for itself.
 *
 * @param streams ends the open ones at the shutdown
 */
export function addReflection(router: ConnectRouter, streams: OpenStreams): void {
  const services = new Set([...router.handlers.map(({ service }) => service), ...REFLECTION]);
  const files = new ReflectionFiles([...services]);
  router.service(ServerReflection, {
    serverReflectionInfo: (requests, context) =>
      answers(untilShutdown(requests, streams, callerOf(context)), files),
  });
  router.service(AlphaReflection, {
    serverReflectionInfo: (requests, context) =>
      answers(untilShutdown(requests, streams, callerOf(context)), files),
  });
}

async function* answers<R extends Request>(
  requests: AsyncIterable<R>,
  files: ReflectionFiles,
): AsyncGenerator<Response<R>, void, undefined> {
  for await (const request of requests) {
    yield { validHost: request.host, originalRequest: request, messageResponse: answer(request, files) };
  }
}

function answer({ messageRequest: asked }: Request, files: ReflectionFiles): Answer {
  switch (asked.case) {
    case "listServices":
      return { case: "listServicesResponse", value: { service: files.services.map((name) => ({ name })) } };
    case "fileByFilename":
      return file(files.named(asked.value), `file ${shown(asked.value)}`);
    case "fileContainingSymbol":
      return file(files.declaring(asked.value), `symbol ${shown(asked.value)}`);
    case "fileContainingExtension": {
      const { containingType, extensionNumber } = asked.value;
      const found = files.extending(containingType, extensionNumber);
      return file(found, `extension ${String(extensionNumber)} of ${shown(containingType)}`);
    }
    case "allExtensionNumbersOfType": {
      const extensionNumber = files.extensionNumbers(asked.value);
      if (extensionNumber === undefined) return notFound(`message ${shown(asked.value)}`);
      return { case: "allExtensionNumbersResponse", value: { baseTypeName: asked.value, extensionNumber } };
    }
    case undefined:
      return {
        case: "errorResponse",
        value: {
          errorCode: Code.InvalidArgument,
          errorMessage:
            "message_request is missing; allowed are file_by_filename, file_containing_symbol, " +
            "file_containing_extension, all_extension_numbers_of_type, list_services",
        },
      };
  }
}

function file(fileDescriptorProto: Uint8Array[] | undefined, what: string): Answer {
  if (fileDescriptorProto === undefined) return notFound(what);
  return { case: "fileDescriptorResponse", value: { fileDescriptorProto } };
}

function notFound(what: string): Answer {
  return {
    case: "errorResponse",
    value: { errorCode: Code.NotFound, errorMessage: `there is no ${what}` },
  };
}

function shown(name: string): string {
  return quoted(name, 200);
}

/** What a client asks, until it has no more questions or the node shuts down. */
async function* untilShutdown<T>(
  requests: AsyncIterable<T>,
  streams: OpenStreams,
  caller: Caller,
): AsyncGenerator<T, void, undefined> {
  let isDown = false;
  let stopWaiting = (): void => {};
  const stream = {
    shutDown: () => {
      isDown = true;
      stopWaiting();
    },
  };
  streams.add(stream, caller);
  const reader = requests[Symbol.asyncIterator]();
  try {
    while (!isDown) {
      // A promise for each wait: one that outlasts them would keep all that a race with it has brought.
      const next = await new Promise<IteratorResult<T> | undefined>((resolve, reject) => {
        stopWaiting = () => resolve(undefined);
        reader.next().then(resolve, reject);
      });
      if (next === undefined || next.done === true) return;
      yield next.value;
    }
  } finally {
    streams.remove(stream);
  }
}
