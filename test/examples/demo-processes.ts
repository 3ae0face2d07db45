/** The processes that the demo says it has started. */
export function processesIn(lines: readonly string[]): number[] {
  const named = lines
    .join(" ")
    .replaceAll(/\s+[│▸]?\s*/g, " ")
    .matchAll(/\(process (\d+)\)/g);
  return [...new Set([...named].map(([, pid]) => Number(pid)))];
}

/** Whether there is such a process. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
