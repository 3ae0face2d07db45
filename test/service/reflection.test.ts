import { create, createFileRegistry, fromBinary, type FileRegistry } from "@bufbuild/protobuf";
import {
  FieldDescriptorProto_Type as Type,
  FileDescriptorProtoSchema,
  FileDescriptorSetSchema,
  type FileDescriptorProto,
} from "@bufbuild/protobuf/wkt";
import { Code, createClient, type Interceptor } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport } from "@connectrpc/connect-node";
import { CallService } from "@trunkline/proto/call";
import { Health } from "@trunkline/proto/health";
import { ServerReflection, type ServerReflectionRequest } from "@trunkline/proto/reflection";
import { ServerReflection as AlphaReflection } from "@trunkline/proto/reflection-v1alpha";
import { describe, expect, test } from "vitest";
import { ReflectionFiles } from "../../server/src/service/reflection-files.js";
import { within } from "../support/until.js";
import { useNode } from "./node.js";

const it = useNode();

type Asked = Exclude<ServerReflectionRequest["messageRequest"], { case: undefined }>;

const SERVICES = [
  "grpc.health.v1.Health",
  "grpc.reflection.v1.ServerReflection",
  "grpc.reflection.v1alpha.ServerReflection",
  "trunkline.v1.AdminService",
  "trunkline.v1.CallService",
  "trunkline.v1.RunService",
  "trunkline.v1.TaskService",
  "trunkline.v1.ToolsetService",
  "trunkline.v1.WorkerService",
];

const VERSIONS = { v1: ServerReflection, v1alpha: AlphaReflection };

/** Asks on one stream, and closes it. */
async function ask(requests: readonly (Asked | undefined)[], version: keyof typeof VERSIONS = "v1") {
  const client = createClient(VERSIONS[version], createGrpcTransport({ baseUrl: it.node.url }));
  async function* frames() {
    for (const messageRequest of requests) yield { host: "here", ...(messageRequest && { messageRequest }) };
  }
  const answers = [];
  for await (const { messageResponse, validHost, originalRequest } of client.serverReflectionInfo(frames())) {
    expect(validHost).toBe("here");
    expect(originalRequest?.messageRequest.case).toBe(requests[answers.length]?.case);
    answers.push(messageResponse);
  }
  return answers;
}

async function askOne(asked: Asked | undefined, version?: keyof typeof VERSIONS) {
  const [answer] = await ask([asked], version);
  return answer ?? expect.fail("there was no answer");
}

/** The files that come with an answer, in their order. */
async function filesFor(asked: Asked, version?: keyof typeof VERSIONS): Promise<FileDescriptorProto[]> {
  const answer = await askOne(asked, version);
  if (answer.case !== "fileDescriptorResponse") return expect.fail(`the answer is ${String(answer.case)}`);
  return answer.value.fileDescriptorProto.map((bytes) => fromBinary(FileDescriptorProtoSchema, bytes));
}

/** What a client makes of an answer alone; fails when an import is missing, or comes before what needs it. */
function registryOf(files: readonly FileDescriptorProto[]): FileRegistry {
  return createFileRegistry(create(FileDescriptorSetSchema, { file: files.toReversed() }));
}

describe.each(["v1", "v1alpha"] as const)("reflection %s", (version) => {
  test("lists every service of the server, itself too", async () => {
    const answer = await askOne({ case: "listServices", value: "*" }, version);
    const names = answer.case === "listServicesResponse" ? answer.value.service.map(({ name }) => name) : [];
    expect(names).toEqual(SERVICES);
  });

  test("gives for each service the file that declares it, with all that it imports", async () => {
    for (const service of SERVICES) {
      const files = await filesFor({ case: "fileContainingSymbol", value: service }, version);
      const names = files.map(({ name }) => name);
      expect(new Set(names).size).toBe(names.length);
      for (const { dependency } of files) expect(names).toEqual(expect.arrayContaining(dependency));
      expect(files[0]?.service.map(({ name }) => `${files[0]?.package ?? ""}.${name}`)).toContain(service);
    }
  });
});

describe("reflection", () => {
  test("gives what a client needs to speak with a service, and nothing else", async () => {
    const files = await filesFor({ case: "fileContainingSymbol", value: CallService.typeName });
    expect(files.map(({ name }) => name).sort()).toEqual([
      "google/protobuf/duration.proto",
      "google/protobuf/timestamp.proto",
      "trunkline/v1/call.proto",
      "trunkline/v1/model.proto",
      "trunkline/v1/problem.proto",
      "trunkline/v1/run.proto",
      "trunkline/v1/worker.proto",
    ]);
    const call = registryOf(files).getService(CallService.typeName);
    expect(call?.methods.map(({ name }) => name)).toEqual(CallService.methods.map(({ name }) => name));
  });

  test.each([
    ["trunkline.v1.CallService.Drive", "trunkline/v1/call.proto"],
    ["trunkline.v1.Claim", "trunkline/v1/worker.proto"],
    ["trunkline.v1.Claim.input_json", "trunkline/v1/worker.proto"],
    ["trunkline.v1.Claim.LabelsEntry", "trunkline/v1/worker.proto"],
    ["trunkline.v1.Answer.outcome", "trunkline/v1/worker.proto"],
    ["trunkline.v1.ClaimVerdict.Standing", "trunkline/v1/worker.proto"],
    ["trunkline.v1.ClaimVerdict.STANDING_KEPT", "trunkline/v1/worker.proto"],
    ["trunkline.v1.CALL_STATE_QUEUED", "trunkline/v1/model.proto"],
    ["google.protobuf.Duration", "google/protobuf/duration.proto"],
    ["grpc.health.v1.HealthCheckResponse.SERVING", "grpc/health/v1/health.proto"],
  ])("knows where %s is declared", async (symbol, name) => {
    const [file] = await filesFor({ case: "fileContainingSymbol", value: symbol });
    expect(file?.name).toBe(name);
  });

  test("gives a file by its name, those of Protobuf too", async () => {
    const [file, ...more] = await filesFor({
      case: "fileByFilename",
      value: "google/protobuf/timestamp.proto",
    });
    expect([file?.package, more]).toEqual(["google.protobuf", []]);
  });

  test.each([
    ["fileByFilename", "trunkline/v1/nothing.proto", 'there is no file "trunkline/v1/nothing.proto"'],
    ["fileByFilename", "../trunkline/v1/call.proto", 'there is no file "../trunkline/v1/call.proto"'],
    ["fileContainingSymbol", "trunkline.v1.Nothing", 'there is no symbol "trunkline.v1.Nothing"'],
    ["fileContainingSymbol", "trunkline.v1", 'there is no symbol "trunkline.v1"'],
    ["fileContainingSymbol", "", 'there is no symbol ""'],
    ["allExtensionNumbersOfType", "trunkline.v1.Nothing", 'there is no message "trunkline.v1.Nothing"'],
    ["allExtensionNumbersOfType", "trunkline.v1.CallState", 'there is no message "trunkline.v1.CallState"'],
  ] as const)("answers %s %j with NOT_FOUND", async (kind, value, errorMessage) => {
    expect(await askOne({ case: kind, value })).toMatchObject({
      case: "errorResponse",
      value: { errorCode: Code.NotFound, errorMessage },
    });
  });

  test("says of a message that nobody extends it, and of an extension that it is not there", async () => {
    const [numbers, extension] = await ask([
      { case: "allExtensionNumbersOfType", value: "trunkline.v1.Claim" },
      {
        case: "fileContainingExtension",
        value: {
          $typeName: "grpc.reflection.v1.ExtensionRequest",
          containingType: "trunkline.v1.Claim",
          extensionNumber: 1000,
        },
      },
    ]);
    expect(numbers).toMatchObject({
      case: "allExtensionNumbersResponse",
      value: { baseTypeName: "trunkline.v1.Claim", extensionNumber: [] },
    });
    expect(extension).toMatchObject({
      case: "errorResponse",
      value: { errorCode: Code.NotFound, errorMessage: 'there is no extension 1000 of "trunkline.v1.Claim"' },
    });
  });

  test("goes on after a request that it cannot answer (I11)", async () => {
    const [nothing, wrong, right] = await ask([
      undefined,
      { case: "fileContainingSymbol", value: "x" },
      { case: "listServices", value: "" },
    ]);
    expect(nothing).toMatchObject({ case: "errorResponse", value: { errorCode: Code.InvalidArgument } });
    expect(wrong).toMatchObject({ case: "errorResponse", value: { errorCode: Code.NotFound } });
    expect(right?.case).toBe("listServicesResponse");
  });

  test("over HTTP/1.1 is refused at once with a word about HTTP/2 (S04)", async () => {
    const path = `/${ServerReflection.typeName}/ServerReflectionInfo`;
    const response = await fetch(it.node.url + path, { method: "POST", body: "" });
    expect(response.status).toBe(505);
    expect(await response.text()).toContain("it needs HTTP/2");
  });
});

test("extensions are found by the message that they extend, and by their numbers", () => {
  const set = create(FileDescriptorSetSchema, {
    file: [
      {
        name: "a.proto",
        package: "a",
        messageType: [{ name: "M", extensionRange: [{ start: 100, end: 200 }] }],
        service: [{ name: "S", method: [] }],
        dependency: ["b.proto"],
      },
      {
        name: "b.proto",
        package: "b",
        messageType: [{ name: "N", extensionRange: [{ start: 5, end: 6 }] }],
        extension: [{ name: "more", number: 5, label: 1, type: Type.STRING, extendee: ".b.N" }],
      },
    ].reverse(),
  });
  const service = createFileRegistry(set).getService("a.S") ?? expect.fail("there is no service");
  const files = new ReflectionFiles([service]);
  expect(files.extensionNumbers("b.N")).toEqual([5]);
  expect(files.extensionNumbers("a.M")).toEqual([]);
  expect(files.extending("b.N", 5)).toEqual(files.named("b.proto"));
  expect(files.declaring("b.more")).toEqual(files.named("b.proto"));
  expect(files.named("a.proto")).toHaveLength(2);
});

describe("reflection of a server with a key", () => {
  const KEY = "tl_root_0123456789";
  const keyed = useNode({ rootKey: KEY });

  /** How many services it lists for who shows this key. */
  async function listed(key: string | undefined): Promise<number> {
    const withKey: Interceptor = (next) => (request) => {
      if (key !== undefined) request.header.set("authorization", `Bearer ${key}`);
      return next(request);
    };
    const transport = createGrpcTransport({ baseUrl: keyed.node.url, interceptors: [withKey] });
    const client = createClient(ServerReflection, transport);
    async function* frames() {
      yield { messageRequest: { case: "listServices", value: "" } as const };
    }
    for await (const { messageResponse } of client.serverReflectionInfo(frames())) {
      if (messageResponse.case === "listServicesResponse") return messageResponse.value.service.length;
    }
    return 0;
  }

  test("needs it, which health does not", async () => {
    expect(await listed(KEY)).toBe(SERVICES.length);
    for (const key of [undefined, "wrong"]) {
      await expect(listed(key)).rejects.toMatchObject({ code: Code.Unauthenticated });
    }
    const transport = createConnectTransport({ baseUrl: keyed.node.url, httpVersion: "1.1" });
    expect(await createClient(Health, transport).check({})).toBeDefined();
  });
});

test("an open reflection stream does not hold up the shutdown", async () => {
  const client = createClient(ServerReflection, createGrpcTransport({ baseUrl: it.node.url }));
  const leaving = new AbortController();
  async function* frames() {
    yield { messageRequest: { case: "listServices", value: "" } as const };
    await new Promise((resolve) => leaving.signal.addEventListener("abort", resolve));
  }
  const answers = client.serverReflectionInfo(frames())[Symbol.asyncIterator]();
  expect((await answers.next()).done).toBe(false);
  it.node.deps.streams.shutDown(10_000);
  expect((await within("the end of the stream", answers.next(), 5_000)).done).toBe(true);
  leaving.abort();
  expect(it.node.faults).toEqual([]);
});
