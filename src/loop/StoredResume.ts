/**
 * Storing that a run is to go on, without driving it: from then on it stands as `running`, as a run does that was stored just
 * now, and whoever takes it up drives it with what was said here. So nothing of that is lost with the process that was told.
 */
import * as Effect from "effect/Effect"
import { load, RunBusy, RunNotFound, RunStore } from "../store/RunStore.ts"
import { inWorldTime, worldMs } from "../store/TimeLimit.ts"
import * as Asked from "./Asked.ts"
import * as Cancel from "./Cancel.ts"
import { type Definition, knownOf } from "./Definition.ts"
import { MessageRefused } from "./Refused.ts"
import { foreseen, found } from "./Resume.ts"
import { checkResume, type ResumeOptions } from "./RunOptions.ts"
import * as Session from "./Session.ts"
import { alone, apart } from "./Surroundings.ts"
import { standsAs } from "./Wanted.ts"

/** How long to wait between two looks at a run that somebody else has, in milliseconds. */
const betweenMs = 25

/** For how long somebody has a run who only stores it, or stops it: whoever has one for longer drives it. */
const storingMs = 250

/** For how long a driver has a run that has stopped: it is on its way out, or it has died and its lease ends soon. */
const leavingMs = 30_000

/** A run when somebody asks to have it go on: how many events it has, and the last Stop that it was sent. */
export interface Seen {
  readonly runId: string
  readonly startedAt: string
  readonly seq: number
  readonly sent: number
}

/**
 * Has a stored run stand as one that goes on, with what is said to it. Where it was stopped since it was asked for that it is
 * left so, as is one that is over: a message is refused then. Yields whether it goes on. One that goes on already is left as
 * it is if there is nothing to say to it; otherwise this fails with `RunBusy` while somebody drives it.
 */
export const store = (
  definition: Definition,
  { runId, sent, seq: seen, startedAt }: Seen,
  options: ResumeOptions
) =>
  Effect.gen(function* () {
    yield* checkResume(runId, options)
    const { message } = options
    if (message !== undefined) yield* Asked.message(runId, message)
    const store = yield* RunStore
    const sinceMs = worldMs()
    const attempt = Effect.gen(function* () {
      const run = found(yield* load(runId))
      const { last, state } = run
      // What was asked of a run is not asked of the next one of its id.
      if (state.startedAt !== startedAt) return yield* new RunNotFound({ runId })
      const goesOn = yield* foreseen(definition, run, options)
      if (goesOn === undefined || Cancel.stoppedSince(state, seen)) {
        if (message !== undefined) return yield* new MessageRefused({ runId, status: state.status })
        return false
      }
      const { limits } = goesOn
      if (state.status === "running" && message === undefined && limits === undefined) return true
      const lease = yield* store.lease(runId)
      // Somebody may have driven it meanwhile.
      if (!standsAs(state, yield* store.summary(runId))) return yield* new RunBusy({ runId })
      yield* Session.goesOn(yield* knownOf(definition), state, { last, limits, message }, sent, lease)
      return true
    }).pipe(Effect.scoped)
    /** Waits until nobody has the run any more, or it goes on. Fails when that takes longer than to store or to leave one. */
    const comesFree = Effect.fnUntraced(function* (busy: RunBusy) {
      do {
        const { status } = yield* store.summary(runId)
        if (worldMs() - sinceMs >= (status === "running" ? storingMs : leavingMs)) return yield* busy
        yield* inWorldTime(Effect.sleep(betweenMs))
        if (status === "running" && message === undefined) return
      } while (yield* store.isDriven(runId))
    })
    const attempts: typeof attempt = Effect.catchIf(
      attempt,
      (error) => error instanceof RunBusy,
      (busy) => Effect.andThen(comesFree(busy), () => attempts)
    )
    return yield* attempts
  }).pipe(apart(alone))
