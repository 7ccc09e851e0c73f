/**
 * Type-checks every example of the README and of the docstrings against the package as a user imports it.
 */
import { spawnSync } from "node:child_process"
import { cpSync, globSync, mkdirSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { docstrings, readme, root } from "./snippets.ts"

const folder = join(root, "node_modules", ".cache", "checkrein-examples")
rmSync(folder, { recursive: true, force: true })
mkdirSync(folder, { recursive: true })

// A block of the README may import another one, which stands in a file here.
for (const file of globSync("*.ts", { cwd: import.meta.dirname })) {
  if (!file.endsWith(".test.ts")) cpSync(join(import.meta.dirname, file), join(folder, file))
}

const places = new Map<string, string>()
for (const { code, file, line } of [...readme(), ...docstrings()]) {
  const name = `${file.replaceAll(/[^A-Za-z0-9]/g, "_")}_${line}.ts`
  places.set(name, `${file}:${line}`)
  writeFileSync(join(folder, name), `${code}\nexport {}\n`)
}
// The examples stand inside the project so that the package's own name resolves; the sources need no second check.
const options = {
  extends: join(root, "tsconfig.json"),
  compilerOptions: { noUnusedLocals: false, noUnusedParameters: false },
  include: [join(folder, "*.ts")]
}
writeFileSync(join(folder, "tsconfig.json"), JSON.stringify(options))

const { status, stdout } = spawnSync(join(root, "node_modules", ".bin", "tsc"), ["--noEmit", "-p", folder], {
  encoding: "utf8",
  cwd: root
})
if (status !== 0) {
  let shown = stdout
  for (const [name, place] of places) shown = shown.replaceAll(new RegExp(`\\S*${name}`, "g"), place)
  process.stderr.write(`examples do not type-check:\n${shown}`)
  process.exitCode = 1
} else {
  process.stdout.write(`${places.size} examples type-check\n`)
}
