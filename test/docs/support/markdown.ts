/** A fenced block of a document. */
export interface Block {
  readonly language: string;
  /** The name under which the reader is to save it. */
  readonly file: string | undefined;
  readonly code: string;
  /** The nearest heading above it. */
  readonly heading: string;
}

/** Everything that a document fences in, in its order. */
export function blocksOf(markdown: string): readonly Block[] {
  const blocks: Block[] = [];
  let heading = "";
  let open: { language: string; file: string | undefined; lines: string[] } | undefined;
  for (const line of markdown.split("\n")) {
    const [isFence, language, file] = /^```(\w*)(?: file=(\S+))?$/.exec(line) ?? [];
    if (open !== undefined && isFence !== undefined) {
      const { lines, ...block } = open;
      blocks.push({ ...block, heading, code: lines.join("\n") });
      open = undefined;
    } else if (open !== undefined) open.lines.push(line);
    else if (isFence !== undefined) open = { language: language ?? "", file, lines: [] };
    else heading = /^#+ (.*)$/.exec(line)?.[1] ?? heading;
  }
  if (open !== undefined) throw new Error(`a block under "${heading}" is not closed`);
  return blocks;
}

/** The document without what it fences in. */
export function proseOf(markdown: string): string {
  return markdown.replace(/^```.*?^```$/gms, "");
}

/** The first cells of each table's rows, mapped to their second cells; without the head. */
export function tablesOf(markdown: string): readonly ReadonlyMap<string, string>[] {
  const tables = proseOf(markdown).match(/^\|.*\n\| -.*\n(?:\|.*\n)*/gm) ?? [];
  return tables.map((table) => {
    const rows = table.trim().split("\n").slice(2);
    return new Map(rows.map((row) => row.split("|").slice(1, 3).map(withoutMarks) as [string, string]));
  });
}

const withoutMarks = (cell: string): string => cell.replaceAll("`", "").trim();

/** The commands of a shell block, each with the lines that it goes on in. */
export function commandsOf(code: string): readonly string[] {
  return code.replaceAll(/\\\n\s*/g, "").split("\n");
}

/** What a program's comments promise that its `console.log` prints: behind the statement, or below it. */
export function promisedLines(code: string): readonly string[] {
  const promised: string[] = [];
  let isBelow = false;
  for (const line of code.split("\n")) {
    const [, behind] = /console\.log\(.*\);(?: \/\/ (.*))?$/.exec(line) ?? [];
    const below = /^\/\/ (.*)$/.exec(line)?.[1];
    if (behind !== undefined) promised.push(behind);
    else if (isBelow && below !== undefined) promised.push(below);
    isBelow = /console\.log\(.*\);$/.test(line) || (isBelow && below !== undefined);
  }
  return promised;
}

/** Where a document's links lead. */
export function linksOf(markdown: string): readonly string[] {
  return [...proseOf(markdown).matchAll(/\]\(([^)\s]+)\)/g)].map(([, target]) => target ?? "");
}

/** The anchors that a document's headings give. */
export function anchorsOf(markdown: string): readonly string[] {
  const headings = [...proseOf(markdown).matchAll(/^#+ (.*)$/gm)].map(([, heading]) => heading ?? "");
  return headings.map((heading) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N} _-]/gu, "")
      .replaceAll(" ", "-"),
  );
}
