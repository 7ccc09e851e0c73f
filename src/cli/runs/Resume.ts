/**
 * `checkrein runs resume`: takes a stored run up again.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { definitionOf } from "../../loop/AgentHandle.ts"
import * as Cancel from "../../loop/Cancel.ts"
import * as Runs from "../../loop/Runs.ts"
import { alone } from "../../loop/Surroundings.ts"
import type { RunState } from "../../run/RunState.ts"
import { RunBusy, RunStore, rootOf } from "../../store/RunStore.ts"
import * as AgentOf from "../AgentOf.ts"
import * as Drive from "../Drive.ts"
import * as Hint from "../Hint.ts"
import * as LimitFlags from "../LimitFlags.ts"
import * as Models from "../Models.ts"
import * as Output from "../Output.ts"
import type * as Flags from "./Flags.ts"
import * as StoredRun from "./StoredRun.ts"

/** Resumes a run in a store that is open already, unless somebody stops it before this has the right to drive it. */
export const resume = (input: Flags.Resume) =>
  Effect.gen(function* () {
    const store = yield* RunStore
    const summary = yield* store.summary(input.id)
    if (summary.parent !== undefined) {
      const root = yield* rootOf(input.id)
      const message = `run ${input.id} was started by another run and goes on with it: resume ${root.runId}`
      return yield* new Output.CommandFailed({ message })
    }
    // A Stop counts that comes while the agent is loaded, or while a driver is waited for.
    const sent = yield* Cancel.lastSent(input.id)
    const { agent, standIn } = yield* AgentOf.ofRun(summary, input.agent)
    const where = {
      store: input.store,
      agent: Option.getOrUndefined(input.agent),
      root: input.id
    }
    if (summary.status === "running") {
      const most = yield* StoredRun.deadFor
      const waiting = Output.note(
        `The run is driven by another process, or that process has died: waiting, ${most} s at most.`
      )
      if (!(yield* StoredRun.outlived(summary, waiting))) return yield* StoredRun.driven(where)
    }
    if (summary.status === "failed" && !input.force)
      yield* Output.note("The run has failed, and is only taken up again with --force.")
    let isStopped = false
    const isWanted = (run: RunState) => {
      isStopped = Cancel.stoppedSince(run, summary.seq)
      return !isStopped
    }
    const options = {
      limits: LimitFlags.given(input),
      message: Option.getOrUndefined(input.message),
      force: input.force
    }
    const running = Runs.resume(definitionOf(agent), input.id, options, { ...alone, sent, isWanted }).pipe(
      Effect.onInterrupt(() =>
        isStopped ? Output.note("The run has been stopped meanwhile, and is not resumed.") : Effect.void
      )
    )
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
