import { whole } from "./argument.js";
import { wellFormed } from "./text.js";

/** Items of one page; 0 is the server's default. */
const MAX_PAGE = 1_000;

/** One page of a list; iterate over it with `for await` to get the following pages as well. */
export class Page<T> implements AsyncIterable<T> {
  /** This page alone. */
  readonly items: readonly T[];
  /** For `pageToken`, in this process or another; undefined on the last page. */
  readonly nextPageToken: string | undefined;
  readonly #next: (pageToken: string) => Promise<Page<T>>;

  constructor(items: readonly T[], nextPageToken: string, next: (pageToken: string) => Promise<Page<T>>) {
    this.items = items;
    this.nextPageToken = nextPageToken === "" ? undefined : nextPageToken;
    this.#next = next;
  }

  async *[Symbol.asyncIterator](): AsyncIterator<T, undefined> {
    yield* this.items;
    let token = this.nextPageToken;
    while (token !== undefined) {
      const page = await this.#next(token);
      yield* page.items;
      token = page.nextPageToken;
    }
    return undefined;
  }
}

/** Which page of a list, as every list's request has it. */
export function pageToWire({ pageSize = 0, pageToken = "" }: PageOptions): {
  pageSize: number;
  pageToken: string;
} {
  return {
    pageSize: whole(pageSize, "pageSize", 0, MAX_PAGE),
    pageToken: wellFormed(pageToken, "pageToken"),
  };
}

/** Which page of a list. */
export interface PageOptions {
  /** 1 to 1,000. Default 100. */
  readonly pageSize?: number;
  /** `nextPageToken` of the page before. */
  readonly pageToken?: string;
}
