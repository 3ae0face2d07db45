import { execFile } from "node:child_process";
import { readFile, readlink } from "node:fs/promises";
import { promisify } from "node:util";

/** What the operating system says of a live process. */
export interface ProcessInfo {
  readonly pid: number;
  /** Changes when the pid is given to another process, also across a reboot. */
  readonly startedAt: string;
  /** The command line, its words joined by spaces. */
  readonly command: string;
  /** The working directory, where the system tells us. */
  readonly cwd: string | undefined;
}

/** Looks a process up; undefined when there is none, or only a zombie that nobody has reaped. */
export async function inspectProcess(pid: number): Promise<ProcessInfo | undefined> {
  if (!Number.isSafeInteger(pid) || pid <= 0) return undefined;
  return process.platform === "linux" ? inspectByProc(pid) : inspectByPs(pid);
}

/** Whether `info` still describes the process that now has its pid. */
export async function isSameProcess(info: Pick<ProcessInfo, "pid" | "startedAt">): Promise<boolean> {
  return (await inspectProcess(info.pid))?.startedAt === info.startedAt;
}

async function inspectByProc(pid: number): Promise<ProcessInfo | undefined> {
  try {
    const [stat, cmdline, bootId] = await Promise.all([
      readFile(`/proc/${pid}/stat`, "utf8"),
      readFile(`/proc/${pid}/cmdline`, "utf8"),
      readFile("/proc/sys/kernel/random/boot_id", "utf8"),
    ]);
    // The second field is the program's name in parentheses and may itself contain spaces and ")".
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    const state = fields[0];
    const startTicks = fields[19];
    if (state === undefined || startTicks === undefined || "ZX".includes(state)) return undefined;
    return {
      pid,
      startedAt: `${bootId.trim()}/${startTicks}`,
      command: cmdline.replaceAll("\0", " ").trim(),
      cwd: await readlink(`/proc/${pid}/cwd`).catch(() => undefined),
    };
  } catch {
    return undefined;
  }
}

async function inspectByPs(pid: number): Promise<ProcessInfo | undefined> {
  try {
    const columns = ["-o", "stat=", "-o", "lstart=", "-o", "command="];
    const { stdout } = await promisify(execFile)("ps", ["-ww", ...columns, "-p", String(pid)], {
      env: { LC_ALL: "C", PATH: "/bin:/usr/bin" },
    });
    // `lstart` is five words: "Sun Nov 30 01:54:12 2025".
    const match = /^(\S+)\s+((?:\S+\s+){4}\S+)\s+(.*)$/s.exec(stdout.trim());
    const [, state, startedAt, command] = match ?? [];
    if (state === undefined || startedAt === undefined || command === undefined) return undefined;
    return state.startsWith("Z") ? undefined : { pid, startedAt, command, cwd: undefined };
  } catch {
    return undefined;
  }
}
