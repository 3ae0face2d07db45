import { createClient, type Client, type Interceptor } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport } from "@connectrpc/connect-node";
import { AdminService } from "@trunkline/proto/admin";
import { CallService } from "@trunkline/proto/call";
import { RunService } from "@trunkline/proto/run";
import { PollClient } from "./poll-client.js";
import { DriveClient, WorkClient } from "./raw-stream.js";

type HelloInit = Parameters<typeof WorkClient.open>[1];

/** All that a client does under one credential. */
export interface Bearer {
  readonly admin: Client<typeof AdminService>;
  readonly calls: Client<typeof CallService>;
  readonly runs: Client<typeof RunService>;
  /** A `Work` stream that was welcomed. */
  work(hello?: HelloInit): Promise<WorkClient>;
  /** A worker that polls. */
  polls(hello?: HelloInit): PollClient;
  drive(): DriveClient;
}

/** Says something on a stream again and again until it is over, as one that lives. */
export function lively<S extends { readonly over: Promise<unknown> }>(
  stream: S,
  say: (stream: S) => void,
): S {
  const timer = setInterval(() => say(stream), 50);
  void stream.over.then(() => clearInterval(timer));
  return stream;
}

/** A heartbeat that names all that the stream has brought. */
export function beat(stream: WorkClient): void {
  stream.send({ heartbeat: { claims: stream.claims.map(({ claimId }) => claimId) } });
}

/** A sign of life of a harness. */
export function ping(stream: DriveClient): void {
  stream.send({ ping: 1 });
}

/** Clients of a node that show a credential. */
export function bearer(url: string, credential: string): Bearer {
  const show: Interceptor = (next) => (request) => {
    request.header.set("authorization", `Bearer ${credential}`);
    return next(request);
  };
  const transport = createConnectTransport({ baseUrl: url, httpVersion: "1.1", interceptors: [show] });
  const streams: NonNullable<Parameters<typeof WorkClient.open>[2]> = (options) =>
    createGrpcTransport({ ...options, interceptors: [show] });
  return {
    admin: createClient(AdminService, transport),
    calls: createClient(CallService, transport),
    runs: createClient(RunService, transport),
    work: (hello) => WorkClient.open(url, hello, streams),
    polls: (hello) => new PollClient(url, hello, transport),
    drive: () => new DriveClient(url, streams),
  };
}
