/**
 * Reports an exported declaration without a doc comment.
 *
 * @type {import("eslint").Rule.RuleModule}
 */
export const documentedExports = {
  meta: {
    type: "suggestion",
    schema: [],
    messages: { undocumented: "an export needs a doc comment: what it promises, its units, when it fails" },
  },
  create(context) {
    const source = context.sourceCode;
    /** @type {Set<string>} The functions documented so far: one comment serves all overloads. */
    const documented = new Set();

    return {
      /** @param {any} node */
      ExportNamedDeclaration(node) {
        const { declaration } = node;
        if (!declaration) return;
        const name = declaration.id?.name;
        const comment = source.getCommentsBefore(node).at(-1);
        if (comment?.type === "Block" && comment.value.startsWith("*")) {
          if (name !== undefined) documented.add(name);
        } else if (name === undefined || !documented.has(name)) {
          context.report({ node: declaration, messageId: "undocumented" });
        }
      },
    };
  },
};
