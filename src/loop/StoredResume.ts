/**
 * Storing that a run is to go on, without driving it: from then on it stands as `running`, as a run does that was stored just
 * now, and whoever takes it up drives it with what was said here. So nothing of that is lost with the process that was told.
 */
import * as Effect from "effect/Effect"
import { load, RunBusy, RunStore } from "../store/RunStore.ts"
import { inWorldTime } from "../store/TimeLimit.ts"
import * as Asked from "./Asked.ts"
import * as Cancel from "./Cancel.ts"
import { type Definition, knownOf } from "./Definition.ts"
import { MessageRefused } from "./Refused.ts"
import { changedLimits, foreseen, found, isOver } from "./Resume.ts"
import { checkResume, type ResumeOptions } from "./RunOptions.ts"
import * as Session from "./Session.ts"
import { alone, apart } from "./Surroundings.ts"

/** How long to wait between two looks at a run that somebody else has, in milliseconds. */
const betweenMs = 25

/** For how long somebody has a run who only stores it, or stops it: whoever has one for longer drives it. */
const storingMs = 250

/** For how long a driver has a run that has stopped: it is on its way out, or it has died and its lease ends soon. */
const leavingMs = 30_000

/** Waits until nobody has a run any more. Fails with `RunBusy` when that takes longer than it takes to store or to leave one. */
const comesFree = Effect.fnUntraced(function* (runId: string) {
  const store = yield* RunStore
  for (let waitedMs = 0; yield* store.isDriven(runId); waitedMs += betweenMs) {
    const { status } = yield* store.summary(runId)
    if (waitedMs >= (status === "running" ? storingMs : leavingMs)) return yield* new RunBusy({ runId })
    yield* inWorldTime(Effect.sleep(betweenMs))
  }
})

/** How often to try: between coming free and being had again, a run may be driven by others. */
const mostAttempts = 50

/** A run when somebody asks to have it go on: how many events it has, and the last Stop that it was sent. */
export interface Seen {
  readonly runId: string
  readonly seq: number
  readonly sent: number
}

/**
 * Has a stored run stand as one that goes on, with what is said to it. Where it was stopped since it was asked for that it is
 * left so, as is one that is over: a message is refused then. Yields whether it goes on. One that goes on already is left as it is if there is nothing to
 * say to it; otherwise this fails with `RunBusy` while somebody drives it.
 */
export const store = (definition: Definition, { runId, sent, seq: seen }: Seen, options: ResumeOptions) =>
  Effect.gen(function* () {
    yield* checkResume(runId, options)
    const { message } = options
    if (message !== undefined) yield* Asked.message(runId, message)
    const store = yield* RunStore
    const attempt = Effect.gen(function* () {
      const run = found(yield* load(runId))
      const { last, state } = run
      yield* foreseen(definition, run, options, alone)
      if (isOver(state, options, alone) || Cancel.stoppedSince(state, seen)) {
        if (message !== undefined) return yield* new MessageRefused({ runId, status: state.status })
        return false
      }
      const limits = yield* changedLimits(definition, state, options.limits, undefined)
      if (state.status === "running" && message === undefined && limits === undefined) return true
      const lease = yield* store.lease(runId)
      const { seq, updatedAt } = yield* store.summary(runId)
      // Somebody has driven it meanwhile, or another run has its id.
      if (seq !== state.seq || updatedAt !== state.updatedAt) return yield* new RunBusy({ runId })
      yield* Session.goesOn(yield* knownOf(definition), state, { last, limits, message }, sent, lease)
      return true
    }).pipe(Effect.scoped)
    const attempts = (left: number): typeof attempt =>
      Effect.catchIf(
        attempt,
        (error) => left > 1 && error instanceof RunBusy && error.runId === runId,
        () => Effect.andThen(comesFree(runId), attempts(left - 1))
      )
    return yield* attempts(mostAttempts)
  }).pipe(apart(alone))
