/**
 * A process that runs a subject until it comes to a seam, and kills itself there; and whoever starts it.
 */
import { spawn } from "node:child_process"
import { flushCompileCache } from "node:module"
import { fileURLToPath } from "node:url"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { RunStore } from "../../store/RunStore.ts"
import * as Module from "./Module.ts"
import { name, Seam } from "./Seam.ts"
import * as Witness from "./Witness.ts"

/** What the process is told. */
const Orders = Schema.Struct({
  module: Schema.String,
  store: Schema.String,
  witness: Schema.String,
  runId: Schema.String,
  clock: Schema.Literals(["test", "live"]),
  seam: Seam,
  telling: Schema.Array(Schema.String)
})
type Orders = typeof Orders.Type

const variable = "CHECKREIN_CRASH_KIT"

/** Carries out the orders in the environment. Its success is death; a run that never comes to the seam is a failure. */
export const obey = Effect.gen(function* () {
  const orders = yield* Schema.decodeUnknownEffect(Schema.fromJsonString(Orders))(process.env[variable])
  const { clock, witness, module, runId, seam, store: where, telling } = orders
  const subject = yield* Module.load(module)
  // The dead leave nothing behind, and the next one need not compile all this again.
  flushCompileCache()
  const { observation } = yield* Effect.gen(function* () {
    return yield* subject.observe({
      store: yield* RunStore,
      runId,
      witness: Witness.file(witness),
      clock,
      telling: new Set(telling),
      orphaned: false,
      fault: { seam, way: "kill" }
    })
  }).pipe(Effect.provide(Module.storeAt(where)))
  const { problem, tag } = observation.ending
  const ended = `its run ended as ${tag} before it came to ${name(seam)}`
  return yield* new Module.KillFailed({ module, problem: problem === "" ? ended : `${ended}: ${problem}` })
})

/**
 * Runs a subject in a process of its own until that is killed. Code that is compiled is kept in the folder `cache`, for
 * most of the life of such a process is its start.
 */
export const kill = (
  orders: Orders,
  flags: ReadonlyArray<string>,
  cache: string
): Effect.Effect<void, Module.KillFailed> =>
  Effect.callback((resume) => {
    // As it is published, wherever this module is put then, or as it is in development.
    const main = import.meta.url.endsWith(".ts") ? "./VictimMain.ts" : "../testing/crash/VictimMain.js"
    const entry = new URL(main, import.meta.url)
    const child = spawn(process.execPath, ["--no-warnings", ...flags, fileURLToPath(entry)], {
      stdio: ["ignore", "pipe", "pipe"],
      env: { NODE_COMPILE_CACHE: cache, ...process.env, [variable]: JSON.stringify(orders) }
    })
    // What it has to say for itself goes to either, as the log does.
    let said = ""
    for (const stream of [child.stdout, child.stderr]) {
      stream.on("data", (chunk) => {
        said += chunk
      })
    }
    const failed = (problem: string) =>
      resume(Effect.fail(new Module.KillFailed({ module: orders.module, problem })))
    child.on("error", (error) => failed(String(error)))
    child.on("close", (code, signal) => {
      if (signal === "SIGKILL") resume(Effect.void)
      else failed(said === "" ? `it ended with ${signal ?? code}` : said)
    })
    return Effect.sync(() => child.kill("SIGKILL"))
  })
