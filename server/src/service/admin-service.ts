import type { ServiceImpl } from "@connectrpc/connect";
import type {
  AdminService,
  CreateKeyRequest,
  CreateKeyResponse,
  CreateTokenRequest,
  CreateTokenResponse,
  ListKeysRequest,
  ListKeysResponse,
  ListProjectsRequest,
  ListProjectsResponse,
  RotateKeyRequest,
  RotateKeyResponse,
} from "@trunkline/proto/admin";
import type { Access } from "../access/access.js";
import { issueToken, makeKey, replaceSecret, replaceSigningKey } from "../access/issue.js";
import { isKeyId } from "../access/secrets.js";
import type { Caller } from "../core/caller.js";
import { TrunklineError } from "../core/error.js";
import { quoted } from "../core/json-text.js";
import { LIMITS } from "../core/limits.js";
import { checkName, isUuid } from "../core/name.js";
import { listKeys as readKeys, revokeKey } from "../store/access.js";
import { createProject, findProject, listProjects as readProjects } from "../store/projects.js";
import { revokeToken } from "../store/tokens.js";
import { callerOf } from "./auth.js";
import { toKeyMessage, toProjectMessage, toRights } from "./convert-access.js";
import { fromDuration, toTimestamp } from "./convert.js";
import type { ServiceDeps } from "./deps.js";
import { invalidField } from "./door-field.js";
import { fromPageToken, listName, pageItems, readName, toPageToken } from "./page-token.js";

const MICROS_PER_MS = 1_000;
const DEFAULT_TTL_MS = 60 * 60 * 1_000;
const MAX_GRACE_MS = 30 * 24 * 60 * 60 * 1_000;

/** AdminService: keys, tokens and projects. */
export function adminService(deps: ServiceDeps, access: Access): ServiceImpl<typeof AdminService> {
  const { db } = deps.exchange;
  const notYet = (): never => {
    throw new TrunklineError("UNIMPLEMENTED", "this part of AdminService is not built yet");
  };
  return {
    createKey: (request, context) => createKey(deps, access, callerOf(context), request),
    listKeys: (request, context) => listKeys(deps, callerOf(context), request),
    revokeKey: async ({ keyId, project }, context) => {
      const projectId = await projectOf(deps, callerOf(context), project);
      const key = isKeyId(keyId) ? await revokeKey(db, projectId, keyId) : null;
      if (key === null) throw noKey(keyId);
      await access.book.read();
      return { key: toKeyMessage(key) };
    },
    rotateKey: (request, context) => rotateKey(deps, access, callerOf(context), request),
    createToken: (request, context) => createToken(deps, access, callerOf(context), request),
    revokeToken: async ({ tokenId, project }, context) => {
      checkName(tokenId, "token_id");
      const projectId = await projectOf(deps, callerOf(context), project);
      await revokeToken(db, projectId, tokenId, LIMITS.durationMs);
      await access.book.read();
      return {};
    },
    rotateSigningKey: async ({ project, grace }, context) => {
      const projectId = await projectOf(deps, callerOf(context), project);
      await replaceSigningKey(db, access.book, projectId, graceMs(grace));
      return {};
    },
    createProject: async ({ name }) => {
      checkName(name, "name");
      const project = await createProject(db, name);
      if (project === null) throw new TrunklineError("INTERNAL", "the project was not stored");
      return { project: toProjectMessage(project) };
    },
    listProjects: (request) => listProjects(deps, request),
    listWorkers: notYet,
    getStats: notYet,
  };
}

async function createKey(
  { exchange }: ServiceDeps,
  access: Access,
  caller: Caller,
  { name, scopes, project }: CreateKeyRequest,
): Promise<CreateKeyResponse> {
  checkName(name, "name");
  const rights = toRights(scopes, "scopes");
  const projectId = await projectOf({ exchange }, caller, project);
  const { key, text } = await makeKey(exchange.db, access.book, { projectId, name, rights });
  return { $typeName: "trunkline.v1.CreateKeyResponse", key: toKeyMessage(key), secret: text };
}

async function listKeys(
  { exchange }: ServiceDeps,
  caller: Caller,
  { pageSize, pageToken, project }: ListKeysRequest,
): Promise<ListKeysResponse> {
  const limit = pageItems(pageSize);
  const projectId = await projectOf({ exchange }, caller, project);
  const list = listName("keys", [projectId]);
  const after = fromPageToken(list, pageToken, readName) ?? "";
  const keys = await readKeys(exchange.db, projectId, after, limit + 1);
  const page = keys.slice(0, limit);
  return {
    $typeName: "trunkline.v1.ListKeysResponse",
    keys: page.map(toKeyMessage),
    nextPageToken: keys.length > limit ? toPageToken(list, page.at(-1)?.id) : "",
  };
}

async function rotateKey(
  { exchange }: ServiceDeps,
  access: Access,
  caller: Caller,
  { keyId, project, grace }: RotateKeyRequest,
): Promise<RotateKeyResponse> {
  const projectId = await projectOf({ exchange }, caller, project);
  const ofKey = { projectId, id: keyId };
  const made = isKeyId(keyId) ? await replaceSecret(exchange.db, access.book, ofKey, graceMs(grace)) : null;
  if (made === null) throw noKey(keyId);
  return { $typeName: "trunkline.v1.RotateKeyResponse", key: toKeyMessage(made.key), secret: made.text };
}

async function createToken(
  { exchange }: ServiceDeps,
  access: Access,
  caller: Caller,
  { namespace, scopes, runId, ttl, project }: CreateTokenRequest,
): Promise<CreateTokenResponse> {
  checkName(namespace, "namespace");
  const rights = toRights(scopes, "scopes");
  if (rights.includes("admin")) throw invalidField("scopes", "admin", "are worker and harness");
  if (runId !== "" && !isUuid(runId)) throw invalidField("run_id", runId, "is a run's id, or nothing");
  for (const right of rights) {
    if (caller.rights.has(right) || caller.rights.has("admin")) continue;
    throw new TrunklineError(
      "PERMISSION_DENIED",
      `scopes has ${right}, which this key has not: it may grant ${[...caller.rights].join(", ")}`,
      { metadata: { field: "scopes" } },
    );
  }
  const ttlMs = ttl === undefined ? DEFAULT_TTL_MS : fromDuration(ttl, "ttl");
  const projectId = await projectOf({ exchange }, caller, project);
  const { token, id, expiresAt } = await issueToken(exchange.db, access, {
    projectId,
    namespace,
    runId: runId === "" ? null : runId,
    rights,
    ttlMs,
  });
  return {
    $typeName: "trunkline.v1.CreateTokenResponse",
    token,
    expiresAt: toTimestamp(expiresAt * MICROS_PER_MS),
    tokenId: id,
  };
}

async function listProjects(
  { exchange }: ServiceDeps,
  { pageSize, pageToken }: ListProjectsRequest,
): Promise<ListProjectsResponse> {
  const limit = pageItems(pageSize);
  const list = listName("projects", []);
  const projects = await readProjects(exchange.db, fromPageToken(list, pageToken, readName) ?? "", limit + 1);
  const page = projects.slice(0, limit);
  return {
    $typeName: "trunkline.v1.ListProjectsResponse",
    projects: page.map(toProjectMessage),
    nextPageToken: projects.length > limit ? toPageToken(list, page.at(-1)?.name) : "",
  };
}

/**
 * The project that a request is about: the caller's own, or with the root key any.
 *
 * @throws TrunklineError PERMISSION_DENIED, NOT_FOUND
 */
async function projectOf(
  { exchange }: Pick<ServiceDeps, "exchange">,
  { kind, scope }: Caller,
  name: string,
): Promise<number> {
  if (name === "") return scope.projectId;
  if (kind !== "root" && kind !== "anyone") {
    throw new TrunklineError(
      "PERMISSION_DENIED",
      "project is set; a key is for its own project, and only the root key may name one",
      { metadata: { field: "project" } },
    );
  }
  checkName(name, "project");
  const project = await findProject(exchange.db, name);
  if (project !== null) return project.id;
  throw new TrunklineError("NOT_FOUND", `there is no project ${quoted(name)}`, {
    metadata: { field: "project" },
  });
}

function graceMs(grace: CreateTokenRequest["ttl"]): number {
  return grace === undefined ? 0 : fromDuration(grace, "grace", { minMs: 0, maxMs: MAX_GRACE_MS });
}

function noKey(id: string): TrunklineError {
  return new TrunklineError("NOT_FOUND", `there is no key ${quoted(id)} that is good`, {
    metadata: { field: "key_id" },
  });
}
