/**
 * Packs the built package, installs it in an empty project and uses it from JavaScript and from TypeScript, with the
 * declarations of its dependencies checked too. The crash kit kills a process from there under plain node and under vitest.
 */
import { execFileSync } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

const root = new URL("../..", import.meta.url).pathname
const { devDependencies } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"))

const program = `
import { Agent, MemoryRunStore } from "checkrein"
import { Scripted } from "checkrein/provider"
import { runStore } from "checkrein/sqlite"
import { RunStore } from "checkrein/store"
import { ToolFailure } from "checkrein/tool"
import { Effect } from "effect"

const script = Scripted.make("hello", [Scripted.text("hello")])
const agent = Agent.make("greeter", { limits: { time: "1 minute" } }).pipe(Agent.provide(Scripted.layer(script)))
const greet = Effect.map(Agent.run(agent, "hi"), ({ output }) => output)
const runs = Effect.flatMap(RunStore.RunStore, (store) => store.list())
const inMemory = await Effect.runPromise(Effect.provide(greet, MemoryRunStore.layer))
const onDisk = await Effect.runPromise(Effect.provide(Effect.andThen(greet, runs), runStore("runs.db")))
console.log([inMemory, onDisk.length, ToolFailure.recoverable("no").kind].join(" "))
`

const subject = `
import { Agent } from "checkrein"
import { Scripted } from "checkrein/provider"
import { CrashKit } from "checkrein/testing"

const script = Scripted.make("hello", [Scripted.text("hello")])
export default CrashKit.subject({ agent: Agent.make("greeter"), input: "hi", layer: Scripted.layer(script) })
`

const kill = `
import { CrashKit } from "checkrein/testing"
import { Effect } from "effect"

const module = new URL("./subject.mjs", import.meta.url)
const only = ({ point }) => point === "in model call"
const { broken, visits } = await Effect.runPromise(CrashKit.checkKilled(module, { only }))
console.log([visits[0].stops.join(), visits[0].lostTurns, broken.length].join(" "))
`

const test = `
import { assert, it } from "@effect/vitest"
import { CrashKit } from "checkrein/testing"
import { Effect } from "effect"

it.live("a killed process leaves a run that goes on", () =>
  Effect.gen(function* () {
    const module = new URL("./subject.mjs", import.meta.url)
    const { broken, visits } = yield* CrashKit.checkKilled(module, { only: ({ point }) => point === "in model call" })
    assert.deepStrictEqual(broken, [])
    assert.deepStrictEqual(visits.map(({ stops }) => stops), [["killed"]])
  }), 60_000)
`

const options = {
  compilerOptions: {
    module: "nodenext",
    target: "es2024",
    strict: true,
    exactOptionalPropertyTypes: true,
    skipLibCheck: false,
    noEmit: true,
    types: ["node"]
  },
  include: ["main.ts"]
}

const folder = mkdtempSync(join(tmpdir(), "checkrein-package-"))
const inFolder = (command: string, ...args: ReadonlyArray<string>): string =>
  execFileSync(command, args, { cwd: folder, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] }).trim()

try {
  const packed = execFileSync("npm", ["pack", "--ignore-scripts", "--silent", "--pack-destination", folder], {
    cwd: root,
    encoding: "utf8"
  })
  writeFileSync(
    join(folder, "package.json"),
    JSON.stringify({ name: "consumer", private: true, type: "module" })
  )
  const versions = ["effect", "typescript", "@types/node", "vitest", "@effect/vitest"].map(
    (name) => `${name}@${devDependencies[name]}`
  )
  inFolder("npm", "install", "--silent", "--no-audit", "--no-fund", packed.trim(), ...versions)
  writeFileSync(join(folder, "main.mjs"), program)
  writeFileSync(join(folder, "main.ts"), program)
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify(options))
  const said = inFolder(process.execPath, "--no-warnings", "main.mjs")
  if (said !== "hello 1 recoverable") throw new Error(`the installed package says: ${said}`)
  writeFileSync(join(folder, "subject.mjs"), subject)
  writeFileSync(join(folder, "kill.mjs"), kill)
  const killed = inFolder(process.execPath, "--no-warnings", "kill.mjs")
  if (killed !== "killed 1 0") throw new Error(`the crash kit of the installed package says: ${killed}`)
  writeFileSync(join(folder, "kill.test.mjs"), test)
  inFolder(process.execPath, join("node_modules", "vitest", "vitest.mjs"), "run")
  inFolder(process.execPath, join("node_modules", "typescript", "bin", "tsc"))
  inFolder(
    process.execPath,
    "--no-warnings",
    join("node_modules", "checkrein", "dist", "cli", "main.js"),
    "--version"
  )
  console.log("the packed package works from JavaScript, from TypeScript and as a command")
} finally {
  rmSync(folder, { recursive: true, force: true })
}
