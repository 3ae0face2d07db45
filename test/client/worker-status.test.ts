import { describe, expect, test } from "vitest";
import type { WorkerStatus } from "../../client/src/index.js";
import { EventLog } from "../support/event-log.js";
import { until } from "../support/until.js";
import { acceptedOn, benches, DRAINED } from "./support/bench.js";
import { claimOf, gate } from "./support/claim.js";
import { CARRIAGES, INTERVAL_MS } from "./support/peer.js";

function statuses() {
  const log = new EventLog<{ readonly status: WorkerStatus; readonly at: number }>();
  return {
    onStatus: (status: WorkerStatus) => log.add({ status, at: performance.now() }),
    seen: () => log.all.map(({ status }) => status),
    becomes: (status: WorkerStatus) => log.first(`the status ${status}`, (each) => each.status === status),
  };
}

describe.each(CARRIAGES)("worker.status by %s", (carriage) => {
  const bench = benches(carriage);

  test("is connecting, connected, draining and stopped in the life of a worker, each told once", async () => {
    const finish = gate();
    const { onStatus, seen, becomes } = statuses();
    const worker = bench().start({ echo: () => finish.promise }, { onStatus });
    expect(worker.status).toBe("connecting");
    const { stream } = await bench().peer.welcomeWork();
    await becomes("connected");
    expect(worker.status).toBe("connected");
    stream.send({ claims: [claimOf()] });
    await acceptedOn(stream);
    const stopped = worker.stop();
    expect(worker.status).toBe("draining");
    finish.open();
    await stream.until(({ answers }) => answers.length > 0);
    // The server's part of the end is not what this is about.
    bench().peer.cut();
    const again = await bench().peer.welcomeWork();
    const { answers } = await again.stream.until((frame) => frame.answers.length > 0);
    again.stream.send({ acks: answers.map(({ claimId }) => ({ $typeName: "trunkline.v1.Ack", claimId })) });
    again.stream.send(DRAINED);
    await again.stream.farewell();
    await stopped;
    expect(worker.status).toBe("stopped");
    expect(seen()).toEqual(["connected", "draining", "stopped"]);
  });

  test("stays connected across a cut that is mended within three intervals", async () => {
    const { onStatus, seen, becomes } = statuses();
    const worker = bench().start({ echo: () => 1 }, { onStatus });
    await bench().peer.welcomeWork();
    await becomes("connected");
    bench().peer.cut();
    await bench().peer.welcomeWork();
    expect(worker.status).toBe("connected");
    expect(seen()).toEqual(["connected"]);
  });

  test("is deaf when a server that was there is silent for three intervals, and connected when it is back (B22)", async () => {
    const { onStatus, seen, becomes } = statuses();
    const worker = bench().start({ echo: () => 1 }, { onStatus });
    await bench().peer.welcomeWork();
    const { at: heardAt } = await becomes("connected");
    await bench().peer.stop();
    const deaf = await becomes("deaf");
    expect(worker.status).toBe("deaf");
    expect(deaf.at - heardAt).toBeGreaterThan(2 * INTERVAL_MS);
    expect(deaf.at - heardAt).toBeLessThan(20 * INTERVAL_MS);
    await bench().peer.listen();
    await bench().peer.welcomeWork();
    await until("the worker is connected again", () => worker.status === "connected");
    expect(seen()).toEqual(["connected", "deaf", "connected"]);
  });

  test("an onStatus that throws does no harm and is told to onError", async () => {
    const heard = bench().nextError();
    const fault = new Error("the probe is broken");
    const worker = bench().start(
      { echo: () => 1 },
      {
        onStatus: () => {
          throw fault;
        },
      },
    );
    await bench().peer.welcomeWork();
    expect(await heard).toBe(fault);
    expect(worker.status).toBe("connected");
  });
});

// By polls it is the same silence as when the server has gone, and takes as long as a request is waited for.
describe("worker.status by stream", () => {
  const bench = benches();

  test("is deaf when the stream stays open and carries nothing (B22 b)", async () => {
    const { onStatus, becomes } = statuses();
    bench().start({ echo: () => 1 }, { onStatus });
    // It takes the hello and every heartbeat, and says nothing any more.
    await bench().peer.welcomeWork();
    await becomes("connected");
    await becomes("deaf");
  });
});
