/**
 * Drives a run at the command line: shows what happens on stderr, and tells how it ended, also when it was stopped.
 */
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import type * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Agent from "../Agent.ts"
import * as RunTrace from "../observe/RunTrace.ts"
import type { Completed, RunExit } from "../run/RunExit.ts"
import type * as RunState from "../run/RunState.ts"
import { load, type RunStore } from "../store/RunStore.ts"
import * as Ending from "./Ending.ts"
import * as Output from "./Output.ts"

/** How a run is shown and told. */
export interface Telling {
  readonly json: boolean
  /** Where trace lines go. */
  readonly trace: Option.Option<string>
  readonly where: Ending.Where
}

/** Tells how a run has ended, and ends the command so. */
export const tell = (
  run: RunState.RunState,
  { json, where }: Pick<Telling, "json" | "where">
): Effect.Effect<void, Output.Quit> => {
  if (run.status === "completed") return Output.result(json, Ending.toJson(run, where), Ending.answerOf(run))
  return Output.note(Ending.told(run, where)).pipe(
    Effect.andThen(json ? Output.printJson(Ending.toJson(run, where)) : Effect.void),
    Effect.andThen(Output.quit(Output.exitCodes.stopped))
  )
}

/** What a stop has left in the store. The run may not have got there: then that is what is told. */
const tellStored = (telling: Telling) =>
  Effect.gen(function* () {
    const { state } = yield* load(telling.where.root)
    yield* tell(state, telling)
  }).pipe(
    Effect.catchTag("RunNotFound", () =>
      Output.failed(telling.json, "Stopped", "stopped before the run had begun; nothing was stored")
    ),
    Effect.catchTag("RunStoreError", (error) => Output.failed(telling.json, error._tag, error.message)),
    Effect.catchTag("Quit", () => Effect.void)
  )

/** What is shown of what happens, and with `--trace` also written to a file. */
export const tracing = (
  trace: Option.Option<string>,
  shown: Layer.Layer<never> = RunTrace.layerConsole()
): Layer.Layer<never, never, FileSystem.FileSystem> =>
  Option.isSome(trace) ? RunTrace.layerAll(shown, RunTrace.layerJsonl(trace.value)) : shown

/** Runs it, and ends the command as the run has ended. */
export const drive = <E, R>(
  running: Effect.Effect<Completed<unknown>, E, R>,
  telling: Telling
): Effect.Effect<void, Exclude<E, RunExit> | Output.Quit, R | RunStore | FileSystem.FileSystem> =>
  Agent.outcome(running).pipe(
    Effect.provide(tracing(telling.trace)),
    Effect.onInterrupt(() => tellStored(telling)),
    Effect.flatMap(({ run }) => tell(run, telling))
  )
