import { onlyFields } from "./argument.js";
import { dateFromWire } from "./call.js";
import { TrunklineError } from "./errors.js";
import { Page, pageToWire, type PageOptions } from "./page.js";
import { present, wellFormed } from "./text.js";
import type { Unary } from "./unary.js";

/** A tenant of the server, with keys, runs and toolsets of its own. */
export interface Project {
  readonly name: string;
  readonly createdAt: Date | undefined;
}

/** Which project a request about keys and tokens is for. */
export interface ProjectChoice {
  /**
   * The project's name; only the root key may name one. Default: the one that the key belongs to, and `default` with
   * the root key.
   */
  readonly project?: string;
}

/** The server's projects: `client.projects`. With the root key only; any other gets PERMISSION_DENIED. */
export class Projects {
  readonly #unary: Unary;

  /** Use `Trunkline.projects`. */
  constructor(unary: Unary) {
    this.#unary = unary;
  }

  /** Makes a project, 1 to 256 bytes of a name, or finds the one that is there. */
  async create(name: string): Promise<Project> {
    const request = { name: wellFormed(present(name, "name"), "name") };
    const { project } = await this.#unary.send((options) =>
      this.#unary.admin.createProject(request, options),
    );
    if (project === undefined) throw new TrunklineError("INTERNAL", "create: the answer was empty");
    return { name: project.name, createdAt: dateFromWire(project.createdAt) };
  }

  /** All projects, by name. */
  async list(page: PageOptions = {}): Promise<Page<Project>> {
    onlyFields(page, { pageSize: true, pageToken: true }, "page");
    const request = pageToWire(page);
    const { projects, nextPageToken } = await this.#unary.send((options) =>
      this.#unary.admin.listProjects(request, options),
    );
    const items = projects.map(({ name, createdAt }) => ({ name, createdAt: dateFromWire(createdAt) }));
    return new Page(items, nextPageToken, (pageToken) => this.list({ ...page, pageToken }));
  }
}

/**
 * The project's name as requests have it; empty for the key's own.
 *
 * @throws TrunklineError INVALID_FIELD for an empty one, which is not "none"
 */
export function projectToWire({ project }: ProjectChoice): string {
  return project === undefined ? "" : wellFormed(present(project, "project"), "project");
}
