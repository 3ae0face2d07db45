import { test } from "vitest";
import { Trunkline } from "../../client/src/index.js";
import { Peer } from "./support/peer.js";

test.concurrent(
  "who waits for a server that is away is told so once, and a worker that it is back",
  async ({ expect }) => {
    const warnings: string[] = [];
    const peer = await Peer.start({ runs: { createRun: () => ({ run: { id: "r1" } }) } });
    await using _ = peer;
    await peer.stop();
    await using client = new Trunkline({
      url: peer.url,
      key: "k1",
      onWarning: (message) => warnings.push(message),
    });
    client.worker({ tools: { echo: () => 1 }, name: "w1" });
    const runs = Promise.all([client.runs.create(), client.runs.create()]);
    await expect.poll(() => warnings, { timeout: 10_000 }).toHaveLength(2);
    expect(warnings.toSorted()).toEqual([
      expect.stringMatching(/^trunkline: no answer from http:.*; trying again for 30s$/),
      expect.stringMatching(/^trunkline: worker w1: no answer from http:.*; it keeps trying$/),
    ]);

    await peer.listen();
    await peer.welcomeWork();
    expect((await runs).map(({ id }) => id)).toEqual(["r1", "r1"]);
    await expect
      .poll(() => warnings.slice(2))
      .toEqual([`trunkline: worker w1: connected to ${peer.url} again`]);
  },
);

test.concurrent(
  "who waits for a turn without a limit is not told of one while the server is away",
  async ({ expect }) => {
    const warnings: string[] = [];
    await using peer = await Peer.start();
    await peer.stop();
    const client = new Trunkline({ url: peer.url, onWarning: (message) => warnings.push(message) });
    const waiting = client.runs.open("r1").turn(2).settled();
    waiting.catch(() => undefined);
    await expect.poll(() => warnings, { timeout: 10_000 }).toHaveLength(1);
    expect(warnings[0]).toMatch(/^trunkline: no answer from http:.*; it keeps trying$/);
    await client.close();
    await expect(waiting).rejects.toMatchObject({ reason: "CLOSED" });
  },
);
