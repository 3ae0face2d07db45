import type { ConnectRouter } from "@connectrpc/connect";
import { AdminService } from "@trunkline/proto/admin";
import { CallService } from "@trunkline/proto/call";
import { Health } from "@trunkline/proto/health";
import { RunService } from "@trunkline/proto/run";
import { TaskService } from "@trunkline/proto/task";
import { ToolsetService } from "@trunkline/proto/toolset";
import { WorkerService } from "@trunkline/proto/worker";
import { LIMITS } from "../core/limits.js";
import type { Scope } from "../core/scope.js";
import { adminService } from "./admin-service.js";
import { Authenticator, scopeOf, type AuthOptions } from "./auth.js";
import { callService } from "./call-service.js";
import type { ServiceDeps } from "./deps.js";
import { DriveStream } from "./drive-stream.js";
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
export function serviceHandler(
  deps: ServiceDeps,
  auth: AuthOptions,
  isServing: () => boolean,
): RequestHandler {
  const { availability } = deps.exchange;
  const authenticator = new Authenticator(auth);
  const load = new RequestLoad();
  const limits = { readMaxBytes: LIMITS.frameBytes, writeMaxBytes: WRITE_BYTES };
  const admit = (authorization: string | null): Scope => {
    const scope = authenticator.authenticate(authorization);
    availability.check();
    return scope;
  };
  const common = { admit, onError: deps.onError, ...limits };
  const streams = [
    grpcStream({
      method: WorkerService.method.work,
      serve: (requests, scope, signal) => new WorkStream(deps, scope, signal).run(requests),
      ...common,
    }),
    grpcStream({
      method: CallService.method.drive,
      serve: (requests, scope, signal) => new DriveStream(deps, scope, signal).run(requests),
      ...common,
    }),
  ];
  const routes = (router: ConnectRouter): void => {
    router.service(WorkerService, workerService(deps));
    router.service(CallService, {
      ...callService(deps),
      drive: (requests, context) => new DriveStream(deps, scopeOf(context), context.signal).run(requests),
    });
    router.service(TaskService, taskService(deps));
    router.service(RunService, runService(deps));
    router.service(ToolsetService, toolsetService(deps));
    router.service(AdminService, adminService());
    router.service(Health, healthService(isServing, deps.streams, availability));
    addReflection(router, deps.streams);
  };
  return requestHandler({
    routes,
    streams,
    otherwise: settleRoute(deps, authenticator, load),
    interceptors: [serviceInterceptor(authenticator, availability, deps.onError, load)],
    ...limits,
  });
}
