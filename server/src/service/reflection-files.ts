import { toBinary, type DescFile, type DescService } from "@bufbuild/protobuf";
import {
  FileDescriptorProtoSchema,
  type DescriptorProto,
  type EnumDescriptorProto,
  type FieldDescriptorProto,
} from "@bufbuild/protobuf/wkt";

/** The files that declare services, and all that they import, by what a client can ask for. */
export class ReflectionFiles {
  /** Fully qualified names of the services, in alphabetical order. */
  readonly services: readonly string[];
  readonly #files = new Map<string, DescFile>();
  readonly #symbols = new Map<string, DescFile>();
  /** By the message that they extend, then by number; of a message that nobody extends it is empty. */
  readonly #extensions = new Map<string, Map<number, DescFile>>();
  readonly #bytes = new Map<DescFile, Uint8Array>();

  constructor(services: readonly DescService[]) {
    this.services = services.map(({ typeName }) => typeName).sort();
    for (const { file } of services) this.#addFile(file);
  }

  /**
   * A file as `FileDescriptorProto`s: itself first, then all that it imports, each once and before what it imports
   * itself; undefined where there is none.
   */
  named(name: string): Uint8Array[] | undefined {
    return this.#withImports(this.#files.get(name));
  }

  /** The file that declares a service, method, type, field, oneof or enum value. */
  declaring(symbol: string): Uint8Array[] | undefined {
    return this.#withImports(this.#symbols.get(symbol));
  }

  /** The file that declares an extension. */
  extending(typeName: string, number: number): Uint8Array[] | undefined {
    return this.#withImports(this.#extensions.get(typeName)?.get(number));
  }

  /** The numbers with which a message is extended; undefined where there is no such message. */
  extensionNumbers(typeName: string): number[] | undefined {
    const extensions = this.#extensions.get(typeName);
    return extensions === undefined ? undefined : [...extensions.keys()];
  }

  #addFile(file: DescFile): void {
    const { proto } = file;
    if (this.#files.has(proto.name)) return;
    this.#files.set(proto.name, file);
    const scope = proto.package === "" ? "" : `${proto.package}.`;
    for (const message of proto.messageType) this.#addMessage(message, scope, file);
    for (const each of proto.enumType) this.#addEnum(each, scope, file);
    this.#addExtensions(proto.extension, scope, file);
    for (const service of proto.service) {
      this.#add([service], scope, file);
      this.#add(service.method, `${scope}${service.name}.`, file);
    }
    for (const imported of file.dependencies) this.#addFile(imported);
  }

  #addMessage(message: DescriptorProto, scope: string, file: DescFile): void {
    this.#add([message], scope, file);
    this.#extensionsOf(scope + message.name);
    const inside = `${scope}${message.name}.`;
    this.#add([...message.field, ...message.oneofDecl], inside, file);
    this.#addExtensions(message.extension, inside, file);
    for (const nested of message.nestedType) this.#addMessage(nested, inside, file);
    for (const each of message.enumType) this.#addEnum(each, inside, file);
  }

  /** By Protobuf's rule the values of an enum are its siblings. */
  #addEnum(each: EnumDescriptorProto, scope: string, file: DescFile): void {
    this.#add([each, ...each.value], scope, file);
  }

  #addExtensions(extensions: readonly FieldDescriptorProto[], scope: string, file: DescFile): void {
    this.#add(extensions, scope, file);
    // Compilers write the full name of what is extended, with a dot before it.
    for (const { extendee, number } of extensions) this.#extensionsOf(extendee.slice(1)).set(number, file);
  }

  #add(symbols: readonly { readonly name: string }[], scope: string, file: DescFile): void {
    for (const { name } of symbols) this.#symbols.set(scope + name, file);
  }

  #extensionsOf(typeName: string): Map<number, DescFile> {
    const known = this.#extensions.get(typeName) ?? new Map<number, DescFile>();
    this.#extensions.set(typeName, known);
    return known;
  }

  #withImports(file: DescFile | undefined): Uint8Array[] | undefined {
    if (file === undefined) return undefined;
    const files = new Set<DescFile>();
    const visit = (each: DescFile): void => {
      for (const imported of each.dependencies) if (!files.has(imported)) visit(imported);
      files.add(each);
    };
    visit(file);
    return [...files].reverse().map((each) => this.#bytesOf(each));
  }

  #bytesOf(file: DescFile): Uint8Array {
    const known = this.#bytes.get(file) ?? toBinary(FileDescriptorProtoSchema, file.proto);
    this.#bytes.set(file, known);
    return known;
  }
}
