/**
 * Starting, taking up and finishing runs of a defined agent, types erased: what `Agent` gives its types to.
 */
import { randomUUID } from "node:crypto"
import type * as LanguageModel from "effect/ai/LanguageModel"
import * as Effect from "effect/Effect"
import type { Message } from "../run/Message.ts"
import type { Ending } from "../run/NextStep.ts"
import * as RunExit from "../run/RunExit.ts"
import type { RunState } from "../run/RunState.ts"
import {
  type Lease,
  load,
  RunBusy,
  type RunNotFound,
  RunStore,
  type RunStoreError
} from "../store/RunStore.ts"
import { inWorldTime } from "../store/TimeLimit.ts"
import * as Allowances from "./Allowances.ts"
import { ambient } from "./Ambient.ts"
import * as Asked from "./Asked.ts"
import * as Brought from "./Brought.ts"
import * as Cancel from "./Cancel.ts"
import { completed, type Definition, knownOf, limitsOf, ready } from "./Definition.ts"
import { Drain, isRequested } from "./Drain.ts"
import type { Job } from "./Job.ts"
import { now } from "./Now.ts"
import { ifStored } from "./Orphans.ts"
import * as PoolClaims from "./PoolClaims.ts"
import { type Refused, RunNotCompleted } from "./Refused.ts"
import { changedLimits, type Found, found, heed, isOver, mayTakeUp, mismatch, takeUp } from "./Resume.ts"
import * as RunEnd from "./RunEnd.ts"
import { checkResume, checkRun, type ResumeOptions, type RunOptions } from "./RunOptions.ts"
import * as Session from "./Session.ts"
import { alone, apart, type Surroundings } from "./Surroundings.ts"

/** Who drives a run of what agent, and by what right. */
interface Driving {
  readonly lease: Lease
  readonly definition: Definition
  readonly bring: Brought.Bring
  readonly around: Surroundings
}

type Finished = RunExit.Completed<unknown>
/** How it fails that no run has started or gone on. */
type Outside = RunBusy | RunStoreError | Refused
type Failures = RunExit.RunExit | Outside

/** The transcript of a completed run, for another one to begin with. The new run's agent brings its own instructions. */
const transcriptOf = Effect.fnUntraced(function* (runId: string) {
  const { state: before } = yield* load(runId)
  const { status } = before
  if (status !== "completed") return yield* new RunNotCompleted({ runId, status })
  return before.messages.filter((message) => message.role !== "system")
})

/** A pool that cannot be reached grants nothing, so it lets nobody spend without a limit. */
const sharesMoney = (job: Job) =>
  Effect.match(PoolClaims.ofMoney(job), { onFailure: () => true, onSuccess: (pool) => pool !== undefined })

/** The limits of a new run. */
const ownLimits = Effect.fnUntraced(function* (
  definition: Definition,
  { limits }: RunOptions,
  { allowance }: Surroundings
) {
  const own = yield* limitsOf(definition, limits)
  return allowance === undefined ? own : Allowances.within(own, allowance, yield* now)
})

/** What is known of a run before its first event. */
const startOf = Effect.fnUntraced(function* (
  { instructions }: Definition,
  runId: string,
  input: string | ReadonlyArray<Message>,
  options: RunOptions,
  { parent }: Surroundings,
  { limits, waitedMs }: Pick<Session.Start, "limits" | "waitedMs">
) {
  const earlier = options.after === undefined ? [] : yield* transcriptOf(options.after)
  const system: ReadonlyArray<Message> =
    instructions === undefined ? [] : [{ role: "system", content: instructions }]
  const asked = yield* Asked.messages(runId, input)
  const messages = [...system, ...earlier, ...asked]
  const { after, tags } = options
  return { runId, messages, limits, parent, after, tags, waitedMs } satisfies Session.Start
})

/** An agent made ready for a run that begins. */
const readyFor = Effect.fnUntraced(function* (
  definition: Definition,
  { isStreamed, parent }: Surroundings,
  { limits, runId }: Pick<Session.Start, "limits" | "runId">
) {
  const job = yield* ready(definition, isStreamed, limits)
  const isTimed = limits.timeMs !== undefined || limits.deadline !== undefined
  const isUnlimited = limits.usd === undefined && !isTimed && parent === undefined
  if (isUnlimited && !(yield* sharesMoney(job))) {
    yield* Effect.logWarning(
      `run ${runId} of ${definition.name} has no limit of money or time: set \`usd\` or \`time\` in its limits`
    )
  }
  return job
})

/** The answer of a run that has stopped, or how it fails to give one. */
const answerOf = Effect.fnUntraced(function* (definition: Definition, run: RunState) {
  if (run.status === "completed") return yield* completed(definition, run)
  // A Stop of the fiber does not come here. What was cancelled before it was driven, or left by its driver, is one too.
  if (run.reason === "cancelled") return yield* Effect.failCause(Cancel.interruption(run.detail ?? ""))
  if (run.status === "running")
    return yield* Effect.failCause(Cancel.interruption("its driver was shut down"))
  const exit = RunExit.fromState(run)
  return yield* exit ??
    Effect.die(new Error(`run ${run.runId} has stopped as ${run.status}, without a reason`))
})

/** The same, when whatever it was told meanwhile is heeded. */
const finish = (lease: Lease, definition: Definition, stopped: RunState, around: Surroundings) =>
  Effect.flatMap(heed(lease, definition, stopped, around), (run) => answerOf(definition, run))

type Erased<A, E> = Effect.Effect<A, E, LanguageModel.LanguageModel | RunStore>

/** Starts a run that is not stored. */
const begin = Effect.fnUntraced(function* (
  { around, bring, definition, lease }: Driving,
  runId: string,
  input: string | ReadonlyArray<Message>,
  options: RunOptions
) {
  const limits = yield* ownLimits(definition, options, around)
  const came = yield* bring({ runId, limits, elapsedMs: 0, stopped: lease.lost })
  const { waitedMs } = came
  if (came._tag === "Ended") {
    const start = yield* startOf(definition, runId, input, options, around, { limits, waitedMs })
    const agent = yield* knownOf(definition)
    const ended = yield* Session.end(agent, start, lease, around.watcher, came.ending)
    return yield* answerOf(definition, ended)
  }
  return yield* came.here(
    Effect.gen(function* () {
      const job = yield* readyFor(came.definition, around, { runId, limits })
      const start = yield* startOf(definition, runId, input, options, around, { limits, waitedMs })
      const stopped = yield* Session.start(job, start, lease, around.watcher)
      return yield* finish(lease, came.definition, stopped, around)
    })
  )
})

/** Takes up a stored run. */
const goOn = Effect.fnUntraced(function* (
  { around, bring, definition, lease }: Driving,
  run: Found,
  options: ResumeOptions,
  sent: number
) {
  const { state } = run
  const { elapsedMs, runId } = state
  if (options.message !== undefined) yield* Asked.message(runId, options.message)
  yield* mayTakeUp(definition, state, around)
  const withParent = around.parent !== undefined
  const stays = isOver(state, options, around)
  const changed = stays
    ? undefined
    : yield* changedLimits(definition, state, options.limits, around.allowance)
  const endWith = Effect.fnUntraced(function* (ending: Ending, waitedMs: number) {
    const agent = yield* knownOf(definition)
    const waited = { ...state, elapsedMs: elapsedMs + waitedMs }
    const told = { last: run.last, limits: changed, message: options.message }
    return yield* Session.endAgain(agent, waited, told, lease, around.watcher, ending)
  }, RunEnd.within(runId))
  const drain = yield* Drain
  const came = yield* bring({
    runId,
    elapsedMs,
    limits: stays ? {} : (changed ?? state.limits),
    stopped: stays ? lease.lost : Effect.raceFirst(Cancel.sentTo(state, { sent, withParent }), lease.lost),
    // A run below another one is ended with that, by whoever drives it.
    ...(stays || withParent
      ? undefined
      : {
          interrupted: (cause, waitedMs) => {
            const reason = Cancel.reasonOf(cause)
            return reason === undefined && isRequested(drain)
              ? Effect.void
              : endWith(Cancel.endingFor(reason ?? "the run was interrupted"), waitedMs)
          }
        })
  })
  if (came._tag === "Ended") return yield* answerOf(definition, yield* endWith(came.ending, came.waitedMs))
  const { waitedMs } = came
  return yield* came.here(
    Effect.gen(function* () {
      const stopped = yield* takeUp(lease, came.definition, { ...run, waitedMs }, options, around, sent)
      return yield* finish(lease, came.definition, stopped, around)
    })
  )
})

/** Starts a run, or takes it up where it is if one of this id is stored. */
export const run = (
  definition: Definition,
  input: string | ReadonlyArray<Message>,
  options: RunOptions,
  around: Surroundings
): Erased<Finished, Failures> =>
  Brought.lend(definition, (bring) =>
    Effect.gen(function* () {
      const store = yield* RunStore
      const given = yield* checkRun(options, around)
      const runId = given ?? randomUUID()
      const sent = given === undefined ? 0 : yield* Cancel.lastSent(runId)
      const lease = yield* store.lease(runId)
      const stored = given === undefined ? undefined : yield* ifStored(load(given))
      const driving = { around, bring, definition, lease }
      return stored === undefined
        ? yield* begin(driving, runId, input, options)
        : yield* goOn(driving, found(stored), { limits: options.limits }, sent)
    }).pipe(Effect.scoped)
  ).pipe(apart(around), ambientFailures<Finished, Failures>)

/** Takes a stored run up again. */
export const resume = (
  definition: Definition,
  runId: string,
  options: ResumeOptions,
  around: Surroundings
): Erased<Finished, Failures> =>
  Brought.lend(definition, (bring) =>
    Effect.gen(function* () {
      yield* checkResume(runId, options)
      const store = yield* RunStore
      const sent = around.sent ?? (yield* Cancel.lastSent(runId))
      const lease = yield* store.lease(runId)
      const stored = found(yield* load(runId))
      if (around.isWanted?.(stored.state) === false) return yield* Effect.interrupt
      return yield* goOn({ around, bring, definition, lease }, stored, options, sent)
    }).pipe(Effect.scoped)
  ).pipe(apart(around), ambientFailures<Finished, Failures>)

/** Whoever stores a run of the same id at the same moment needs about as long as it takes to store one. */
const untilStored = inWorldTime(Effect.sleep("20 millis"))
const mostLooks = 50

/**
 * Stores a run without driving it, and yields its id: whoever resumes it drives it. A run of this id that is stored
 * already stays as it is, if it is one of this agent, also if it was stored at the same moment.
 */
export const create = (
  definition: Definition,
  input: string | ReadonlyArray<Message>,
  options: RunOptions
): Erased<string, Outside> =>
  Brought.lend(definition, (bring) =>
    Effect.gen(function* () {
      const store = yield* RunStore
      const given = yield* checkRun(options)
      const runId = given ?? randomUUID()
      const isStored = Effect.gen(function* () {
        const stored = given === undefined ? undefined : yield* ifStored(store.summary(given))
        if (stored === undefined || stored.agent === definition.name) return stored !== undefined
        return yield* mismatch(definition, runId, `it is a run of ${stored.agent}`)
      })
      if (yield* isStored) return runId
      const limits = yield* ownLimits(definition, options, alone)
      // Before the lease is taken: whoever stores the same run at the same moment waits for one append, and not for this. Its
      // time has not begun: whoever waits for this may stop waiting.
      const came = yield* bring({ runId, limits: {}, elapsedMs: 0, stopped: Effect.never })
      if (came._tag === "Ended")
        return yield* Effect.die(new Error(`run ${runId} was stopped before it was stored`))
      const stored = Effect.gen(function* () {
        if (yield* isStored) return
        const lease = yield* store.lease(runId)
        if (yield* isStored) return
        yield* came.here(
          Effect.gen(function* () {
            const job = yield* readyFor(came.definition, alone, { runId, limits })
            const start = yield* startOf(definition, runId, input, options, alone, { limits, waitedMs: 0 })
            yield* Session.create(job, start, lease)
          })
        )
      })
      const isBusy = (error: unknown) => error instanceof RunBusy
      const looked = (looks: number): typeof stored =>
        Effect.catchIf(
          Effect.scoped(stored),
          (error) => looks < mostLooks && isBusy(error),
          () => Effect.andThen(untilStored, looked(looks + 1))
        )
      yield* looked(1)
      return runId
    })
  ).pipe(apart(alone), ambientFailures<string, Outside>)

/**
 * Stops a run, whoever drives it: its driver is told, and does so within a second; a run that nobody drives is stopped
 * here. A run that has completed, failed or stopped at a limit stays as it is. A driver on its way out of the run heeds
 * what it is sent until it has looked for the last time; what comes later is obeyed by whoever takes the run up next. Of a
 * run that has stopped it counts for those alone who were asked before it to have that go on.
 */
export const cancel = (
  runId: string,
  reason: string
): Effect.Effect<void, RunNotFound | RunStoreError, RunStore> =>
  Effect.gen(function* () {
    yield* Asked.reason(runId, reason)
    const store = yield* RunStore
    yield* store.summary(runId)
    const ended = Effect.asVoid(RunEnd.stopUndriven(runId, reason))
    yield* Effect.catchTag(ended, "RunBusy", () => store.send(runId, { type: "cancel", reason }))
  })

/** The failures and services of an erased toolkit and of provided layers are in the type of the `Agent` around it. */
const ambientFailures = <A, E>(effect: Effect.Effect<A, unknown, unknown>): Effect.Effect<A, E> =>
  ambient(effect) as Effect.Effect<A, E>
