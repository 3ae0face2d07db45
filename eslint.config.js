import { defineConfig, globalIgnores } from "eslint/config";
import tseslint from "typescript-eslint";
import { documentedExports } from "./tools/lint/documented-exports.mjs";
import { layers } from "./tools/lint/layers.mjs";

const SOURCES = ["client/src/**/*.ts", "server/src/**/*.ts"];
const TESTS = ["test/**/*.ts"];

const trunkline = { rules: { layers, "documented-exports": documentedExports } };

/** The layer table alone: it needs no types, so a test can lint files that do not exist with it. */
export const layerConfig = defineConfig({
  files: ["**/*.ts", "examples/**/*.{js,mjs}"],
  plugins: { trunkline },
  rules: { "trunkline/layers": "error" },
});

const NO_DEFAULT_EXPORT = {
  selector: "ExportDefaultDeclaration",
  message: "Export by name: the name is then the same everywhere.",
};
const NO_EXPORT_ALL = {
  selector: "ExportAllDeclaration",
  message: "List what is exported name by name.",
};
const NO_BARE_ERROR = {
  selector: "ThrowStatement > NewExpression[callee.name='Error']",
  message: "Throw the error type of this side, with a reason from its closed set.",
};
const NO_ONLY = {
  selector: "MemberExpression[object.name=/^(describe|it|test)$/][property.name='only']",
  message: "'only' hides every other test.",
};
const NO_SLEEP = {
  selector: "NewExpression[callee.name='Promise'] CallExpression[callee.name='setTimeout']",
  message: "Wait for an event, not for time; what must sleep or time out belongs in test/support.",
};

const IMPURE = "core is pure: time, randomness and ids are inputs.";

/** What every TypeScript file keeps, with types known. */
const typed = defineConfig({
  files: ["**/*.ts"],
  extends: [tseslint.configs.strictTypeChecked, tseslint.configs.stylisticTypeChecked],
  languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
  rules: {
    eqeqeq: "error",
    "no-self-compare": "error",
    "no-template-curly-in-string": "error",
    "no-useless-rename": "error",
    "object-shorthand": "error",
    "prefer-const": "error",
    "@typescript-eslint/consistent-type-imports": "error",
    "@typescript-eslint/no-confusing-void-expression": [
      "error",
      { ignoreArrowShorthand: true, ignoreVoidOperator: true },
    ],
    "@typescript-eslint/no-unused-vars": ["error", { argsIgnorePattern: "^_", varsIgnorePattern: "^_" }],
    "@typescript-eslint/prefer-readonly": "error",
    "@typescript-eslint/no-empty-function": "off",
    // An interface may be async where one implementation has nothing to wait for.
    "@typescript-eslint/require-await": "off",
    "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true, allowBoolean: true }],
    "@typescript-eslint/switch-exhaustiveness-check": ["error", { considerDefaultExhaustiveForUnions: true }],
    // `for (;;)` and `while (true)` are how a loop waits for its own end.
    "@typescript-eslint/no-unnecessary-condition": ["error", { allowConstantLoopConditions: true }],
  },
});

const sources = defineConfig({
  files: SOURCES,
  plugins: { trunkline },
  rules: {
    "max-lines": ["error", { max: 400 }],
    "max-lines-per-function": ["error", { max: 60 }],
    "no-restricted-syntax": ["error", NO_DEFAULT_EXPORT, NO_EXPORT_ALL, NO_BARE_ERROR],
    "trunkline/documented-exports": "error",
    "@typescript-eslint/consistent-type-assertions": [
      "error",
      { assertionStyle: "as", objectLiteralTypeAssertions: "never" },
    ],
  },
});

const core = defineConfig({
  files: ["server/src/core/**/*.ts"],
  rules: {
    "no-restricted-globals": [
      "error",
      ...[
        ...["Date", "performance", "crypto", "process", "console", "fetch", "queueMicrotask"],
        ...["setTimeout", "setInterval", "setImmediate"],
        ...["clearTimeout", "clearInterval", "clearImmediate"],
      ].map((name) => ({ name, message: IMPURE })),
    ],
    "no-restricted-properties": [
      "error",
      { object: "Math", property: "random", message: IMPURE },
      { object: "globalThis", message: IMPURE },
    ],
  },
});

const tests = defineConfig(
  {
    files: TESTS,
    rules: {
      "no-restricted-syntax": ["error", NO_ONLY],
      "@typescript-eslint/no-non-null-assertion": "off",
      // `expect.any()` and parsed JSON are `any`; what is wrong in a test shows when it runs.
      "@typescript-eslint/no-unsafe-argument": "off",
      "@typescript-eslint/no-unsafe-assignment": "off",
      "@typescript-eslint/no-unsafe-member-access": "off",
      "@typescript-eslint/no-unsafe-return": "off",
    },
  },
  {
    files: TESTS,
    ignores: ["test/support/**"],
    rules: {
      "no-restricted-syntax": ["error", NO_ONLY, NO_SLEEP],
      "no-restricted-imports": [
        "error",
        { name: "node:timers/promises", message: NO_SLEEP.message },
        { name: "timers/promises", message: NO_SLEEP.message },
      ],
    },
  },
);

export default defineConfig(
  globalIgnores(["**/dist/", "gen/src/", "coverage/", "**/.trunkline/", "examples/workers/"]),
  { linterOptions: { reportUnusedDisableDirectives: "error" } },
  {
    files: ["**/*.{js,mjs}"],
    extends: [tseslint.configs.strict, tseslint.configs.stylistic],
  },
  typed,
  sources,
  core,
  tests,
  layerConfig,
);
