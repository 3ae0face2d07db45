import {
  create,
  ScalarType,
  type DescField,
  type DescMessage,
  type DescOneof,
  type Message,
} from "@bufbuild/protobuf";
import { reflect, type ReflectMessage } from "@bufbuild/protobuf/reflect";

/**
 * Messages of a type that between them use every field of it and of what is in it, and every case of its oneofs. The
 * same ones each time.
 */
export function examplesOf(desc: DescMessage): Message[] {
  return Array.from(
    { length: variantsOf(desc, new Set()) },
    (_, variant) => exampleOf(desc, variant).message,
  );
}

/** How many examples it takes to use every case of every oneof; two at least, so that values differ. */
function variantsOf(desc: DescMessage, within: ReadonlySet<DescMessage>): number {
  if (within.has(desc)) return 2;
  const inside = new Set([...within, desc]);
  const nested = desc.fields.map(({ message }) => (message === undefined ? 0 : variantsOf(message, inside)));
  return Math.max(2, ...nested, ...desc.oneofs.map(({ fields }) => fields.length));
}

function exampleOf(desc: DescMessage, variant: number): ReflectMessage {
  const example = reflect(desc, create(desc));
  for (const member of desc.members) setMember(example, member, variant);
  return example;
}

function setMember(example: ReflectMessage, member: DescField | DescOneof, variant: number): void {
  if (member.kind === "oneof") {
    const field = member.fields[variant % member.fields.length];
    if (field !== undefined) setMember(example, field, variant);
    return;
  }
  switch (member.fieldKind) {
    case "message":
      example.set(member, exampleOf(member.message, variant));
      break;
    case "enum":
      example.set(member, enumValue(member.enum.values, variant));
      break;
    case "scalar":
      example.set(member, scalarValue(member.scalar, member.name, variant));
      break;
    case "list":
      for (const each of [variant, variant + 1]) example.get(member).add(itemValue(member, each));
      break;
    case "map":
      example.get(member).set("name", `${member.name} ${variant}`);
      break;
  }
}

function itemValue(field: DescField & { fieldKind: "list" }, variant: number): unknown {
  switch (field.listKind) {
    case "message":
      return exampleOf(field.message, variant);
    case "enum":
      return enumValue(field.enum.values, variant);
    case "scalar":
      return scalarValue(field.scalar, field.name, variant);
  }
}

/** Any but the first, which is the default. */
function enumValue(values: readonly { readonly number: number }[], variant: number): number {
  return values[1 + (variant % (values.length - 1))]?.number ?? 0;
}

function scalarValue(type: ScalarType, name: string, variant: number): unknown {
  switch (type) {
    case ScalarType.STRING:
      return `${name} ${variant} ü 😀`;
    case ScalarType.BYTES:
      return new Uint8Array([0, variant, 255]);
    case ScalarType.BOOL:
      return true;
    case ScalarType.DOUBLE:
    case ScalarType.FLOAT:
      return variant + 0.5;
    case ScalarType.UINT64:
    case ScalarType.FIXED64:
      return 2n ** 53n + BigInt(variant) + 1n;
    case ScalarType.INT64:
    case ScalarType.SINT64:
    case ScalarType.SFIXED64:
      return 1_700_000_000n + BigInt(variant);
    case ScalarType.SINT32:
      return -100 - variant;
    case ScalarType.INT32:
    case ScalarType.SFIXED32:
      return 500_000_000 + variant;
    case ScalarType.UINT32:
    case ScalarType.FIXED32:
      return 2 ** 32 - 1 - variant;
  }
}
