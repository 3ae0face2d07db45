/**
 * The operating system's code of an error, such as `ENOENT`. It does not ask for an instance of `Error`: Jest gives its
 * tests one of their own, and Node throws the other.
 */
export function errorCode(error: unknown): unknown {
  return typeof error === "object" && error !== null && "code" in error ? error.code : undefined;
}
