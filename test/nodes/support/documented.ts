import { readFile } from "node:fs/promises";
import { blocksOf } from "../../docs/support/markdown.js";

const DOCUMENT = new URL("../../../docs/operations.md", import.meta.url);

/** What a test has instead of a passage of a documented configuration: addresses, files, shorter times. */
export type Changes = Readonly<Record<string, string>>;

/**
 * The configuration that docs/operations.md gives for a proxy, changed where the test has to.
 *
 * @throws when a passage that is to be changed is not in it
 */
export async function documented(language: string, changes: Changes): Promise<string> {
  const blocks = blocksOf(await readFile(DOCUMENT, "utf8"));
  const [block, ...more] = blocks.filter((each) => each.language === language);
  if (block === undefined || more.length > 0) {
    throw new Error(`docs/operations.md has ${more.length + (block ? 1 : 0)} blocks in ${language}`);
  }
  return Object.entries(changes).reduce((text, [passage, instead]) => {
    if (!text.includes(passage))
      throw new Error(`docs/operations.md: nothing for ${language} says: ${passage}`);
    return text.replace(passage, () => instead);
  }, `${block.code}\n`);
}
