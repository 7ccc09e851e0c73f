/**
 * A stored run as the commands about runs look at it: what it belongs to, and whether a process drives it.
 */
import * as Data from "effect/Data"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import * as Stream from "effect/Stream"
import {
  LeaseTime,
  RunNotFound,
  RunStore,
  type RunStoreError,
  type RunSummary
} from "../../store/RunStore.ts"
import * as Ending from "../Ending.ts"
import * as Output from "../Output.ts"
import * as Store from "../Store.ts"

/** There is no such run where it was looked for. Its tag is that of the failure it stands for. */
export class NoSuchRun extends Data.TaggedError("RunNotFound")<{
  readonly message: string
}> {}

const within =
  <E2, R2>(where: string, store: Layer.Layer<RunStore, E2, R2>) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>) =>
    effect.pipe(
      Effect.mapError((error) =>
        error instanceof RunNotFound
          ? new NoSuchRun({
              message: `there is no run ${error.runId} in the store ${Store.shown(where)}: see \`${Output.self} runs list${Store.repeated(where)}\``
            })
          : error
      ),
      Effect.provide(store)
    )

/** Gives a command about a run the store that is named; a run that is not in it is said not to be in that one. */
export const inStore = (where: string) => within(where, Store.existing(where))

/** The same for a command about any number of runs, of which a store that does not exist yet has none. */
export const inStoreIfAny = (where: string) => within(where, Store.orEmpty(where))

/** Another process drives the run. Its tag is that of the failure it stands for. */
export class Driven extends Data.TaggedError("RunBusy")<{
  readonly message: string
}> {}

/** That another process drives a run, and what can be done about it. */
export const driven = (where: Ending.Where): Driven =>
  new Driven({
    message: `run ${where.root} is driven by another process: watch it with \`${Ending.follow(where)}\`, stop it with \`${Ending.cancel(where)}\`, or wait until it has stopped`
  })

/** Whether nobody drives a run. */
export const isFree = (runId: string): Effect.Effect<boolean, RunStoreError, RunStore> =>
  Effect.flatMap(RunStore, (store) => Effect.map(store.isDriven(runId), (driven) => !driven))

/** How long, in seconds, a process that has died may keep others from its run, and a little more. */
export const deadFor: Effect.Effect<number> = Effect.map(
  LeaseTime,
  (time) => Math.ceil(Duration.toSeconds(Duration.fromInputUnsafe(time))) + 2
)

/** Waits until nobody drives a run. */
export const untilFree = (runId: string): Effect.Effect<void, RunStoreError, RunStore> =>
  isFree(runId).pipe(
    Effect.repeat({ until: (free) => free, schedule: Schedule.spaced("500 millis") }),
    Effect.asVoid
  )

/**
 * Waits for the right of a process that has died to end: so long nobody can tell it from one that lives. One that goes on
 * with the run meanwhile does live, and so does one that still has the right after that time. Yields whether nobody drives
 * the run then; `waiting` says that it takes a while.
 */
export const outlived = Effect.fnUntraced(function* (
  { runId, seq }: RunSummary,
  waiting: Effect.Effect<void>
) {
  if (yield* isFree(runId)) return true
  const store = yield* RunStore
  yield* waiting
  // It may be about to stop, and writes that in several steps.
  const goesOn = Effect.gen(function* () {
    yield* Stream.runHead(store.watch(runId, seq))
    yield* Effect.sleep("1 second")
    return (yield* store.summary(runId)).status === "running" ? false : yield* Effect.never
  })
  return yield* Effect.as(untilFree(runId), true).pipe(
    Effect.raceFirst(goesOn),
    Effect.timeoutOrElse({ duration: `${yield* deadFor} seconds`, orElse: () => Effect.succeed(false) })
  )
})
