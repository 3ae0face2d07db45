import { readFile } from "node:fs/promises";
import ts from "typescript";

/** The names of the fields that an interface of a source file has, in their order. */
export async function fieldsOf(path: string, name: string): Promise<readonly string[]> {
  const source = ts.createSourceFile(path, await readFile(path, "utf8"), ts.ScriptTarget.Latest);
  const found = source.statements.filter(ts.isInterfaceDeclaration).find((each) => each.name.text === name);
  if (found === undefined) throw new Error(`${path} has no interface ${name}`);
  return found.members.map((member) => member.name?.getText(source) ?? "");
}

/** What a source file's constant is set to, as it is written there. */
export async function constantOf(path: string, name: string): Promise<string> {
  const [, value] = new RegExp(`^const ${name} = (.*);$`, "m").exec(await readFile(path, "utf8")) ?? [];
  if (value === undefined) throw new Error(`${path} has no constant ${name}`);
  return value;
}
