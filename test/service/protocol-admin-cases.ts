import { randomUUID } from "node:crypto";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { Code } from "@connectrpc/connect";
import { KeyScope } from "@trunkline/proto/admin";
import { expect } from "vitest";
import type { UnaryCase } from "./protocol-case.js";
import type { Clients } from "./protocol-clients.js";

const unbuilt = (refuses: UnaryCase["refuses"]): UnaryCase => ({
  refuses,
  reason: "UNIMPLEMENTED",
  code: Code.Unimplemented,
});

async function newKey(by: Clients) {
  const { key, secret } = await by.admin.createKey({ name: "ключ", scopes: [KeyScope.WORKER] });
  return { keyId: key?.id ?? expect.fail("no key was made"), key, secret };
}

/** AdminService, RPC by RPC. */
export const ADMIN_CASES: Record<string, UnaryCase> = {
  CreateKey: {
    answers: async (by) => {
      const { key, secret } = await newKey(by);
      expect(key).toMatchObject({ name: "ключ", scopes: [KeyScope.WORKER] });
      expect(secret.length).toBeGreaterThan(20);
    },
    refuses: (by) => by.admin.createKey({ name: "", scopes: [KeyScope.WORKER] }),
    reason: "INVALID_FIELD",
    code: Code.InvalidArgument,
  },
  ListKeys: {
    answers: async (by) => {
      await newKey(by);
      expect((await by.admin.listKeys({ pageSize: 1 })).keys).toHaveLength(1);
    },
    refuses: (by) => by.admin.listKeys({ project: "nobody's" }),
    reason: "NOT_FOUND",
    code: Code.NotFound,
  },
  RevokeKey: {
    answers: async (by) => {
      const { keyId } = await newKey(by);
      expect((await by.admin.revokeKey({ keyId })).key?.revokedAt?.seconds).toBeGreaterThan(1_700_000_000n);
    },
    refuses: (by) => by.admin.revokeKey({ keyId: "nobody's" }),
    reason: "NOT_FOUND",
    code: Code.NotFound,
  },
  RotateKey: {
    answers: async (by) => {
      const { keyId, secret } = await newKey(by);
      const rotated = await by.admin.rotateKey({ keyId, grace: durationFromMs(1_000) });
      expect(rotated.key?.id).toBe(keyId);
      expect(rotated.secret).not.toBe(secret);
    },
    refuses: (by) => by.admin.rotateKey({ keyId: "nobody's" }),
    reason: "NOT_FOUND",
    code: Code.NotFound,
  },
  CreateToken: {
    answers: async (by) => {
      const { token, tokenId } = await by.admin.createToken({
        namespace: "é 😀",
        scopes: [KeyScope.HARNESS],
      });
      expect([token, tokenId]).toEqual([expect.stringMatching(/.{20}/), expect.stringMatching(/./)]);
    },
    refuses: (by) => by.admin.createToken({ namespace: "alice", scopes: [KeyScope.ADMIN] }),
    reason: "INVALID_FIELD",
    code: Code.InvalidArgument,
  },
  RevokeToken: {
    answers: async (by) => {
      await by.admin.revokeToken({ tokenId: "nobody's" });
    },
    refuses: (by) => by.admin.revokeToken({}),
    reason: "INVALID_FIELD",
    code: Code.InvalidArgument,
  },
  RotateSigningKey: {
    answers: async (by) => {
      await by.admin.rotateSigningKey({ grace: durationFromMs(60_000) });
    },
    refuses: (by) => by.admin.rotateSigningKey({ project: "nobody's" }),
    reason: "NOT_FOUND",
    code: Code.NotFound,
  },
  CreateProject: {
    answers: async (by) => {
      const name = randomUUID();
      expect((await by.admin.createProject({ name })).project).toMatchObject({ name });
    },
    refuses: (by) => by.admin.createProject({ name: "x".repeat(257) }),
    reason: "LIMIT_EXCEEDED",
    code: Code.InvalidArgument,
  },
  ListProjects: {
    answers: async (by) => {
      expect((await by.admin.listProjects({ pageSize: 1 })).projects).toHaveLength(1);
    },
    refuses: (by) => by.admin.listProjects({ pageToken: "made up" }),
    reason: "INVALID_FIELD",
    code: Code.InvalidArgument,
  },
  ListWorkers: unbuilt((by) => by.admin.listWorkers({})),
  GetStats: unbuilt((by) => by.admin.getStats({})),
};
