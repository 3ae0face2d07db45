import { quoted } from "../core/json-text.js";
import { addArrayKeywords } from "./tool-schema-arrays.js";
import { addCombinators, addReference } from "./tool-schema-combinators.js";
import { failure, isJsonObject, SchemaNode, type JsonObject } from "./tool-schema-node.js";
import { addObjectKeywords } from "./tool-schema-objects.js";
import { refuseSchema, SchemaReader, type SchemaContext } from "./tool-schema-reader.js";
import { addScalarKeywords } from "./tool-schema-scalars.js";
import { shortForm } from "./tool-schema-text.js";

const OLD_DIALECT = /^https?:\/\/json-schema\.org\/draft-0[67]\/schema#?$/;
const NEW_DIALECT = /^https:\/\/json-schema\.org\/draft\/(?:2019-09|2020-12)\/schema#?$/;

/** They choose a schema while checking, by the path that led there, which no tool needs. */
const REFUSED_KEYWORDS = ["$dynamicRef", "$recursiveRef"];

const ALLOWED_REF = "allowed are # and references within the schema: #/pointer, #anchor";

/** Turns a schema into nodes, each once, whatever refers to it. */
class SchemaCompiler implements SchemaContext {
  readonly where: string;
  patternSize = 0;
  private readonly root: unknown;
  private readonly isOldDialect: boolean;
  private readonly nodes = new Map<unknown, SchemaNode>();
  private readonly unfinished: (readonly [JsonObject, SchemaNode])[] = [];
  private anchors: ReadonlyMap<string, unknown> | undefined;

  constructor(root: unknown, where: string) {
    this.root = root;
    this.where = where;
    this.isOldDialect = this.readDialect();
  }

  compile(): SchemaNode {
    const root = this.node(this.root, "#");
    // A queue, because references make chains that would exhaust the stack.
    for (let next = this.unfinished.pop(); next !== undefined; next = this.unfinished.pop()) {
      this.addKeywords(...next);
    }
    this.refuseCycles();
    return root;
  }

  node(schema: unknown, place: string): SchemaNode {
    if (typeof schema === "boolean") {
      const constant = new SchemaNode(place);
      if (!schema) constant.any.push((value) => failure("is not allowed", value));
      return constant;
    }
    if (!isJsonObject(schema)) {
      const why = `must be a schema (an object, true or false), got ${shortForm(schema)}`;
      throw refuseSchema(this.where, place, why);
    }
    const known = this.nodes.get(schema);
    if (known !== undefined) return known;
    const node = new SchemaNode(place);
    this.nodes.set(schema, node);
    this.unfinished.push([schema, node]);
    return node;
  }

  resolve(ref: string, place: string): SchemaNode {
    if (!ref.startsWith("#")) {
      throw refuseSchema(this.where, place, `${quoted(ref)} is not in the schema; ${ALLOWED_REF}`);
    }
    const target = this.find(ref);
    if (target === undefined) {
      throw refuseSchema(this.where, place, `${quoted(ref)} leads nowhere; ${ALLOWED_REF}`);
    }
    return this.node(target, ref);
  }

  private readDialect(): boolean {
    const dialect =
      isJsonObject(this.root) && Object.hasOwn(this.root, "$schema") ? this.root["$schema"] : undefined;
    if (dialect === undefined) return false;
    if (typeof dialect === "string") {
      if (OLD_DIALECT.test(dialect)) return true;
      if (NEW_DIALECT.test(dialect)) return false;
    }
    const allowed = "allowed are JSON Schema 2020-12 (the default), 2019-09, draft-07 and draft-06";
    throw refuseSchema(this.where, "#/$schema", `${shortForm(dialect)} is not known; ${allowed}`);
  }

  private addKeywords(schema: JsonObject, node: SchemaNode): void {
    const reader = new SchemaReader(schema, node.place, this);
    for (const keyword of REFUSED_KEYWORDS) {
      if (reader.has(keyword)) throw reader.refuse(keyword, "is not supported; use $ref");
    }
    const id = reader.string("$id");
    if (id !== undefined && !id.startsWith("#") && schema !== this.root) {
      throw reader.refuse("$id", "is allowed only at the top, since references stay in the schema");
    }
    addReference(reader, node);
    // Until 2019, what stood beside a reference was ignored.
    if (this.isOldDialect && reader.has("$ref")) return;
    addScalarKeywords(reader, node);
    addCombinators(reader, node);
    addObjectKeywords(reader, node);
    addArrayKeywords(reader, node);
  }

  private find(ref: string): unknown {
    let fragment: string;
    try {
      fragment = decodeURIComponent(ref.slice(1));
    } catch {
      return undefined;
    }
    if (fragment === "") return this.root;
    if (!fragment.startsWith("/")) {
      this.anchors ??= collectAnchors(this.root);
      return this.anchors.get(fragment);
    }
    let found = this.root;
    for (const escaped of fragment.slice(1).split("/")) {
      const segment = escaped.replaceAll("~1", "/").replaceAll("~0", "~");
      if (typeof found !== "object" || found === null || !Object.hasOwn(found, segment)) {
        return undefined;
      }
      found = Array.isArray(found) ? found[Number(segment)] : Reflect.get(found, segment);
    }
    return found;
  }

  /** Refuses schemas that lead back to themselves at the same value: they could never be decided. */
  private refuseCycles(): void {
    const open = new Set<SchemaNode>();
    const closed = new Set<SchemaNode>();
    for (const start of this.nodes.values()) {
      const stack = [{ node: start, next: 0 }];
      for (let top = stack.at(-1); top !== undefined; top = stack.at(-1)) {
        open.add(top.node);
        const target = top.node.inPlace[top.next++];
        if (target === undefined) {
          closed.add(top.node);
          open.delete(top.node);
          stack.pop();
        } else if (open.has(target)) {
          const why = "leads back to itself without looking into the value; this could never end";
          throw refuseSchema(this.where, target.place, why);
        } else if (!closed.has(target)) {
          stack.push({ node: target, next: 0 });
        }
      }
    }
  }
}

/** Schemas by the names that `$anchor`, or `$id` in draft-07, gives them. */
function collectAnchors(root: unknown): ReadonlyMap<string, unknown> {
  const anchors = new Map<string, unknown>();
  const visit = (value: unknown): void => {
    if (Array.isArray(value)) for (const item of value) visit(item);
    if (!isJsonObject(value)) return;
    const { $anchor: anchor, $id: id } = value;
    if (typeof anchor === "string") anchors.set(anchor, value);
    if (typeof id === "string" && id.startsWith("#")) anchors.set(id.slice(1), value);
    for (const member of Object.values(value)) visit(member);
  };
  visit(root);
  return anchors;
}

/**
 * Turns a parsed schema into the node that checks values against it. The schema must not nest
 * deeper than the stack bears.
 *
 * @throws TrunklineError SCHEMA_VIOLATION for a schema that is malformed or asks for too much
 */
export function compileSchema(root: unknown, where: string): SchemaNode {
  return new SchemaCompiler(root, where).compile();
}
