import type { Owner } from "../core/scope.js";
import type { Session } from "./session.js";
import { ToolQueue } from "./tool-queue.js";

/** What tells in which queues a call is, and who may take it. */
export type QueuedCall = Owner & { readonly tool: string };

/** Of sessions that are bound to nobody. */
const UNBOUND = boundKey("", "");
const NONE: readonly ToolQueue[] = [];

/** The queues that sessions of this node serve, found by what is in them. */
export class ToolQueues {
  /** By project and tool, and then by whom their sessions are bound to; there a queue for each toolset. */
  readonly #tools = new Map<string, Map<string, ToolQueue[]>>();

  /** The queue of a tool as the session is offered it; it is made if there is none yet. */
  join({ scope, facts: { toolset } }: Session, tool: string): ToolQueue {
    const key = toolKey(scope.projectId, tool);
    let bounds = this.#tools.get(key);
    if (bounds === undefined) this.#tools.set(key, (bounds = new Map<string, ToolQueue[]>()));
    const bound = boundKey(scope.runId ?? "", scope.namespace ?? "");
    let queues = bounds.get(bound);
    if (queues === undefined) bounds.set(bound, (queues = []));
    let queue = queues.find((each) => each.toolset === toolset);
    if (queue === undefined) queues.push((queue = new ToolQueue(scope, tool, toolset)));
    return queue;
  }

  /** The queues that a call is in, whatever its run's toolset: of those that are bound to its run or end user first. */
  of({ projectId, tool, runId, namespace }: QueuedCall): readonly ToolQueue[] {
    const bounds = this.#tools.get(toolKey(projectId, tool));
    if (bounds === undefined) return NONE;
    const unbound = bounds.get(UNBOUND);
    if (bounds.size === 1 && unbound !== undefined) return unbound;
    const bound = [boundKey(runId, namespace), boundKey(runId, ""), boundKey("", namespace)];
    return [...bound.flatMap((key) => bounds.get(key) ?? NONE), ...(unbound ?? NONE)];
  }

  /** All queues of a tool. */
  ofTool(projectId: number, tool: string): readonly ToolQueue[] {
    return [...(this.#tools.get(toolKey(projectId, tool))?.values() ?? [])].flat();
  }

  /** All queues. */
  *[Symbol.iterator](): Generator<ToolQueue, void, undefined> {
    for (const bounds of this.#tools.values()) for (const queues of bounds.values()) yield* queues;
  }

  /** Forgets those that no session serves any more. */
  dropUnserved(): void {
    for (const [tool, bounds] of this.#tools) {
      for (const [bound, queues] of bounds) {
        const served = queues.filter((queue) => queue.served.size > 0);
        if (served.length === 0) bounds.delete(bound);
        else if (served.length < queues.length) bounds.set(bound, served);
      }
      if (bounds.size === 0) this.#tools.delete(tool);
    }
  }

  /** Forgets all. */
  clear(): void {
    this.#tools.clear();
  }
}

function toolKey(projectId: number, tool: string): string {
  return `${projectId}:${tool}`;
}

/** Run ids are UUIDs; empty: not bound. */
function boundKey(runId: string, namespace: string): string {
  return `${runId}:${namespace}`;
}
