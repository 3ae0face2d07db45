import { readFile } from "node:fs/promises";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import ts from "typescript";
import { beforeAll, describe, expect, test } from "vitest";
import { ACCESS_RULES } from "../../server/src/service/access-rules.js";

const PATH = fileURLToPath(new URL("../../server/src/service/access-rules.ts", import.meta.url));
const CONFIG = fileURLToPath(new URL("../../server/tsconfig.json", import.meta.url));

/** The table's source with something planted in it. */
interface Planted {
  readonly what: string;
  readonly text: string;
}

/** The first error of each of these sources, as if it stood where the table does; undefined where it compiles. */
function compile(sources: readonly Planted[]): (string | undefined)[] {
  const { options } = ts.parseJsonConfigFileContent(
    ts.readConfigFile(CONFIG, (path) => ts.sys.readFile(path)).config,
    ts.sys,
    dirname(CONFIG),
  );
  const files = new Map(sources.map(({ text }, index) => [PATH.replace(".ts", `-${index}.ts`), text]));
  const plain = ts.createCompilerHost(options);
  const host: ts.CompilerHost = {
    ...plain,
    fileExists: (path) => files.has(path) || plain.fileExists(path),
    readFile: (path) => files.get(path) ?? plain.readFile(path),
    getSourceFile: (path, version, ...rest) => {
      const text = files.get(path);
      return text === undefined
        ? plain.getSourceFile(path, version, ...rest)
        : ts.createSourceFile(path, text, version);
    },
  };
  const program = ts.createProgram([...files.keys()], { ...options, noEmit: true, composite: false }, host);
  return [...files.keys()].map((path) => {
    const [error] = program.getSemanticDiagnostics(program.getSourceFile(path));
    return error && ts.flattenDiagnosticMessageText(error.messageText, " ");
  });
}

/** The rules of each service in the source, one text each. */
const TABLES = /const \w+: RulesOf<typeof \w+> = \{[^}]*\}/g;
const RULE = /(\w+): "(\w+)",? */g;

const RULES = Object.values(ACCESS_RULES).flatMap((rules) => Object.keys(rules));

describe("the table of who may use what", () => {
  /** Errors by what was planted. */
  const errors = new Map<string, string | undefined>();
  const left: string[] = [];

  beforeAll(async () => {
    const source = await readFile(PATH, "utf8");
    const planted: Planted[] = [
      { what: "nothing", text: source },
      { what: "one too many", text: source.replace(' work: "worker"', ' steal: "worker", work: "worker"') },
      { what: "no rule", text: source.replace(' work: "worker"', ' work: "workers"') },
    ];
    for (const { 0: table, index } of source.matchAll(TABLES)) {
      for (const { 0: rule, 1: what = "", index: at } of table.matchAll(RULE)) {
        const start = index + at;
        left.push(what);
        planted.push({
          what: `without ${what} (${left.length})`,
          text: source.slice(0, start) + source.slice(start + rule.length),
        });
      }
    }
    compile(planted).forEach((error, index) => errors.set(planted[index]?.what ?? "", error));
  });

  test("does not compile without the rule of any RPC, whichever it is", () => {
    expect(errors.get("nothing")).toBeUndefined();
    expect(left).toEqual(RULES);
    left.forEach((what, index) => {
      expect(errors.get(`without ${what} (${index + 1})`)).toContain(`'${what}'`);
    });
  });

  test("does not compile with a rule for an RPC that there is not, nor with a word that is no rule", () => {
    expect(errors.get("one too many")).toContain("'steal'");
    expect(errors.get("no rule")).toContain('"workers"');
  });
});
