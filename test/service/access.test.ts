import { createClient, type Interceptor } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport } from "@connectrpc/connect-node";
import { AdminService, KeyScope } from "@trunkline/proto/admin";
import { CallService } from "@trunkline/proto/call";
import { RunService } from "@trunkline/proto/run";
import { ToolsetService } from "@trunkline/proto/toolset";
import { WorkerService } from "@trunkline/proto/worker";
import { expect, test } from "vitest";
import { useNode } from "./node.js";
import { reasonOf, refusalOf } from "./serving.js";

const ROOT = "root-key-of-the-test";
const serving = useNode({ rootKey: ROOT });

const { WORKER, HARNESS, ADMIN } = KeyScope;

/** Clients that show a credential, or none. */
function clients(credential: string | null, protocol: "connect" | "grpc" = "connect") {
  const show: Interceptor = (next) => (request) => {
    if (credential !== null) request.header.set("authorization", `Bearer ${credential}`);
    return next(request);
  };
  const common = { baseUrl: serving.node.url, interceptors: [show] };
  const transport =
    protocol === "grpc"
      ? createGrpcTransport(common)
      : createConnectTransport({ ...common, httpVersion: "1.1" });
  return {
    admin: createClient(AdminService, transport),
    calls: createClient(CallService, transport),
    runs: createClient(RunService, transport),
    toolsets: createClient(ToolsetService, transport),
    workers: createClient(WorkerService, transport),
  };
}

const root = () => clients(ROOT).admin;
const reason = async (request: Promise<unknown>) => reasonOf((await refusalOf(request)).problem);

test("a key does what its scopes say, and nothing else", async () => {
  const { secret, key } = await root().createKey({ name: "a harness", scopes: [HARNESS] });
  const harness = clients(secret);
  await harness.runs.createRun({ spec: {} });
  expect(await reason(harness.admin.listKeys({}))).toBe("PERMISSION_DENIED");
  expect(await reason(harness.workers.claimCalls({}))).toBe("PERMISSION_DENIED");
  expect(await reason(harness.admin.createProject({ name: "other" }))).toBe("PERMISSION_DENIED");
  expect(key).toMatchObject({ name: "a harness", scopes: [HARNESS] });
});

test.each(["connect", "grpc"] as const)(
  "a key that is not known is refused, as is a request without one (%s)",
  async (protocol) => {
    const { secret } = await root().createKey({ name: "one", scopes: [HARNESS] });
    const other = secret.slice(0, -1) + (secret.endsWith("A") ? "B" : "A");
    for (const credential of [null, "nothing", other, `${secret}x`]) {
      expect(await reason(clients(credential, protocol).runs.listRuns({}))).toBe("UNAUTHENTICATED");
    }
    await clients(secret, protocol).runs.listRuns({});
  },
);

test("a project's key neither sees nor changes what is another's (I7)", async () => {
  await root().createProject({ name: "acme" });
  const { secret } = await root().createKey({ name: "acme's", scopes: [HARNESS], project: "acme" });
  const acme = clients(secret);
  const { run } = await acme.runs.createRun({ spec: { key: "same" } });
  const { run: ours } = await clients(ROOT).runs.createRun({ spec: { key: "same" } });
  expect(ours!.id).not.toBe(run!.id);
  expect(await reason(clients(ROOT).runs.getRun({ runId: run!.id }))).toBe("NOT_FOUND");
  expect((await acme.runs.listRuns({})).runs.map(({ id }) => id)).toEqual([run!.id]);
});

test("a revoked key is refused, and a rotated one is good for as long as was asked", async () => {
  const { key, secret } = await root().createKey({ name: "two", scopes: [HARNESS, ADMIN] });
  const rotated = await root().rotateKey({ keyId: key!.id, grace: { seconds: 60n } });
  await clients(secret).runs.listRuns({});
  await clients(rotated.secret).runs.listRuns({});
  const again = await root().rotateKey({ keyId: key!.id });
  expect(await reason(clients(secret).runs.listRuns({}))).toBe("UNAUTHENTICATED");
  expect(await reason(clients(rotated.secret).runs.listRuns({}))).toBe("UNAUTHENTICATED");
  await clients(again.secret).runs.listRuns({});
  await root().revokeKey({ keyId: key!.id });
  expect(await reason(clients(again.secret).runs.listRuns({}))).toBe("UNAUTHENTICATED");
});

test("an end user's token reaches that end user's runs alone, until it expires or is revoked (I7)", async () => {
  const { token, tokenId } = await root().createToken({ namespace: "ada", scopes: [HARNESS] });
  const ada = clients(token);
  const { run } = await ada.runs.createRun({ spec: {} });
  expect(run!.namespace).toBe("ada");
  const { run: bobs } = await clients(ROOT).runs.createRun({ spec: { namespace: "bob" } });
  expect(await reason(ada.runs.getRun({ runId: bobs!.id }))).toBe("NOT_FOUND");
  expect(await reason(ada.toolsets.deleteToolset({ id: "crm" }))).toBe("PERMISSION_DENIED");
  expect(await reason(ada.admin.createToken({ namespace: "bob", scopes: [HARNESS] }))).toBe(
    "PERMISSION_DENIED",
  );
  await root().revokeToken({ tokenId });
  expect(await reason(ada.runs.listRuns({}))).toBe("UNAUTHENTICATED");
});

test("a token of one run sees that run alone", async () => {
  const { run } = await clients(ROOT).runs.createRun({ spec: { namespace: "eve" } });
  const { run: second } = await clients(ROOT).runs.createRun({ spec: { namespace: "eve" } });
  const { token } = await root().createToken({ namespace: "eve", scopes: [HARNESS], runId: run!.id });
  const eve = clients(token);
  expect((await eve.runs.listRuns({})).runs.map(({ id }) => id)).toEqual([run!.id]);
  expect(await reason(eve.runs.getRun({ runId: second!.id }))).toBe("NOT_FOUND");
  expect(await reason(eve.runs.createRun({ spec: {} }))).toBe("PERMISSION_DENIED");
});

test("tokens of a replaced signing key are refused", async () => {
  const { token } = await root().createToken({ namespace: "ada", scopes: [HARNESS] });
  await clients(token).runs.listRuns({});
  await root().rotateSigningKey({});
  expect(await reason(clients(token).runs.listRuns({}))).toBe("UNAUTHENTICATED");
  const { token: next } = await root().createToken({ namespace: "ada", scopes: [WORKER, HARNESS] });
  await clients(next).runs.listRuns({});
});

test("a stream ends when its credential is revoked", async () => {
  const { key, secret } = await root().createKey({ name: "stream", scopes: [HARNESS] });
  const stream = clients(secret, "grpc").calls.drive(
    (async function* () {
      await new Promise(() => undefined);
      yield {};
    })(),
  );
  const frames = stream[Symbol.asyncIterator]();
  expect((await frames.next()).value?.welcome).toBeDefined();
  const next = frames.next();
  await root().revokeKey({ keyId: key!.id });
  expect(await reason(next)).toBe("UNAUTHENTICATED");
});
