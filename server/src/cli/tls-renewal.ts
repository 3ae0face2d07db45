import { X509Certificate } from "node:crypto";
import type { Log } from "../log.js";
import type { TlsFiles } from "../service/listener-tls.js";

/** What a {@link TlsRenewal} works with. */
export interface TlsRenewalOptions {
  /** The contents that are in use. */
  readonly current: TlsFiles;
  /** Reads the files as they are now. */
  readonly read: () => Promise<TlsFiles>;
  /** Puts them to use; throws where they cannot be, and changes nothing. */
  readonly renew: (files: TlsFiles) => void;
  readonly log: Log;
  /** Between two looks. Default 30 s. */
  readonly everyMs?: number;
}

const EVERY_MS = 30_000;
const STAYS = "the certificate that is in use stays";

/**
 * Puts a certificate and key to use that were renewed while the server runs. The files are read, not watched: they may
 * be links to folders that change places, and are small.
 */
export class TlsRenewal {
  readonly #options: TlsRenewalOptions;
  readonly #timer: NodeJS.Timeout;
  /** The contents that were seen last, good or bad. */
  #seen: TlsFiles;
  /** What was said last of files that could not be read. */
  #unread = "";
  #looking: Promise<void> = Promise.resolve();

  constructor(options: TlsRenewalOptions) {
    this.#options = options;
    this.#seen = options.current;
    this.#timer = setInterval(() => void this.look(), options.everyMs ?? EVERY_MS).unref();
  }

  /** Looks whether there is a renewed pair. What is wrong with it is logged, once. */
  look(): Promise<void> {
    this.#looking = this.#looking.then(() => this.#look());
    return this.#looking;
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  async #look(): Promise<void> {
    const { read, renew, log } = this.#options;
    let files: TlsFiles;
    try {
      files = await read();
      this.#unread = "";
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      if (message !== this.#unread) log.error({ err: error }, `TLS: the files cannot be read; ${STAYS}`);
      this.#unread = message;
      return;
    }
    if (isSame(files, this.#seen)) return;
    this.#seen = files;
    try {
      renew(files);
      log.info(
        { validTo: new X509Certificate(files.cert).validTo },
        "TLS: the renewed certificate is in use",
      );
    } catch (error) {
      log.error({ err: error }, `TLS: the renewed pair is refused; ${STAYS}`);
    }
  }
}

function isSame(one: TlsFiles, other: TlsFiles): boolean {
  return (["cert", "key"] as const).every((file) => Buffer.from(one[file]).equals(Buffer.from(other[file])));
}
