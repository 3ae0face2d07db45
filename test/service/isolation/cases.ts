import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { AdminService, KeyScope } from "@trunkline/proto/admin";
import { CallService } from "@trunkline/proto/call";
import { Health } from "@trunkline/proto/health";
import { ServerReflection } from "@trunkline/proto/reflection";
import { ServerReflection as ServerReflectionV1Alpha } from "@trunkline/proto/reflection-v1alpha";
import { RunService } from "@trunkline/proto/run";
import { TaskService } from "@trunkline/proto/task";
import { ToolsetService } from "@trunkline/proto/toolset";
import { WorkerService } from "@trunkline/proto/worker";
import { casesOf, type Case } from "./case.js";
import { TOOLS } from "./stage.js";
import type { Target } from "./target.js";

const NOW = durationFromMs(0);
const outcome = { case: "resultJson" as const, value: '"made up"' };
const settlement = { outcome };
const byKey = ({ runId, key }: Target) => ({ call: { runId, key } });
const byId = ({ callId }: Target) => ({ call: { callId } });
const held = ({ callId, claimId }: Target) => ({ callId, claimId });
const sender = ({ sessionId, nonce }: Target) => ({ sessionId, nonce });
const hello = (target: Target, slots: number) => ({
  ...{ ...sender(target), worker: "w", tools: TOOLS, slots, claims: [held(target)] },
});
const SECRET = "s".repeat(43);

const WORKER = casesOf(WorkerService, {
  heartbeat: [
    {
      for: "worker",
      send: (target) => ({
        ...sender(target),
        claims: [held(target)],
        progress: [{ claimId: target.claimId, progressJson: "1" }],
      }),
      refused: ["NOT_FOUND"],
    },
  ],
  answerCalls: [
    {
      for: "worker",
      send: (target) => ({
        ...sender(target),
        claims: [held(target)],
        answers: [{ ...held(target), outcome }],
      }),
      refused: ["NOT_FOUND"],
    },
  ],
  deferCall: [
    {
      for: "worker",
      send: (target) => ({ ...sender(target), deferral: { ...held(target), secret: SECRET } }),
      refused: ["NOT_FOUND"],
    },
  ],
  releaseCalls: [
    {
      for: "worker",
      send: (target) => ({ ...sender(target), releases: [held(target)] }),
      refused: ["NOT_FOUND"],
    },
  ],
  claimCalls: [
    {
      for: "worker",
      send: (target) => ({ hello: hello(target, 10), wait: NOW }),
      refused: [],
      inTurn: true,
    },
  ],
  work: [
    {
      for: "worker",
      send: (target) => [
        { hello: hello(target, 10) },
        {
          accepted: [target.claimId],
          deferrals: [{ ...held(target), secret: SECRET }],
          answers: [{ ...held(target), outcome }],
          releases: [target.claimId],
          heartbeat: { claims: [target.claimId], progress: [{ claimId: target.claimId, progressJson: "1" }] },
        },
      ],
      refused: ["NOT_FOUND", "NOT_FOUND", "CLAIM_LOST"],
      inTurn: true,
    },
  ],
});

const CALL = casesOf(CallService, {
  drive: [
    {
      for: "harness",
      send: ({ runId, callId, key }) => [
        {
          opens: [
            { request: 1, runId, call: { tool: "asked", key } },
            { request: 2, runId, call: { tool: "asked" } },
          ],
          cancels: [{ request: 3, callId }],
          endRuns: [{ request: 4, runId }],
          watch: [callId],
          ping: 5,
        },
      ],
      refused: ["NOT_FOUND", "NOT_FOUND", "NOT_FOUND", "NOT_FOUND", "NOT_FOUND"],
    },
  ],
  openCalls: [
    {
      for: "harness",
      send: ({ runId, key }) => ({ runId, calls: [{ tool: "asked", key }, { tool: "asked" }] }),
      refused: ["NOT_FOUND"],
    },
  ],
  waitCalls: [
    {
      for: "harness",
      send: (target) => ({ calls: [byId(target).call], timeout: NOW }),
      refused: ["NOT_FOUND"],
    },
    {
      for: "harness",
      send: (target) => ({ calls: [byKey(target).call], timeout: NOW }),
      refused: ["NOT_FOUND"],
    },
    {
      for: "harness",
      send: ({ runId, key, callId }) => ({ calls: [{ runId, key }, { callId }], timeout: NOW }),
      refused: ["NOT_FOUND"],
    },
    { for: "harness", send: ({ runId }) => ({ runId, turn: 3, timeout: NOW }), refused: ["NOT_FOUND"] },
  ],
  getCall: [
    { for: "harness", send: byId, refused: ["NOT_FOUND"] },
    { for: "harness", send: byKey, refused: ["NOT_FOUND"] },
  ],
  listCalls: [
    { for: "harness", send: ({ runId }) => ({ runId, payloads: true }), refused: ["NOT_FOUND"] },
    { for: "harness", send: ({ namespace }) => ({ namespace, payloads: true }), refused: [] },
    { for: "harness", send: ({ label }) => ({ labels: { label } }), refused: [] },
    { for: "harness", send: () => ({ turn: 3, tool: "asked", payloads: true }), refused: [] },
    {
      for: "harness",
      send: ({ pages }) => ({ pageSize: 1, pageToken: pages.calls }),
      refused: ["INVALID_FIELD"],
    },
  ],
  cancelCall: [
    { for: "harness", send: byId, refused: ["NOT_FOUND"] },
    { for: "harness", send: byKey, refused: ["NOT_FOUND"] },
  ],
  settleCalls: [
    {
      for: "harness",
      send: (target) => ({ items: [byId(target), byKey(target)].map((call) => ({ ...call, settlement })) }),
      refused: ["NOT_FOUND", "NOT_FOUND"],
    },
    {
      for: "harness",
      send: (target) => ({ items: [{ ...byId(target), attempt: 1, settlement }] }),
      refused: ["NOT_FOUND"],
    },
  ],
  issueToken: [
    { for: "harness", send: byId, refused: ["NOT_FOUND"] },
    { for: "harness", send: byKey, refused: ["NOT_FOUND"] },
  ],
});

const TASK = casesOf(TaskService, {
  getTask: [{ for: "everybody", send: ({ task: token }) => ({ token }), refused: ["TOKEN_INVALID"] }],
  completeTask: [
    {
      for: "everybody",
      send: ({ task: token }) => ({ token, resultJson: '"made up"' }),
      refused: ["TOKEN_INVALID"],
    },
  ],
  failTask: [
    {
      for: "everybody",
      send: ({ task: token }) => ({ token, failure: { message: "made up" } }),
      refused: ["TOKEN_INVALID"],
    },
  ],
});

const RUN = casesOf(RunService, {
  getRun: [{ for: "harness", send: ({ runId }) => ({ runId }), refused: ["NOT_FOUND"] }],
  listRuns: [
    { for: "harness", send: ({ namespace }) => ({ namespace }), refused: [] },
    { for: "harness", send: ({ label }) => ({ labels: { label } }), refused: [] },
    {
      for: "harness",
      send: ({ pages }) => ({ pageSize: 1, pageToken: pages.runs }),
      refused: ["INVALID_FIELD"],
    },
  ],
  createRun: [
    {
      for: "harness",
      send: ({ toolset }) => ({ spec: { toolset } }),
      refused: ["NOT_FOUND"],
      notOfRun: true,
      ofProject: true,
    },
  ],
  endRun: [{ for: "harness", send: ({ runId }) => ({ runId }), refused: ["NOT_FOUND"] }],
  watchRun: [{ for: "harness", send: ({ runId }) => ({ runId }), refused: ["NOT_FOUND"], endless: true }],
});

const TOOLSET = casesOf(ToolsetService, {
  getToolset: [
    { for: "harness", send: ({ toolset: id }) => ({ id }), refused: ["NOT_FOUND"], ofProject: true },
    {
      for: "harness",
      send: ({ toolset: id }) => ({ id, version: 1 }),
      refused: ["NOT_FOUND"],
      ofProject: true,
    },
  ],
  listToolsets: [
    {
      for: "harness",
      send: ({ pages }) => ({ pageToken: pages.toolsets }),
      refused: ["INVALID_FIELD"],
      ofProject: true,
    },
  ],
  deleteToolset: [
    {
      for: "project's harness",
      send: ({ toolset: id }) => ({ id }),
      refused: ["NOT_FOUND"],
      ofProject: true,
    },
  ],
  putToolset: [
    {
      for: "project's harness",
      send: ({ toolset: id }) => ({ id, tools: [{ name: "theirs" }] }),
      refused: [],
      ofProject: true,
      makes: true,
    },
  ],
});

const scopes = [KeyScope.HARNESS];
const ADMIN = casesOf(AdminService, {
  listKeys: [
    { for: "admin", send: ({ project }) => ({ project }), refused: ["PERMISSION_DENIED"] },
    { for: "admin", send: ({ pages }) => ({ pageToken: pages.keys }), refused: ["INVALID_FIELD"] },
  ],
  createKey: [
    { for: "admin", send: ({ project }) => ({ name: "k", scopes, project }), refused: ["PERMISSION_DENIED"] },
  ],
  createToken: [
    {
      for: "key",
      send: ({ project, namespace, runId }) => ({ namespace, runId, scopes, project }),
      refused: ["PERMISSION_DENIED"],
    },
    { for: "key", send: ({ namespace, runId }) => ({ namespace, runId, scopes }), refused: [], makes: true },
  ],
  rotateKey: [
    { for: "admin", send: ({ keyId }) => ({ keyId }), refused: ["NOT_FOUND"] },
    { for: "admin", send: ({ keyId, project }) => ({ keyId, project }), refused: ["PERMISSION_DENIED"] },
  ],
  revokeKey: [
    { for: "admin", send: ({ keyId }) => ({ keyId }), refused: ["NOT_FOUND"] },
    { for: "admin", send: ({ keyId, project }) => ({ keyId, project }), refused: ["PERMISSION_DENIED"] },
  ],
  revokeToken: [
    { for: "admin", send: ({ tokenId }) => ({ tokenId }), refused: [], makes: true },
    { for: "admin", send: ({ tokenId, project }) => ({ tokenId, project }), refused: ["PERMISSION_DENIED"] },
  ],
  rotateSigningKey: [{ for: "admin", send: ({ project }) => ({ project }), refused: ["PERMISSION_DENIED"] }],
  createProject: [{ for: "root", send: ({ project: name }) => ({ name }), refused: ["PERMISSION_DENIED"] }],
  listProjects: [{ for: "root", send: () => ({}), refused: ["PERMISSION_DENIED"] }],
  listWorkers: [{ for: "admin", send: () => ({}), refused: ["UNIMPLEMENTED"] }],
  getStats: [{ for: "admin", send: () => ({}), refused: ["UNIMPLEMENTED"] }],
});

const HEALTH = casesOf(Health, {
  check: [{ for: "everybody", send: () => ({}), refused: [] }],
  watch: [{ for: "everybody", send: () => ({}), refused: [], endless: true }],
});
const list = { messageRequest: { case: "listServices" as const, value: "" } };
const REFLECTION = [
  ...casesOf(ServerReflection, {
    serverReflectionInfo: [{ for: "caller", send: () => [list], refused: [] }],
  }),
  ...casesOf(ServerReflectionV1Alpha, {
    serverReflectionInfo: [{ for: "caller", send: () => [list], refused: [] }],
  }),
];

/** Every RPC, in an order in which none stands in the way of the next. */
export const CASES: readonly Case[] = [
  ...[WORKER, CALL, TASK, RUN, TOOLSET, ADMIN, HEALTH, REFLECTION].flat(),
];
