import { afterAll, beforeAll, expect, test } from "vitest";
import { Random } from "../fault-run/random.mjs";
import { useDatabase } from "../support/database.js";
import { ServerProcess } from "../support/server-process.js";
import { AgentStage, callbacksOf, nextDeath } from "./agent-stage.js";

/** Deaths of engines in all; the sessions that they come to take two lanes. */
const KILLS = 50;
const LANES = 2;

/** How often a death of an engine is one of a worker, or of the server, as well. */
const WORKER_TOO = 1 / 6;
const SERVER_TOO = 1 / 12;

const database = useDatabase();

let server: ServerProcess;
let stage: AgentStage;

beforeAll(async () => {
  server = await ServerProcess.start({ databaseUrl: database.url });
  stage = await AgentStage.on(server.url);
  await stage.startWorker();
  await stage.startPeople();
});

afterAll(async () => {
  await stage[Symbol.asyncDispose]();
  await server.stop();
});

/** Kills what else is to die with an engine, one after the other whichever lane asks. */
function accomplice(random: Random): () => Promise<string> {
  let before: Promise<unknown> = Promise.resolve();
  return () => {
    const kill = async (): Promise<string> => {
      if (random.chance(SERVER_TOO)) {
        await server.restart();
        return ", and the server";
      }
      if (!random.chance(WORKER_TOO)) return "";
      await stage.killWorker();
      await stage.startWorker();
      return ", and a worker";
    };
    const killing = before.then(kill);
    before = killing;
    return killing;
  };
}

test(
  "an agent that is killed at 50 random points, with workers and servers, answers as if it had not been",
  { timeout: 300_000 },
  async () => {
    const seed = process.env["AGENT_SEED"] ?? String(Date.now());
    const random = new Random(seed);
    const beganAt = performance.now();
    const calm = await stage.life("calm");
    const undisturbed = { callbacks: callbacksOf(calm), ms: performance.now() - beganAt };
    const killOthers = accomplice(random.fork("others"));
    const told = [`AGENT_SEED=${seed}; undisturbed: ${JSON.stringify(undisturbed)}`];
    let kills = 0;
    let sessions = 0;

    const lane = async (own: Random): Promise<void> => {
      while (kills < KILLS) {
        const session = `s${++sessions}`;
        for (;;) {
          const death = kills < KILLS ? nextDeath(own, undisturbed) : undefined;
          const { killed, stdout, stderr } = await stage.life(session, death);
          if (!killed) {
            expect(stdout, told.join("\n")).toEqual(calm.stdout);
            break;
          }
          kills++;
          told.push(
            `${session}: ${JSON.stringify(death)} after "${stderr.at(-1) ?? ""}"${await killOthers()}`,
          );
        }
        const found = await stage.check(session, "calm");
        told.push(found);
        expect(found, told.join("\n")).toMatch(/; 0 faults$/);
      }
    };
    await Promise.all(Array.from({ length: LANES }, (_, index) => lane(random.fork(`lane ${index}`))));
    console.log(told.join("\n"));
    expect(kills).toBeGreaterThanOrEqual(KILLS);
    expect(server.faults).toEqual([]);
  },
);
