/**
 * `checkrein demo SCENARIO`: one scenario, with what people would say to it and what might happen to its process.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Catalogue from "../../demo/Catalogue.ts"
import * as Demo from "../../demo/Demo.ts"
import * as Scenario from "../../demo/Scenario.ts"
import * as RunTrace from "../../observe/RunTrace.ts"
import { load, type Stored } from "../../store/RunStore.ts"
import * as Ending from "../Ending.ts"
import * as LimitFlags from "../LimitFlags.ts"
import * as Output from "../Output.ts"
import * as Store from "../Store.ts"
import type * as Commands from "./Commands.ts"
import { screen } from "./Screen.ts"

/** The scenario, and what else the command was given. */
interface Input extends Omit<Commands.Input, "scenario"> {
  readonly scenario: Catalogue.Name
}

const usage = (message: string) => new Output.UsageError({ message })

/** What a person says to calls that wait: the flags must not contradict each other. */
const verdictOf = ({
  approve,
  reason,
  reject
}: Input): Effect.Effect<"none" | "all" | "reject", Output.UsageError> => {
  const rejects = reject || Option.isSome(reason)
  if (!rejects) return Effect.succeed(approve)
  return approve === "all"
    ? Effect.fail(usage("--approve all and --reject contradict each other"))
    : Effect.succeed("reject")
}

const tell = Effect.fnUntraced(function* (told: Demo.Result, stored: Stored, { json, store }: Input) {
  const where = { store, agent: undefined, root: told.runId }
  // The commands of a handoff have to name the store.
  const handoff = told.handoff === null ? null : Ending.handoff(stored.state, where)
  const result: Demo.Result = { ...told, handoff }
  yield* Output.result(json, { ...result }, json ? "" : screen(result, stored, where))
  if (result.status !== "completed") return yield* Output.quit(Output.exitCodes.stopped)
})

/** Ends this process as a power cut would: nothing of it gets to run any more. */
const killSelf = () => process.kill(process.pid, "SIGKILL")

/** Runs a scenario, and tells how it has ended. */
export const run = Effect.fnUntraced(function* (input: Input) {
  const { json, killAfter, reason, scenario, store } = input
  const approve = yield* verdictOf(input)
  if (Option.isSome(killAfter) && Store.isFleeting(store)) {
    return yield* usage("--kill-after needs a store that outlives the process: --store memory does not")
  }
  const settings = Catalogue.settingsOf(scenario, {
    toolErrors: input.toolErrors,
    permanent: input.permanent,
    dedupe: input.dedupe,
    ...(Option.isSome(input.repetition) ? { repetition: input.repetition.value } : undefined)
  })
  const runId = yield* Scenario.newRunId(scenario, settings)
  if (Option.isSome(killAfter)) {
    yield* Output.note(
      [
        `This process kills itself after turn ${killAfter.value}. Take the run up again with:`,
        `  ${Output.self} runs resume ${runId}${Store.repeated(store)}`
      ].join("\n")
    )
  }
  const running = Demo.run(scenario, {
    runId,
    limits: LimitFlags.toLimits(input),
    ...settings,
    approve,
    reason: Option.getOrUndefined(reason),
    stopAfter: Option.getOrUndefined(input.stopAfter),
    latency: Option.getOrUndefined(input.latency),
    provider: input.provider,
    afterTools: Option.isSome(killAfter) ? { turn: killAfter.value, call: killSelf } : undefined
  })
  yield* Effect.gen(function* () {
    const result = yield* running.pipe(
      Effect.catchTag("InvalidLimits", ({ message }) => usage(message)),
      Effect.provide(json ? RunTrace.layerNone : RunTrace.layerConsole()),
      // Ctrl-C: the run has stopped by now, and can say so.
      Effect.onInterrupt(() =>
        Effect.flatMap(load(runId), (stored) => tell(Demo.resultOf(scenario, stored), stored, input)).pipe(
          Effect.ignore
        )
      )
    )
    if (Option.isSome(killAfter))
      yield* Output.note(`Turn ${killAfter.value} asked for no tool, so nothing was killed.`)
    yield* tell(result, yield* load(runId), input)
  }).pipe(Effect.provide(Store.layer(store)))
})
