/** A statement that is prepared once per connection, by its name. */
export interface Statement {
  readonly name: string;
  readonly text: string;
}

const made = new Map<string, Statement>();

/**
 * Makes a statement. Each name is used once: a connection keeps the first text that it saw under a name.
 * Values only ever come as parameters.
 */
export function statement(name: string, text: string): Statement {
  const one: Statement = { name, text };
  made.set(name, one);
  return one;
}

/** All statements of the modules that are loaded, for tests that look at every one. */
export function allStatements(): readonly Statement[] {
  return [...made.values()];
}
