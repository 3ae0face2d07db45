import { KeyScope } from "@trunkline/proto/admin";
import { Health } from "@trunkline/proto/health";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ACCESS_RULES } from "../../../server/src/service/access-rules.js";
import { useNode } from "../node.js";
import {
  ask,
  carriersOf,
  distinct,
  isFor,
  isStream,
  nameOf,
  textOf,
  type Answered,
  type Cell,
} from "./answers.js";
import type { Case } from "./case.js";
import { CASES } from "./cases.js";
import { contentsOf, type Row } from "./contents.js";
import {
  badCredentials,
  foreignCredentials,
  narrowCredentials,
  type Credential,
  type GoodCredential,
} from "./credentials.js";
import { clientsOf, EVE, makeVictim, OTHER, TOOLS, VICTIM, type Victim } from "./stage.js";
import { neighbours, random, redacted, type Target } from "./target.js";
import { Wire, wordsOf, type Carrier } from "./wire.js";

const ROOT = "root-key-of-the-test";
/** Nobody goes silent while the requests are sent. */
const it = useNode({ rootKey: ROOT, heartbeatIntervalMs: 60_000 });

const SCOPES = { worker: KeyScope.WORKER, harness: KeyScope.HARNESS, admin: KeyScope.ADMIN };

let victim: Victim;
let targets: readonly Target[];
let bad: readonly Credential[];
let narrow: readonly GoodCredential[];
let foreign: readonly GoodCredential[];
let wires: readonly Wire[] = [];

beforeAll(async () => {
  const { url } = it.node;
  const { admin } = clientsOf(url, ROOT);
  for (const name of [VICTIM, OTHER]) await admin.createProject({ name });
  await admin.createToken({ namespace: EVE, scopes: [KeyScope.HARNESS], project: OTHER });
  bad = await badCredentials(url, ROOT, it.database.pool());
  narrow = await narrowCredentials(url, ROOT);
  victim = await makeVictim(url, ROOT);
  foreign = await foreignCredentials(url, ROOT, victim);
  const [first] = victim.targets;
  targets = [...victim.targets, ...neighbours(first!, TOOLS.length), random(first!)];
  wires = Array.from({ length: 4 }, () => new Wire(url));
});
afterAll(async () => {
  for (const wire of wires) wire.close();
  await victim.worker.close();
});

/** All answers; to what must not cross each other, one after the other. */
async function answersTo(cells: readonly Cell[]): Promise<Answered[]> {
  const lines = new Map<unknown, Cell[]>();
  for (const cell of cells) {
    const line = cell.of.inTurn === true ? cell.credential : cell;
    lines.set(line, [...(lines.get(line) ?? []), cell]);
  }
  const answers = await Promise.all(
    [...lines.values()].map(async (line, index) => {
      const answered: Answered[] = [];
      for (const cell of line) answered.push(await ask(wires[index % wires.length]!, cell));
      return answered;
    }),
  );
  return answers.flat();
}

/** A case with one credential: of all targets by the carrier that people use, of two by the others. */
function cellsOf(of: Case, credential: Credential, all: readonly Target[]): Cell[] {
  const two = all.length > 2 ? [all.at(0)!, all.at(-1)!] : all;
  return waysOf(of, credential).flatMap((carrier, index) =>
    (index === 0 ? all : two).map((target) => ({ of, carrier, credential, target })),
  );
}

/** What tells credentials apart does not see what carries them: some of each kind take all ways. */
const SAMPLE =
  /^none$|another last|expired|in the name of|^a key of all$|of a harness$|another project's key$|of another run$/;

/** The carriers of a case with a credential; streams of plain gRPC have a way of their own through the server. */
function waysOf(of: Case, credential: Credential): readonly Carrier[] {
  const [first, second, ...others] = carriersOf(of);
  if (of.makes === true) return [first];
  if (SAMPLE.test(credential.name)) return [first, second, ...others];
  return isStream(of) || !bad.includes(credential) ? [first, second] : [first];
}

/**
 * What is wrong with answers that should be refusals, and the same ones but for what was asked: with one credential, by
 * one carrier, to all that are of one kind.
 */
function faultsOf(
  answers: readonly Answered[],
  expected: (answer: Answered) => readonly string[],
  kindOf: (answer: Answered) => unknown = ({ of }) => CASES.indexOf(of),
): string[] {
  const faults: string[] = [];
  const first = new Map<string, Answered>();
  for (const answer of answers) {
    const { of, carrier, credential, words, reasons, target } = answer;
    const sent = textOf(of, of.messages(target));
    const leaked = victim.secrets.filter((secret) => words.includes(secret) && !sent.includes(secret));
    if (leaked.length > 0) faults.push(`${nameOf(answer)} has ${leaked.join(", ")}: ${words}`);
    const isReadable = carrier === carriersOf(of)[0];
    if (isReadable && [...reasons].sort().join() !== [...expected(answer)].sort().join()) {
      faults.push(
        `${nameOf(answer)} has the reasons ${reasons.join()}, not ${expected(answer).join()}: ${words}`,
      );
    }
    const key = [kindOf(answer), carrier, credential.name].join();
    const other = first.get(key) ?? answer;
    first.set(key, other);
    if (other.words !== words) faults.push(`${nameOf(answer)}: ${words}\n\n${nameOf(other)}: ${other.words}`);
  }
  return faults.slice(0, 3);
}

const isOpen = ({ of }: Answered): boolean => of.for === "everybody";

test("every RPC of the server has its case here, and no other", () => {
  const served = Object.entries(ACCESS_RULES).flatMap(([service, rules]) =>
    Object.keys(rules).map((method) => `${service}/${method}`),
  );
  const here = CASES.map(({ method }) => `${method.parent.typeName}/${method.localName}`);
  expect([...new Set(here)].sort()).toEqual(served.sort());
});

describe("B16, I7: what is somebody else's", () => {
  test("is out of reach for who has no credential that is good, whatever the RPC, carrier and id", async () => {
    const before = await contentsOf(it.database.pool());
    const methods = [...new Map(CASES.map((of) => [of.method, of])).values()];
    const cells = methods.flatMap((of, index) =>
      bad.flatMap((credential) =>
        cellsOf(of, credential, [index % 2 === 0 ? victim.targets[1]! : targets.at(-1)!]),
      ),
    );
    const answers = await answersTo(cells);
    const [open, closed] = [answers.filter(isOpen), answers.filter((answer) => !isOpen(answer))];
    expect(
      faultsOf(
        closed,
        () => ["UNAUTHENTICATED"],
        ({ of }) => isStream(of),
      ),
    ).toEqual([]);
    expect(faultsOf(open, ({ of }) => of.refused)).toEqual([]);
    expect(await contentsOf(it.database.pool())).toEqual(before);
  });

  test("is out of reach for the victim's own credentials where they lack the scope", async () => {
    const before = await contentsOf(it.database.pool());
    const cells = CASES.flatMap((of) =>
      narrow
        .filter((credential) => !isFor(of, credential, SCOPES))
        .flatMap((credential) =>
          cellsOf(of, credential, distinct(of, [victim.targets[1]!, targets.at(-1)!])),
        ),
    );
    const answers = await answersTo(cells);
    expect(faultsOf(answers, () => ["PERMISSION_DENIED"])).toEqual([]);
    expect(await contentsOf(it.database.pool())).toEqual(before);
  });

  test.each([...new Set(CASES.map(({ method }) => method))])(
    "looks to other projects, end users and runs as what there is not, by $parent.name/$name",
    async (method) => {
      const before = ownedBy(await contentsOf(it.database.pool()));
      const cells = CASES.filter((of) => of.method === method).flatMap((of) =>
        foreign
          .filter((credential) => of.ofProject !== true || credential.of === "another project")
          .filter((credential) => of.notOfRun !== true || !credential.ofRun)
          .flatMap((credential) => cellsOf(of, credential, distinct(of, targets))),
      );
      const answers = await answersTo(cells);
      const expected = ({ of, credential }: Answered): readonly string[] =>
        isFor(of, credential as GoodCredential, SCOPES) ? of.refused : ["PERMISSION_DENIED"];
      expect(faultsOf(answers, expected)).toEqual([]);
      expect(ownedBy(await contentsOf(it.database.pool()))).toEqual(before);
    },
  );
});

describe("B16, I7: the plain settle route", () => {
  /** Settles by the call's key, and by its id. */
  async function settle({ header }: Credential, target: Target): Promise<string> {
    const words = [target.key, target.callId].map(async (id) => {
      const answer = await wires[0]!.ask({
        path: `/api/machine/sessions/${target.runId}/calls/settle`,
        type: "application/json",
        authorization: header,
        body: Buffer.from(JSON.stringify({ type: "tool.result", id, result: "made up" })),
      });
      return `${answer.status} ${redacted(wordsOf(answer, "json"), target).replaceAll(/<(key|callId)>/g, "<id>")}`;
    });
    return (await Promise.all(words)).join("\n");
  }

  test("answers all whose call it is not alike, whatever call they name, and changes nothing", async () => {
    const before = await contentsOf(it.database.pool());
    for (const [credentials, status] of [
      [bad, 401],
      [narrow.filter(({ scopes }) => !scopes.includes(KeyScope.HARNESS)), 403],
      [foreign, 404],
    ] as const) {
      for (const credential of credentials) {
        const asked = status === 404 ? targets : [targets.at(0)!, targets.at(-1)!];
        const words = await Promise.all(asked.map((target) => settle(credential, target)));
        expect(new Set(words).size, `${credential.name}: ${words.join("\n")}`).toBe(1);
        expect(words[0], credential.name).toMatch(new RegExp(`^${status} `));
      }
    }
    expect(await contentsOf(it.database.pool())).toEqual(before);
  });
});

test("what was refused is what the victim gets, or is at least found", async () => {
  const own = { ...victim.targets[1]!, task: victim.task };
  const lost: string[] = [];
  const credential = (of: Case): Credential => {
    // A project is named by the root key alone.
    const byRoot = of.for === "root" || (of.refused[0] === "PERMISSION_DENIED" && of.for !== "worker");
    return {
      name: byRoot ? "the root key" : "the victim's key",
      header: `Bearer ${byRoot ? ROOT : victim.key}`,
    };
  };
  for (const of of CASES.filter(({ makes, ...each }) => makes !== true && isAboutSomething(each))) {
    const carrier = carriersOf(of)[0];
    const refused = await ask(wires[0]!, { of, carrier, credential: foreign[0]!, target: random(own) });
    const answer = await ask(wires[0]!, { of, carrier, credential: credential(of), target: own });
    if (answer.words === refused.words || answer.reasons.includes("NOT_FOUND"))
      lost.push(`${nameOf(answer)}: ${answer.words}`);
  }
  expect(lost).toEqual([]);
});

/** Whether a request of a case names anything of anybody's. */
function isAboutSomething({ for: audience, refused, method }: Omit<Case, "makes">): boolean {
  if (refused.includes("UNIMPLEMENTED") || audience === "caller") return false;
  return method.parent !== Health;
}

/** What is the victim's. */
function ownedBy({ access_state: _, projects, ...tables }: Record<string, Row[]>): Record<string, unknown> {
  const id = projects?.find(({ name }) => name === VICTIM)?.["id"];
  const owned = Object.entries(tables).map(([name, rows]) => [
    name,
    rows.filter(
      (row) => row["project_id"] === id && row["namespace"] !== EVE && row["run_id"] !== victim.otherRunId,
    ),
  ]);
  return Object.fromEntries(owned) as Record<string, unknown>;
}
