/**
 * `checkrein runs recover`: takes over the runs that nobody drives although they have not stopped, which is what a
 * process leaves behind that has died, or although people have answered what they waited for; and drives them until they
 * stop.
 */

import * as Cause from "effect/Cause"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Semaphore from "effect/Semaphore"
import * as Agent from "../../Agent.ts"
import { definitionOf } from "../../loop/AgentHandle.ts"
import * as Runs from "../../loop/Runs.ts"
import { alone } from "../../loop/Surroundings.ts"
import * as Unattended from "../../loop/Unattended.ts"
import * as Wanted from "../../loop/Wanted.ts"
import { colorsOn, prettyInTurn } from "../../observe/Pretty.ts"
import * as RunTrace from "../../observe/RunTrace.ts"
import { plain } from "../../run/PlainText.ts"
import type { RunState } from "../../run/RunState.ts"
import { RunBusy, type RunSummary } from "../../store/RunStore.ts"
import * as AgentOf from "../AgentOf.ts"
import * as Drive from "../Drive.ts"
import { hint } from "../Hint.ts"
import * as LimitFlags from "../LimitFlags.ts"
import * as Models from "../Models.ts"
import * as Output from "../Output.ts"
import type * as Flags from "./Flags.ts"
import * as Recovery from "./Recovery.ts"
import * as StoredRun from "./StoredRun.ts"

/** What happens, with the run that it happens to. */
const progress = Layer.effect(
  RunTrace.RunTrace,
  Effect.gen(function* () {
    const console = yield* Console.Console
    const pretty = prettyInTurn({ colors: yield* colorsOn("stderr") })
    return {
      write: (event) => {
        const text = pretty(event)
        if (text !== undefined) console.error(`${plain(event.runId)}  ${text}`)
      }
    }
  })
)

const elsewhere = "another process drives it"

/** How one run is taken over; what becomes of it is written down, also while it is driven. */
const takingOver = Effect.fnUntraced(function* (
  input: Flags.Recover,
  record: (outcome: Recovery.Outcome) => void
) {
  const { agent, model } = input
  const agentOf = yield* AgentOf.finder(agent)
  const slots = yield* Semaphore.make(input.concurrency)
  const waiting = yield* Effect.cached(
    Output.note(
      `Some runs are driven by another process, or that process has died: waiting, ${yield* StoredRun.deadFor} s at most.`
    )
  )
  const limits = LimitFlags.given(input)
  // What stands in for an endpoint says so, once.
  const models = {
    script: yield* Effect.cached(Layer.build(Models.layer(model, "script"))),
    nothing: yield* Effect.cached(Layer.build(Models.layer(model, "nothing")))
  }
  const left = (run: RunSummary, why: string) => record({ _tag: "Left", run, why })
  const failed = (run: RunSummary, error: unknown) =>
    record({ _tag: "Failed", run, error: hint(input)(error) })
  return (run: RunSummary) =>
    Effect.gen(function* () {
      const found = yield* agentOf(run)
      if (!(yield* StoredRun.outlived(run, waiting))) return left(run, elsewhere)
      // Somebody may have stopped it, or driven it on, until this has the right to drive it.
      const isWanted = (now: RunState) => {
        const wanted = Wanted.isWanted(Wanted.recovering(run), now)
        if (!wanted) left(run, "it has stopped meanwhile")
        return wanted
      }
      const driving = Effect.gen(function* () {
        record({ _tag: "Driven", run, module: found.module })
        const around = { ...alone, isWanted }
        yield* Agent.outcome(Runs.resume(definitionOf(found.agent), run.runId, { limits }, around)).pipe(
          Effect.provide(yield* models[found.standIn])
        )
      })
      yield* slots.withPermit(driving)
    }).pipe(
      Effect.catchCause((cause) =>
        Effect.sync(() => {
          // Somebody else has stopped the run.
          if (Cause.hasInterruptsOnly(cause)) return
          const error = Cause.squash(cause)
          if (error instanceof RunBusy) left(run, elsewhere)
          else failed(run, error)
        })
      )
    )
})

/** Runs all of these. A Stop reaches each of them with its reason, which child fibers alone would not hear. */
const together = Effect.fnUntraced(function* <R>(effects: Iterable<Effect.Effect<void, never, R>>) {
  const fibers = yield* Effect.forEach(effects, (effect) => Effect.forkChild(effect))
  yield* Fiber.awaitAll(fibers).pipe(
    Effect.onExit((exit) => {
      if (Exit.isSuccess(exit)) return Effect.void
      const reason = Cause.annotations(exit.cause)
      return Effect.forEach(fibers, (fiber) => Fiber.interruptAs(fiber, undefined, reason), {
        concurrency: "unbounded",
        discard: true
      })
    })
  )
})

/** Takes over what nobody drives, and says what became of it. */
export const recover = (input: Flags.Recover) =>
  Effect.gen(function* () {
    // Those first that have waited longest.
    const runs = (yield* Unattended.runs(() => true)).toSorted((a, b) => (a.updatedAt < b.updatedAt ? -1 : 1))
    const outcomes = new Map<string, Recovery.Outcome>()
    const takeOver = yield* takingOver(input, (outcome) => outcomes.set(outcome.run.runId, outcome))
    const tell = Effect.gen(function* () {
      const all = runs.map(
        (run) => outcomes.get(run.runId) ?? { _tag: "Left" as const, run, why: "it was not its turn yet" }
      )
      const report = yield* Recovery.reportOf(all, input.store)
      if (runs.length > 0 || input.json)
        yield* Output.result(input.json, Recovery.toJson(report), Recovery.screen(report))
      else yield* Output.note("Every run has stopped: there is nothing to take over.")
      const code = Recovery.exitCode(report)
      if (code !== Output.exitCodes.ok) yield* Output.quit(code)
    })
    yield* together(runs.map(takeOver)).pipe(
      Effect.provide(Drive.tracing(input.trace, progress)),
      Effect.onInterrupt(() => Effect.ignore(tell))
    )
    yield* tell
  }).pipe(Effect.scoped, StoredRun.inStoreIfAny(input.store))
