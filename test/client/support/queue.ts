/** Values that are put in by one side and awaited by the other. */
export class Queue<T> {
  readonly #values: T[] = [];
  readonly #takers: { resolve: (value: T) => void; reject: (error: Error) => void }[] = [];
  #closed: Error | undefined;

  put(value: T): void {
    const taker = this.#takers.shift();
    if (taker === undefined) this.#values.push(value);
    else taker.resolve(value);
  }

  close(error: Error): void {
    this.#closed = error;
    for (const { reject } of this.#takers.splice(0)) reject(error);
  }

  take(): Promise<T> {
    if (this.#values.length > 0) return Promise.resolve(this.#values.shift() as T);
    if (this.#closed !== undefined) return Promise.reject(this.#closed);
    return new Promise((resolve, reject) => this.#takers.push({ resolve, reject }));
  }

  /** Takes what is there without waiting. */
  drain(): T[] {
    return this.#values.splice(0);
  }
}
