/**
 * The `checkrein` command as a process: arguments, signals, exit code.
 *
 * Ctrl-C or SIGTERM once stops what runs, which then says how it can be resumed; a second time ends the process at once.
 * Without arguments it is the tour: what `npm start` shows.
 */
import { readFileSync } from "node:fs"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Checkrein from "./Checkrein.ts"
import * as Output from "./Output.ts"

const { version }: { readonly version: string } = JSON.parse(
  readFileSync(new URL("../../package.json", import.meta.url), "utf8")
)

// A command that waits for something is not over, also if nothing else keeps this process alive.
const alive = setInterval(() => {}, 2 ** 30)

const args = process.argv.slice(2)
const fiber = Effect.runFork(Effect.provide(Checkrein.run(args, version), NodeServices.layer))

let ending: Output.ExitCode | undefined

/** Ends this process: nobody else is to do so. */
const end = (code: Output.ExitCode): never => {
  ending = code
  process.exit()
}

let signalled: { readonly code: Output.ExitCode; readonly atMs: number } | undefined

// `npm start` passes on a signal that the terminal has sent to this process as well: that is one Ctrl-C, not two.
const echoMs = 500

const onSignal = (reason: string, code: Output.ExitCode) => () => {
  if (signalled !== undefined) {
    if (performance.now() - signalled.atMs > echoMs) end(code)
    return
  }
  signalled = { code, atMs: performance.now() }
  // Loaded already if something runs that can be told the reason.
  void import("../Agent.ts").then(({ CancelReason }) =>
    fiber.interruptUnsafe(fiber.id, Context.make(CancelReason, reason))
  )
}

process.on("SIGINT", onSignal("Ctrl-C", Output.exitCodes.interrupted))
process.on("SIGTERM", onSignal("SIGTERM", Output.exitCodes.terminated))

let thrown = false

process.on("uncaughtExceptionMonitor", () => {
  // Node prints it, and ends this process, if nobody listens.
  thrown ||= process.listenerCount("uncaughtException") === 0
})

process.on("exit", () => {
  process.exitCode = ending ?? signalled?.code ?? Output.exitCodes.error
  if (ending !== undefined || thrown) return
  // Without a word, and with the code of success perhaps, a run that was cut off would be taken for one that is done.
  const problem =
    "ended by a call of process.exit before it was done: the agent's module, or what it loads, must not make one; a run that it drove can be resumed"
  Effect.runSync(Output.failed(Checkrein.asksForJson(args), "ProcessExit", problem))
})

// What happens is shown as it goes: a run does not depend on somebody who looks.
process.stderr.on("error", () => {})

let enough = false
let unwritten = false

process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code === "EPIPE") {
    // Whoever reads the output has had enough of it: a command that has more to print is done.
    enough ||= fiber.pollUnsafe() === undefined
  } else if (!unwritten) {
    unwritten = true
    console.error(`checkrein: the output could not be written: ${Output.sentenceOf(error)}`)
  }
  fiber.interruptUnsafe(fiber.id)
})

const codeOf = (exit: Exit.Exit<Output.ExitCode>): Output.ExitCode => {
  if (unwritten) return Output.exitCodes.error
  if (signalled !== undefined) return signalled.code
  if (enough) return Output.exitCodes.ok
  return Exit.isSuccess(exit) ? exit.value : Output.exitCodes.error
}

fiber.addObserver((exit) => {
  clearInterval(alive)
  // An agent's module may have left something running; what was printed has to be out, though, or said not to be: the
  // error of a write is told a moment after the write has ended.
  process.stdout.write("", () => setImmediate(() => end(codeOf(exit))))
})
