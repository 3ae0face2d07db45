import { readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { DescService } from "@bufbuild/protobuf";
import { createClient, type Interceptor, type Transport } from "@connectrpc/connect";
import {
  createConnectTransport,
  createGrpcTransport,
  createGrpcWebTransport,
  type compressionGzip,
} from "@connectrpc/connect-node";
import { AdminService } from "@trunkline/proto/admin";
import { CallService } from "@trunkline/proto/call";
import { Health } from "@trunkline/proto/health";
import { RunService } from "@trunkline/proto/run";
import { TaskService } from "@trunkline/proto/task";
import { ToolsetService } from "@trunkline/proto/toolset";
import { WorkerService } from "@trunkline/proto/worker";
import type { MakeTransport } from "./raw-stream.js";

type Compression = typeof compressionGzip;

/** Whom a transport of any protocol speaks with, and how. */
export interface TransportOptions {
  readonly baseUrl: string;
  readonly interceptors?: Interceptor[];
  readonly sendCompression?: Compression;
}

/** The protocols that a client may speak. */
export const PROTOCOLS: Readonly<Record<string, (options: TransportOptions) => Transport>> = {
  "Connect with JSON": (options) =>
    createConnectTransport({ ...options, httpVersion: "1.1", useBinaryFormat: false }),
  "Connect in binary": (options) => createConnectTransport({ ...options, httpVersion: "2" }),
  gRPC: (options) => createGrpcTransport(options),
  "gRPC-Web": (options) => createGrpcWebTransport({ ...options, httpVersion: "1.1" }),
};

/** The same, over HTTP/2: only that carries streams in both directions. */
export const STREAM_PROTOCOLS: Readonly<Record<string, MakeTransport>> = {
  "Connect with JSON": (options) =>
    createConnectTransport({ ...options, httpVersion: "2", useBinaryFormat: false }),
  "Connect in binary": (options) => createConnectTransport({ ...options, httpVersion: "2" }),
  gRPC: (options) => createGrpcTransport(options),
  "gRPC-Web": (options) => createGrpcWebTransport({ ...options, httpVersion: "2" }),
};

/** Clients of all services with unary RPCs, by one transport. */
export function clientsOf(transport: Transport) {
  return {
    admin: createClient(AdminService, transport),
    calls: createClient(CallService, transport),
    health: createClient(Health, transport),
    runs: createClient(RunService, transport),
    tasks: createClient(TaskService, transport),
    toolsets: createClient(ToolsetService, transport),
    worker: createClient(WorkerService, transport),
  };
}

export type Clients = ReturnType<typeof clientsOf>;

/** All services that there are schemas of. */
export async function allServices(): Promise<DescService[]> {
  const folder = fileURLToPath(new URL("../../gen/src/", import.meta.url));
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((file) =>
    file.endsWith("_pb.ts"),
  );
  const services: DescService[] = [];
  for (const file of files) {
    const exported: Record<string, unknown> = await import(folder + file);
    services.push(...Object.values(exported).filter(isService));
  }
  return services;
}

function isService(value: unknown): value is DescService {
  return typeof value === "object" && value !== null && "kind" in value && value.kind === "service";
}
