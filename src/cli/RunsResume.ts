/**
 * `checkrein runs resume | cancel`: takes a stored run up again, or stops one that another process drives.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import * as Stream from "effect/Stream"
import * as Agent from "../Agent.ts"
import { type RunBusy, RunStore, type RunStoreError } from "../store/RunStore.ts"
import * as AgentOf from "./AgentOf.ts"
import * as Drive from "./Drive.ts"
import * as Ending from "./Ending.ts"
import * as LimitFlags from "./LimitFlags.ts"
import * as Models from "./Models.ts"
import * as Output from "./Output.ts"
import { limitHint } from "./Run.ts"
import * as Store from "./Store.ts"
import * as StoredRun from "./StoredRun.ts"

/** With what a run is driven on. */
export interface Driving extends LimitFlags.Values {
  readonly agent: Option.Option<string>
  readonly model: Option.Option<string>
  readonly store: string
  readonly json: boolean
  readonly trace: Option.Option<string>
}

/** What `checkrein runs resume` was given. */
export interface Input extends Driving {
  readonly id: string
  readonly message: Option.Option<string>
  readonly force: boolean
}

/**
 * Waits until nobody drives a run. A process that has died keeps its right to drive a run for a quarter of a minute: so
 * long nobody can tell it from one that lives.
 */
const untilFree = (runId: string) =>
  Effect.gen(function* () {
    const store = yield* RunStore
    const lease = Effect.scoped(store.lease(runId))
    const isBusy = (error: RunBusy | RunStoreError) => error._tag === "RunBusy"
    const wait = Output.note(
      "The run is driven by another process, or that process has died: waiting, 20 s at most."
    ).pipe(
      Effect.andThen(
        Effect.retry(lease, { while: isBusy, times: 40, schedule: Schedule.spaced("500 millis") })
      )
    )
    yield* Effect.catchTag(lease, "RunBusy", () => wait)
  })

/** Resumes a run in a store that is open already. */
export const resume = (input: Input) =>
  Effect.gen(function* () {
    const store = yield* RunStore
    const summary = yield* store.summary(input.id)
    if (summary.parent !== undefined) {
      const root = yield* StoredRun.rootOf(input.id)
      const message = `run ${input.id} was started by another run and goes on with it: resume ${root.runId}`
      return yield* new Output.CommandFailed({ message })
    }
    const { agent, standIn } = yield* AgentOf.ofRun(summary, input.agent)
    const where = {
      store: input.store,
      agent: Option.getOrUndefined(input.agent),
      root: input.id
    }
    if (summary.status === "running") yield* untilFree(input.id)
    if (summary.status === "failed" && !input.force)
      yield* Output.note("The run has failed, and is only taken up again with --force.")
    const limits = LimitFlags.toLimits(input)
    const running = Agent.resume(agent, input.id, {
      // An empty object would be written down as a change of limits.
      limits: Object.keys(limits).length === 0 ? undefined : limits,
      message: Option.getOrUndefined(input.message),
      force: input.force
    })
    yield* Drive.drive(running, {
      json: input.json,
      trace: input.trace,
      where
    }).pipe(Effect.provide(Models.layer(input.model, standIn)))
  }).pipe(Effect.mapError(limitHint(input)))

/** Resumes a run. */
export const resumeStored = (input: Input) => resume(input).pipe(Effect.provide(Store.existing(input.store)))

/** What `checkrein runs cancel` was given. */
export interface CancelInput {
  readonly id: string
  readonly reason: string
  readonly store: string
  readonly json: boolean
}

const patience = "10 seconds"

/** Asks whoever drives a run to stop it, and waits for the answer. A run that nobody drives has stopped already. */
export const cancel = ({ id, json, reason, store: where }: CancelInput) =>
  Effect.gen(function* () {
    const store = yield* RunStore
    const { seq, ...before } = yield* store.summary(id)
    if (before.status !== "running") {
      const { status } = before
      const text = `Nobody drives run ${Output.plain(id)}: it is ${Output.plain(Ending.standing(before))}`
      return yield* Output.result(json, { runId: id, cancelled: false, status }, text)
    }
    yield* store.send(id, { type: "cancel", reason })
    const stopped = yield* store.watch(id, seq).pipe(
      Stream.filter((event) => event.type === "run_stopped"),
      Stream.runHead,
      Effect.timeoutOption(patience),
      Effect.map(Option.flatten)
    )
    if (Option.isNone(stopped)) {
      const message = `run ${id} was asked to stop and has not answered for ${patience}: its process may be gone, and then the run is taken up with \`runs resume\``
      return yield* new Output.CommandFailed({ message })
    }
    const { status } = stopped.value
    const cancelled = stopped.value.reason === "cancelled"
    const text = `Run ${Output.plain(id)} has stopped: ${Output.plain(Ending.standing(stopped.value))}`
    yield* Output.result(json, { runId: id, cancelled, status }, text)
  }).pipe(Effect.provide(Store.existing(where)))
