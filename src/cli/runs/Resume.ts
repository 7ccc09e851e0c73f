/**
 * `checkrein runs resume`: takes a stored run up again.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import * as Agent from "../../Agent.ts"
import { RunBusy, RunStore, type RunSummary, rootOf } from "../../store/RunStore.ts"
import * as AgentOf from "../AgentOf.ts"
import * as Drive from "../Drive.ts"
import type * as Ending from "../Ending.ts"
import * as Hint from "../Hint.ts"
import * as LimitFlags from "../LimitFlags.ts"
import * as Models from "../Models.ts"
import * as Output from "../Output.ts"
import type * as Flags from "./Flags.ts"
import * as StoredRun from "./StoredRun.ts"

/**
 * Waits for the right of a process that has died to end: so long nobody can tell it from one that lives. One that goes on
 * with the run meanwhile does live, and so does one that still has the right after that time.
 */
const untilFree = Effect.fnUntraced(function* ({ runId, seq }: RunSummary, where: Ending.Where) {
  if (yield* StoredRun.isFree(runId)) return
  const store = yield* RunStore
  const most = yield* StoredRun.deadFor
  yield* Output.note(
    `The run is driven by another process, or that process has died: waiting, ${most} s at most.`
  )
  // It may be about to stop, and writes that in several steps.
  const goesOn = Effect.gen(function* () {
    yield* Stream.runHead(store.watch(runId, seq))
    yield* Effect.sleep("1 second")
    if ((yield* store.summary(runId)).status !== "running") return yield* Effect.never
  })
  yield* StoredRun.untilFree(runId).pipe(
    Effect.raceFirst(Effect.andThen(goesOn, StoredRun.driven(where))),
    Effect.timeoutOrElse({ duration: `${most} seconds`, orElse: () => StoredRun.driven(where) })
  )
})

/** Resumes a run in a store that is open already. */
export const resume = (input: Flags.Resume) =>
  Effect.gen(function* () {
    const store = yield* RunStore
    const summary = yield* store.summary(input.id)
    if (summary.parent !== undefined) {
      const root = yield* rootOf(input.id)
      const message = `run ${input.id} was started by another run and goes on with it: resume ${root.runId}`
      return yield* new Output.CommandFailed({ message })
    }
    const { agent, standIn } = yield* AgentOf.ofRun(summary, input.agent)
    const where = {
      store: input.store,
      agent: Option.getOrUndefined(input.agent),
      root: input.id
    }
    if (summary.status === "running") yield* untilFree(summary, where)
    if (summary.status === "failed" && !input.force)
      yield* Output.note("The run has failed, and is only taken up again with --force.")
    const running = Agent.resume(agent, input.id, {
      limits: LimitFlags.given(input),
      message: Option.getOrUndefined(input.message),
      force: input.force
    })
    yield* Drive.drive(running, {
      json: input.json,
      trace: input.trace,
      where
    }).pipe(
      Effect.provide(Models.layer(input.model, standIn)),
      Effect.mapError((error) => (error instanceof RunBusy ? StoredRun.driven(where) : error))
    )
  }).pipe(Hint.explained(input))

/** Resumes a run. */
export const resumeStored = (input: Flags.Resume) => resume(input).pipe(StoredRun.inStore(input.store))
