import { randomBytes } from "node:crypto";

/** What a request names. */
export interface Target {
  /** Which of them it is. */
  readonly name: string;
  readonly runId: string;
  readonly runKey: string;
  readonly callId: string;
  readonly key: string;
  readonly claimId: string;
  readonly sessionId: string;
  readonly nonce: string;
  readonly toolset: string;
  readonly label: string;
  readonly namespace: string;
  readonly project: string;
  readonly keyId: string;
  readonly tokenId: string;
  /** A completion token. */
  readonly task: string;
  /** Tokens of next pages. */
  readonly pages: Readonly<Record<"calls" | "runs" | "toolsets" | "keys", string>>;
}

/** A target with all that it names changed by `change`. */
function changed(target: Target, name: string, change: (text: string) => string): Target {
  const runId = change(target.runId);
  return {
    ...target,
    name,
    runId,
    callId: target.callId.replace(target.runId, runId),
    task: target.task.replace(target.runId, runId),
    runKey: change(target.runKey),
    key: change(target.key),
    claimId: change(target.claimId),
    sessionId: change(target.sessionId),
    nonce: change(target.nonce),
    toolset: change(target.toolset),
    label: change(target.label),
    namespace: change(target.namespace),
    project: change(target.project),
    keyId: change(target.keyId),
    tokenId: change(target.tokenId),
    pages: {
      calls: change(target.pages.calls),
      runs: change(target.pages.runs),
      toolsets: change(target.pages.toolsets),
      keys: change(target.pages.keys),
    },
  };
}

/** What is next to a target: the number after the last call of its run, and names that differ in one character. */
export function neighbours(target: Target, calls: number): Target[] {
  const callId = `${target.runId}/${calls + 1}`;
  const task = target.task.replace(target.callId, callId);
  const { runId } = target;
  return [
    { ...changed(target, "the next number", otherEnd), runId, callId, task },
    changed(target, "the last digit of each name", otherEnd),
  ];
}

/** Names of the same lengths that nothing has. */
export function random(target: Target): Target {
  return changed(target, "random names", (text) => text.replaceAll(/[0-9a-z]/gi, (old) => another(old)));
}

function otherEnd(text: string): string {
  return (
    text.slice(0, -1) +
    (/[0-9]$/.test(text) ? (text.endsWith("1") ? "2" : "1") : text.endsWith("b") ? "a" : "b")
  );
}

function another(old: string): string {
  const digits = randomBytes(1).toString("hex");
  if (/[0-9a-f]/.test(old)) return digits.slice(0, 1);
  return String.fromCharCode("a".charCodeAt(0) + ((randomBytes(1)[0] ?? 0) % 26));
}

/** A text with all that the target names taken out. */
export function redacted(text: string, { name: _, pages, ...names }: Target): string {
  const all = Object.entries({ ...names, ...pages }).sort(([, a], [, b]) => b.length - a.length);
  return all.reduce((left, [field, value]) => left.replaceAll(value, `<${field}>`), text);
}
