// Each way into the package is one file and what it shares with the others: loading a file for each module would take
// longer than running them.
const entries = [
  "index",
  "tool/index",
  "provider/index",
  "store/index",
  "store/NodeSqlite",
  "store/Postgres",
  "testing/index",
  "testing/crash/VictimMain",
  "cli/main"
]

export default {
  input: Object.fromEntries(entries.map((name) => [name, `src/${name}.ts`])),
  platform: "node",
  // The package has none for those who import it; the command's own process has.
  treeshake: { moduleSideEffects: () => true },
  external: /^(node:|effect|@effect\/|js-tiktoken)/,
  output: {
    dir: "dist",
    format: "esm",
    entryFileNames: "[name].js",
    chunkFileNames: "chunks/[name].js",
    sourcemap: true
  }
}
