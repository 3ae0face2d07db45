/**
 * What a source gives, which is read as fast as it comes, however slowly it is taken from here. Whoever stops taking has
 * to end the source as well.
 */
export async function* readAhead<T>(source: AsyncIterable<T>): AsyncGenerator<T, void, undefined> {
  const read: T[] = [];
  let wake = (): void => undefined;
  const reading = (async () => {
    for await (const item of source) {
      read.push(item);
      wake();
    }
  })();
  const end = { isThere: false };
  const ended = (): void => {
    end.isThere = true;
    wake();
  };
  reading.then(ended, ended);
  while (!end.isThere || read.length > 0) {
    yield* read.splice(0);
    if (end.isThere || read.length > 0) continue;
    await new Promise<void>((resolve) => (wake = resolve));
  }
  await reading;
}
