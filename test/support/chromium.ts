import { spawn, type ChildProcess } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Readable, Writable } from "node:stream";
import { installed } from "../nodes/support/proxy-process.js";
import { cleanEnvironment, TestProcess } from "./child-process.js";
import { within } from "./until.js";

/** The program, where one is installed. */
export const CHROMIUM = ["chromium", "chromium-browser", "google-chrome"].flatMap(
  (name) => installed(name) ?? [],
)[0];

const FLAGS = [
  "--headless=new",
  "--remote-debugging-pipe",
  // It refuses to run as root with its sandbox; the pages are our own.
  ...["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"],
  ...["--no-first-run", "--disable-extensions", "--disable-background-networking", "--disable-sync"],
  // That of the tests is signed by nobody.
  "--ignore-certificate-errors",
];

/** A message of the DevTools protocol. */
interface Message {
  readonly id?: number;
  readonly sessionId?: string;
  readonly method?: string;
  readonly params?: Readonly<Record<string, unknown>>;
  readonly result?: Readonly<Record<string, unknown>>;
  readonly error?: { readonly message: string };
}

/** A Chromium without a window, steered over a pipe. */
export class Chromium implements AsyncDisposable {
  readonly #process: TestProcess;
  readonly #folder: string;
  readonly #commands: Writable;
  readonly #waiting = new Map<number, (message: Message) => void>();
  readonly #listeners = new Set<(message: Message) => void>();
  #ids = 0;

  private constructor(child: ChildProcess, folder: string) {
    this.#process = new TestProcess(child);
    this.#folder = folder;
    // What the options of the spawn say of these two.
    this.#commands = child.stdio[3] as Writable;
    this.#read(child.stdio[4] as Readable);
  }

  /** Starts the installed one; resolves when it answers. */
  static async start(): Promise<Chromium> {
    if (CHROMIUM === undefined) throw new Error("no chromium is installed");
    const folder = await mkdtemp(join(tmpdir(), "trunkline-test-chromium-"));
    const child = spawn(CHROMIUM, [...FLAGS, `--user-data-dir=${folder}`], {
      stdio: ["ignore", "ignore", "pipe", "pipe", "pipe"],
      env: cleanEnvironment({ HOME: folder }),
    });
    const chromium = new Chromium(child, folder);
    await within("chromium answers", chromium.send("Browser.getVersion", {}));
    return chromium;
  }

  /** Opens a tab in a window of its own, where it is seen, and waits until its page is loaded. */
  async open(url: string): Promise<Tab> {
    const { targetId } = await this.send("Target.createTarget", { url: "about:blank", newWindow: true });
    const { sessionId } = await this.send("Target.attachToTarget", { targetId, flatten: true });
    const tab = new Tab(this, String(sessionId));
    await tab.go(url);
    return tab;
  }

  /** Sends a command, to a tab or to the whole. */
  async send(method: string, params: object, sessionId?: string): Promise<Readonly<Record<string, unknown>>> {
    const id = ++this.#ids;
    const answer = new Promise<Message>((resolve) => this.#waiting.set(id, resolve));
    this.#commands.write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
    const { error, result } = await within(`${method} is answered`, answer);
    if (error !== undefined) throw new Error(`${method}: ${error.message}`);
    return result ?? {};
  }

  /** Resolves with the parameters of an event of a tab. */
  next(method: string, sessionId: string): Promise<Readonly<Record<string, unknown>>> {
    return new Promise((resolve) => {
      const listener = (message: Message): void => {
        if (message.method !== method || message.sessionId !== sessionId) return;
        this.#listeners.delete(listener);
        resolve(message.params ?? {});
      };
      this.#listeners.add(listener);
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.send("Browser.close", {});
    await within("chromium ends", this.#process.ended).finally(() => this.#process.kill());
    // Its children may end a moment after it, and write until then.
    await rm(this.#folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  }

  #read(answers: Readable): void {
    let text = "";
    answers.setEncoding("utf8").on("data", (chunk: string) => {
      const [...messages] = (text + chunk).split("\0");
      text = messages.pop() ?? "";
      for (const message of messages) this.#take(JSON.parse(message) as Message);
    });
  }

  #take(message: Message): void {
    if (message.id === undefined) {
      for (const listener of [...this.#listeners]) listener(message);
      return;
    }
    this.#waiting.get(message.id)?.(message);
    this.#waiting.delete(message.id);
  }
}

/** A tab of a {@link Chromium}. */
export class Tab {
  readonly #chromium: Chromium;
  readonly #session: string;

  constructor(chromium: Chromium, session: string) {
    this.#chromium = chromium;
    this.#session = session;
  }

  /** Goes to a page, and waits until it is loaded. */
  async go(url: string): Promise<void> {
    await this.#loading(() => this.#send("Page.navigate", { url }));
  }

  /** Loads its page anew. */
  async reload(): Promise<void> {
    await this.#loading(() => this.#send("Page.reload", {}));
  }

  /** What an expression comes to in the page, as JSON has it; a promise is waited for. */
  async evaluate<T>(expression: string): Promise<T> {
    const { result, exceptionDetails } = await this.#send("Runtime.evaluate", {
      ...{ expression, awaitPromise: true, returnByValue: true },
    });
    if (exceptionDetails !== undefined) throw new Error(`${expression}: ${JSON.stringify(exceptionDetails)}`);
    // Who asks knows what the page gives.
    return (result as { value: T }).value;
  }

  async close(): Promise<void> {
    await this.#send("Page.close", {});
  }

  async #loading(begin: () => Promise<unknown>): Promise<void> {
    await this.#send("Page.enable", {});
    const loaded = this.#chromium.next("Page.loadEventFired", this.#session);
    await begin();
    await within("the page is loaded", loaded);
  }

  #send(method: string, params: object): Promise<Readonly<Record<string, unknown>>> {
    return this.#chromium.send(method, params, this.#session);
  }
}
