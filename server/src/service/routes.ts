import type { DescMethod } from "@bufbuild/protobuf";
import type { ConnectRouter } from "@connectrpc/connect";
import { AdminService } from "@trunkline/proto/admin";
import { CallService } from "@trunkline/proto/call";
import { Health } from "@trunkline/proto/health";
import { RunService } from "@trunkline/proto/run";
import { TaskService } from "@trunkline/proto/task";
import { ToolsetService } from "@trunkline/proto/toolset";
import { WorkerService } from "@trunkline/proto/worker";
import { LIMITS } from "../core/limits.js";
import type { Access } from "../access/access.js";
import type { Caller } from "../core/caller.js";
import { adminService } from "./admin-service.js";
import { callerOf } from "./auth.js";
import { callService } from "./call-service.js";
import type { ServiceDeps } from "./deps.js";
import { DriveStream } from "./drive-stream.js";
import { Gate } from "./gate.js";
import { grpcStream } from "./grpc-stream.js";
import { healthService } from "./health-service.js";
import { serviceInterceptor } from "./interceptors.js";
import type { RequestHandler } from "./listener-handler.js";
import { addReflection } from "./reflection-service.js";
import { requestHandler } from "./request-handler.js";
import { RequestLoad } from "./request-load.js";
import { runService } from "./run-service.js";
import { settleRoute } from "./settle-route.js";
import { taskService } from "./task-service.js";
import { toolsetService } from "./toolset-service.js";
import { workerService } from "./worker-service.js";
import { WorkStream } from "./work-stream.js";

/** A page of 4 MiB and what frames it. */
const WRITE_BYTES = 2 * LIMITS.frameBytes;

/** All services of a node behind one request handler, for Connect, gRPC and gRPC-Web. */
export function serviceHandler(deps: ServiceDeps, access: Access, isServing: () => boolean): RequestHandler {
  const { availability } = deps.exchange;
  const gate = new Gate(access);
  const load = new RequestLoad();
  const limits = { readMaxBytes: LIMITS.frameBytes, writeMaxBytes: WRITE_BYTES };
  const admitTo =
    (method: DescMethod) =>
    async (authorization: string | null): Promise<Caller> => {
      const caller = await gate.admitCaller(method, authorization);
      availability.check();
      return caller;
    };
  const common = { onError: deps.onError, ...limits };
  const streams = [
    grpcStream({
      method: WorkerService.method.work,
      admit: admitTo(WorkerService.method.work),
      serve: (requests, caller, signal) => new WorkStream(deps, caller, signal).run(requests),
      ...common,
    }),
    grpcStream({
      method: CallService.method.drive,
      admit: admitTo(CallService.method.drive),
      serve: (requests, caller, signal) => new DriveStream(deps, caller, signal).run(requests),
      ...common,
    }),
  ];
  const routes = (router: ConnectRouter): void => {
    router.service(WorkerService, workerService(deps));
    router.service(CallService, {
      ...callService(deps),
      drive: (requests, context) => new DriveStream(deps, callerOf(context), context.signal).run(requests),
    });
    router.service(TaskService, taskService(deps));
    router.service(RunService, runService(deps));
    router.service(ToolsetService, toolsetService(deps));
    router.service(AdminService, adminService(deps, access));
    router.service(Health, healthService(isServing, deps.streams, availability));
    addReflection(router, deps.streams);
  };
  return requestHandler({
    routes,
    gate,
    streams,
    otherwise: settleRoute(deps, gate, load),
    interceptors: [serviceInterceptor(availability, deps.onError, load)],
    ...limits,
  });
}
