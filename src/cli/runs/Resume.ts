/**
 * `checkrein runs resume`: takes a stored run up again.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Agent from "../../Agent.ts"
import { RunBusy, RunStore, rootOf } from "../../store/RunStore.ts"
import * as AgentOf from "../AgentOf.ts"
import * as Drive from "../Drive.ts"
import * as Hint from "../Hint.ts"
import * as LimitFlags from "../LimitFlags.ts"
import * as Models from "../Models.ts"
import * as Output from "../Output.ts"
import type * as Flags from "./Flags.ts"
import * as StoredRun from "./StoredRun.ts"

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
    if (summary.status === "running") {
      const most = yield* StoredRun.deadFor
      const waiting = Output.note(
        `The run is driven by another process, or that process has died: waiting, ${most} s at most.`
      )
      if (!(yield* StoredRun.outlived(summary, waiting))) return yield* StoredRun.driven(where)
    }
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
