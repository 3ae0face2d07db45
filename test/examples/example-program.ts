import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

/** A program of `examples/` in a process of its own, with everything that it has written. */
export interface ExampleProgram {
  readonly child: ChildProcess;
  readonly stdout: readonly string[];
  readonly stderr: readonly string[];
  /** Resolves with the first line, of either output, that contains the text; rejects when it ends before. */
  readonly line: (text: string) => Promise<string>;
  /** Resolves with the status, or with the signal that ended it. */
  readonly ended: Promise<number | string>;
}

/** Starts a program; it gets the test's environment and what is given. */
export function startExample(
  file: string,
  args: readonly string[],
  env: Readonly<Record<string, string>>,
): ExampleProgram {
  const path = fileURLToPath(new URL(`../../examples/${file}`, import.meta.url));
  const child = spawn(process.execPath, [path, ...args], {
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const stdout: string[] = [];
  const stderr: string[] = [];
  const watchers = new Set<() => void>();
  for (const [stream, lines] of [
    [child.stdout, stdout],
    [child.stderr, stderr],
  ] as const) {
    createInterface({ input: stream }).on("line", (line) => {
      lines.push(line);
      for (const watcher of watchers) watcher();
    });
  }
  const ended = once(child, "close").then(
    ([status, signal]: readonly unknown[]): number | string => (status ?? signal) as number | string,
  );
  const line = (text: string): Promise<string> =>
    new Promise((resolve, reject) => {
      const look = (): void => {
        const found = [...stdout, ...stderr].find((candidate) => candidate.includes(text));
        if (found === undefined) return;
        watchers.delete(look);
        resolve(found);
      };
      watchers.add(look);
      look();
      void ended.then((end) => {
        reject(
          new Error(`${file} ended with ${end}, without "${text}": ${[...stdout, ...stderr].join("\n")}`),
        );
      });
    });
  return { child, stdout, stderr, line, ended };
}

/** Runs a program to its end. */
export async function runExample(
  file: string,
  args: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<{ status: number | string; stdout: readonly string[]; stderr: readonly string[] }> {
  const { ended, stdout, stderr } = startExample(file, args, env);
  return { status: await ended, stdout, stderr };
}
