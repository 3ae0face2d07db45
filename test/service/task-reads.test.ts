import { create } from "@bufbuild/protobuf";
import type { HandlerContext } from "@connectrpc/connect";
import {
  CompleteTaskRequestSchema,
  FailTaskRequestSchema,
  GetTaskRequestSchema,
} from "@trunkline/proto/task";
import { v7 as uuidv7 } from "uuid";
import { expect, test } from "vitest";
import { serviceDeps } from "../../server/src/service/deps.js";
import { hashToken, newSecret } from "../../server/src/service/door.js";
import { taskService } from "../../server/src/service/task-service.js";
import { newRun, open, SCOPE, useExchanges } from "../exchange/support/exchanges.js";

const nodes = useExchanges();

test("a token that is wrong costs one and the same read, whether its call is there, ended, or not (B16)", async () => {
  const sent: string[] = [];
  const { exchange } = await nodes.start({ onStatement: (name) => void sent.push(name) });
  const service = taskService(serviceDeps(exchange, () => undefined));
  const run = await newRun(exchange);
  const secret = newSecret();
  const [opened, ended] = [
    await open(exchange, run, { executor: "client" }),
    await open(exchange, run, { executor: "client" }),
  ];
  for (const call of [opened, ended])
    await exchange.apply(call, { type: "issue_token", tokenHash: hashToken(secret) }, SCOPE);
  const resultJson = JSON.stringify("x".repeat(500_000));
  await exchange.apply(
    ended,
    { type: "settle", attempt: null, answer: { type: "result", resultJson } },
    SCOPE,
  );
  const context = {} as HandlerContext;
  const wrong = newSecret();
  const ids = [`${opened.runId}/1`, `${ended.runId}/2`, `${opened.runId}/3`, `${uuidv7()}/1`];
  for (const token of ids.map((id) => `${id}.1.${wrong}`)) {
    for (const ask of [
      async () => service.getTask(create(GetTaskRequestSchema, { token }), context),
      async () => service.completeTask(create(CompleteTaskRequestSchema, { token }), context),
      async () => service.failTask(create(FailTaskRequestSchema, { token, failure: {} }), context),
    ]) {
      sent.length = 0;
      await expect(ask()).rejects.toMatchObject({ reason: "TOKEN_INVALID" });
      expect(sent).toEqual(["call_tokens"]);
    }
  }
});
