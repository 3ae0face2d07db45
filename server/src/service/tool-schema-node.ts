/** What one check may cost, in units of about ten nanoseconds. */
export const WORK_UNITS = 20_000_000;

/** What applying one schema to one value costs at least. */
const UNITS_PER_NODE = 4;

/** What remembering one more member or item that was looked at costs. */
const UNITS_PER_EVALUATED = 20;

/** What listing a member costs in a small object, and in a large one, which is a hash table. */
const UNITS_PER_NAME = 4;
const UNITS_PER_NAME_OF_MANY = 40;
const MANY_NAMES = 1_000;

/**
 * How deep schemas may be applied inside each other. Inputs nest up to 256 levels, and a recursive
 * schema applies two to four schemas at each; the default stack bears nearly twice this.
 */
const MAX_NESTING = 1_100;

/** Thrown out of a check that costs too much; it never leaves the schema's own `check`. */
export class TooMuchWork extends Error {
  override readonly name = "TooMuchWork";
}

/** The bounds of one check. */
export class Run {
  private left = WORK_UNITS;
  private nesting = 0;

  /** Takes `units` off what is left. Called before the work is done. */
  charge(units: number): void {
    this.left -= units;
    if (this.left < 0) {
      throw new TooMuchWork("takes too much work to check against the tool's schema");
    }
  }

  enter(): void {
    if (++this.nesting > MAX_NESTING) {
      throw new TooMuchWork("nests too deeply to be checked against the tool's schema");
    }
    this.charge(UNITS_PER_NODE);
  }

  leave(): void {
    this.nesting--;
  }
}

/** Why a value does not satisfy a schema. */
export interface Failure {
  /** What is required, to follow the place: "must be a string". */
  readonly must: string;
  readonly value: unknown;
  /** Whether a choice between fixed values failed, so that another alternative was probably meant. */
  readonly isChoice: boolean;
  /** Names and indexes that lead to the value, the innermost first. */
  readonly path: (string | number)[];
}

/** Makes a failure at the value itself. */
export function failure(must: string, value: unknown, isChoice = false): Failure {
  return { must, value, isChoice, path: [] };
}

/** Moves a failure one level out: it happened under `segment`. */
export function under(segment: string | number, inner: Failure): Failure {
  inner.path.push(segment);
  return inner;
}

/** Which members of one object or array some schema has looked at, for `unevaluated…`. */
export class Evaluated {
  readonly names = new Set<string>();
  readonly indexes = new Set<number>();
  /** Items before this index. */
  itemsBefore = 0;

  addItemsBefore(count: number): void {
    if (count > this.itemsBefore) this.itemsBefore = count;
  }

  /** Alternatives inside each other tell the same members again and again, so that is charged. */
  addAll(other: Evaluated, run: Run): void {
    run.charge((other.names.size + other.indexes.size) * UNITS_PER_EVALUATED);
    for (const name of other.names) this.names.add(name);
    for (const index of other.indexes) this.indexes.add(index);
    this.addItemsBefore(other.itemsBefore);
  }
}

/** An object as JSON has it. Only its own members count. */
export type JsonObject = Readonly<Record<string, unknown>>;

/**
 * Applies keywords to a value. Reports looked-at members to `evaluated` where it is given; what is
 * reported by a failing check is dropped by whoever gave it.
 */
export type Check<Value = unknown> = (
  value: Value,
  run: Run,
  evaluated: Evaluated | undefined,
) => Failure | undefined;

const NO_CHECKS: readonly Check[] = [];

/** Whether a value is an object as JSON has it, and neither an array nor null. */
export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The names of an object's members; listing them is charged. */
export function namesOf(value: JsonObject, run: Run): string[] {
  const names = Object.keys(value);
  run.charge(names.length * (names.length < MANY_NAMES ? UNITS_PER_NAME : UNITS_PER_NAME_OF_MANY));
  return names;
}

/** One schema, as the checks of its keywords, sorted by the kind of value that they apply to. */
export class SchemaNode {
  /** Where it stands in the schema, as a URI fragment. */
  readonly place: string;
  readonly any: Check[] = [];
  readonly strings: Check<string>[] = [];
  readonly numbers: Check<number>[] = [];
  readonly arrays: Check<readonly unknown[]>[] = [];
  readonly objects: Check<JsonObject>[] = [];
  /** `unevaluated…`: after all others, and given what those have looked at. */
  readonly last: Check[] = [];
  /** Schemas that this one applies to the same value. */
  readonly inPlace: SchemaNode[] = [];

  constructor(place: string) {
    this.place = place;
  }

  /** Applies the schema to a value. All in one function, since in a deep input each frame counts. */
  check(value: unknown, run: Run, evaluated: Evaluated | undefined): Failure | undefined {
    run.enter();
    const own = this.last.length > 0 ? new Evaluated() : evaluated;
    let found: Failure | undefined;
    for (const check of this.any) {
      found = check(value, run, own);
      if (found !== undefined) break;
    }
    if (found === undefined) {
      for (const check of this.checksFor(value)) {
        found = check(value, run, own);
        if (found !== undefined) break;
      }
    }
    if (found === undefined) {
      for (const check of this.last) {
        found = check(value, run, own);
        if (found !== undefined) break;
      }
      if (own !== evaluated && own !== undefined) evaluated?.addAll(own, run);
    }
    run.leave();
    return found;
  }

  /** The checks for values of this one's kind. The casts are sound for this value, which is of it. */
  private checksFor(value: unknown): readonly Check[] {
    if (typeof value === "string") return this.strings as readonly Check[];
    if (typeof value === "number") return this.numbers as readonly Check[];
    if (Array.isArray(value)) return this.arrays as readonly Check[];
    return isJsonObject(value) ? (this.objects as readonly Check[]) : NO_CHECKS;
  }
}
