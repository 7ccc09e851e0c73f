/**
 * Starting, taking up and finishing runs of a defined agent, types erased: what `Agent` gives its types to.
 */
import { randomUUID } from "node:crypto"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Equal from "effect/Equal"
import * as Option from "effect/Option"
import { CapsOutput } from "../provider/RequestParams.ts"
import { fromInput, type Limits, type LimitsInput, override } from "../run/Limits.ts"
import { toInput } from "../run/LimitsInput.ts"
import type { Message } from "../run/Message.ts"
import type { Parent } from "../run/RunEvent.ts"
import * as RunExit from "../run/RunExit.ts"
import { type RunState, unknownOutcomes } from "../run/RunState.ts"
import { cancelledAlone } from "../run/Waiting.ts"
import * as Names from "../store/Names.ts"
import {
  type Lease,
  load,
  RunBusy,
  type RunNotFound,
  RunStore,
  type RunStoreError,
  type Stored
} from "../store/RunStore.ts"
import { inWorldTime } from "../store/TimeLimit.ts"
import * as Allowances from "./Allowances.ts"
import { ambient } from "./Ambient.ts"
import * as Asked from "./Asked.ts"
import * as Cancel from "./Cancel.ts"
import type { Allowance } from "./ChildRun.ts"
import { completed, type Definition, limitsOf, prepare } from "./Definition.ts"
import { Drain, isRequested } from "./Drain.ts"
import * as Inbox from "./Inbox.ts"
import type { Job } from "./Job.ts"
import type { Watcher } from "./Journal.ts"
import * as LeftUnknown from "./LeftUnknown.ts"
import { ifStored } from "./Orphans.ts"
import * as PoolClaims from "./PoolClaims.ts"
import {
  AgentMismatch,
  HoldUnavailable,
  NoBudgetPool,
  NoModel,
  type Refused,
  RunNotCompleted,
  UnpricedModel
} from "./Refused.ts"
import * as RunEnd from "./RunEnd.ts"
import * as Session from "./Session.ts"

/** What a run is asked, and how. */
export interface RunOptions {
  /**
   * The id of the run, by default a new one. An id that is stored already starts nothing: its run is taken up, and the
   * input given now is ignored. Whoever knows an id gets its answer, so put the tenant that you have authenticated in it.
   * An empty one, one of more than 512 bytes and one with a NUL or half of a surrogate pair, which not every database can
   * keep, is refused with `RunStoreError` (`invalid`), as is a tag with such letters or of more than 256 bytes.
   */
  readonly runId?: string | undefined
  /** Limits over those of the agent; those that are not named stay. */
  readonly limits?: LimitsInput | undefined
  /**
   * The id of a completed run, whose transcript this one begins with: a follow-up, with limits of its own. Fails with
   * `RunNotCompleted` if that run has not completed.
   */
  readonly after?: string | undefined
  /** What runs are listed and deleted by, such as a tenant. They stay as the run was started with. */
  readonly tags?: ReadonlyArray<string> | undefined
}

/** How a stopped run is taken up again. */
export interface ResumeOptions {
  /** Limits over those that the run has; those that are not named stay, and what was used stays used. */
  readonly limits?: LimitsInput | undefined
  /** The answer to the question that the run has stopped for, or else something that is said to the model. */
  readonly message?: string | undefined
  /** Takes up a run that has failed too, once its cause is mended. Default: it fails again with the same. */
  readonly force?: boolean | undefined
}

/** Who else has to do with a run. */
interface Surroundings {
  /** Whether a model call that begins now is to be heard word by word. */
  readonly isStreamed: () => boolean
  readonly watcher?: Watcher | undefined
  readonly parent?: Parent | undefined
  /** What the parent lets the run use. */
  readonly allowance?: Allowance | undefined
  /** Whether a stored run is still to be taken up as it stands now that nobody else can: somebody may have stopped it. */
  readonly isWanted?: ((run: RunState) => boolean) | undefined
}

/** Nobody else. */
export const alone: Surroundings = { isStreamed: () => false }

type Finished = RunExit.Completed<unknown>
/** How it fails that no run has started or gone on. */
type Outside = RunBusy | RunStoreError | Refused
type Failures = RunExit.RunExit | Outside

const ready = Effect.fnUntraced(function* (
  definition: Definition,
  around: Surroundings,
  { money, usd }: Limits
) {
  if (Option.isNone(yield* Effect.serviceOption(LanguageModel.LanguageModel))) {
    return yield* new NoModel({ agent: definition.name })
  }
  const job: Job = yield* prepare(definition, around.isStreamed)
  if (money === "hold") {
    const agent = definition.name
    if (job.maxOutputTokens === undefined) {
      const problem = "set RequestParams.maxOutputTokens, so that a reply has a largest size"
      return yield* new HoldUnavailable({ agent, problem })
    }
    if (!(yield* CapsOutput)) {
      const problem =
        "its provider does not say that it enforces maxOutputTokens; see RequestParams.CapsOutput"
      return yield* new HoldUnavailable({ agent, problem })
    }
  }
  if (job.priceOf(job.model) === undefined) {
    const pool = usd === undefined ? yield* PoolClaims.ofMoney(job) : undefined
    if (usd !== undefined || pool !== undefined) {
      return yield* new UnpricedModel({
        agent: definition.name,
        ...(job.model === undefined ? undefined : { model: job.model }),
        ...(pool === undefined ? undefined : { pool })
      })
    }
  }
  return job
})

const mismatch = (definition: Definition, runId: string, problem: string) =>
  new AgentMismatch({ runId, agent: definition.name, problem })

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

/** The date, as ISO 8601. */
const now = Effect.map(Clock.currentTimeMillis, (ms) => new Date(ms).toISOString())

/** What is known of a run before its first event, and its agent made ready. */
const opening = Effect.fnUntraced(function* (
  definition: Definition,
  runId: string,
  input: string | ReadonlyArray<Message>,
  options: RunOptions,
  around: Surroundings
) {
  const own = yield* limitsOf(definition, options.limits)
  const { allowance } = around
  const limits = allowance === undefined ? own : Allowances.within(own, allowance, yield* now)
  const job = yield* ready(definition, around, limits)
  const earlier = options.after === undefined ? [] : yield* transcriptOf(options.after)
  const system: ReadonlyArray<Message> =
    definition.instructions === undefined ? [] : [{ role: "system", content: definition.instructions }]
  const asked = yield* Asked.messages(runId, input)
  const isTimed = limits.timeMs !== undefined || limits.deadline !== undefined
  const isUnlimited = limits.usd === undefined && !isTimed && around.parent === undefined
  if (isUnlimited && !(yield* sharesMoney(job))) {
    yield* Effect.logWarning(
      `run ${runId} of ${definition.name} has no limit of money or time: set \`usd\` or \`time\` in its limits`
    )
  }
  const messages = [...system, ...earlier, ...asked]
  const { after, tags } = options
  const start: Session.Start = { runId, messages, limits, parent: around.parent, after, tags }
  return { job, start }
})

/** The limits with which a run goes on, where they are not those that it had. */
const changedLimits = Effect.fnUntraced(function* (
  definition: Definition,
  state: RunState,
  limits: LimitsInput | undefined,
  allowance: Allowance | undefined
) {
  let changed: Limits
  if (allowance !== undefined)
    changed = Allowances.renew(state, yield* limitsOf(definition), allowance, yield* now)
  else if (limits === undefined) return undefined
  else changed = yield* Effect.fromResult(fromInput(override(toInput(state.limits), limits)))
  // In the form in which a user writes them, where a run that ends by a date has no time beside it.
  return Equal.equals(toInput(changed), toInput(state.limits)) ? undefined : changed
})

/** A run to take up. */
interface Found {
  readonly state: RunState
  readonly last?: PoolClaims.LastAttempt | undefined
  /** The shared budget that it spends from. */
  readonly pool?: string | undefined
}

// Not the journal itself, which would stay in memory as long as the run is driven.
const found = ({ events, state }: Stored): Found => {
  const last = PoolClaims.lastOf(events)
  return { state, last, pool: PoolClaims.poolOf(events, last) }
}

/** Whether there is something to find out about calls of unknown outcome, or somebody has. */
const canSettle = Effect.fnUntraced(function* (state: RunState) {
  const lookUp = unknownOutcomes(state).some((call) => call.reconcile === true)
  return lookUp || (yield* LeftUnknown.resolutions(state)).length > 0
})

const takeUp = Effect.fnUntraced(function* (
  lease: Lease,
  definition: Definition,
  { last, pool, state }: Found,
  { force = false, limits, message }: ResumeOptions,
  around: Surroundings,
  sent: number
) {
  if (state.agent !== definition.name) {
    return yield* mismatch(definition, state.runId, `it is a run of ${state.agent}`)
  }
  const { parent } = around
  if (
    parent !== undefined &&
    (state.parent?.runId !== parent.runId || state.parent.callId !== parent.callId)
  ) {
    return yield* mismatch(definition, state.runId, `it was not started by call ${parent.callId}`)
  }
  if (state.status === "completed") return state
  const isOver = state.status === "failed" ? !force : parent !== undefined && cancelledAlone(state)
  if (isOver) {
    const stays = LeftUnknown.endingOf(state)
    if (stays === undefined || parent === undefined || !(yield* canSettle(state))) return state
    const job = yield* ready(definition, around, state.limits)
    return yield* Session.resume(job, state, { last, sent, stays }, lease, around.watcher)
  }
  const changed = yield* changedLimits(definition, state, limits, around.allowance)
  const job = yield* ready(definition, around, changed ?? state.limits)
  if (pool !== undefined && job.pool === undefined)
    return yield* new NoBudgetPool({ runId: state.runId, pool })
  const withParent = parent !== undefined
  const resumption = { last, limits: changed, message, sent, withParent }
  return yield* Session.resume(job, state, resumption, lease, around.watcher)
})

/**
 * Takes a run up again that was told something while it was stopping, which is left to its driver: that it stop as
 * cancelled, or what it has stopped for people to answer. A child's answers are seen by the run at the top, which renews
 * what the child may use.
 */
const heed = Effect.fnUntraced(function* (
  lease: Lease,
  definition: Definition,
  stopped: RunState,
  around: Surroundings
) {
  const heard = new Set<string>()
  const drain = yield* Drain
  let state = stopped
  while (!isRequested(drain)) {
    const said = yield* Inbox.unheard(state, around.parent === undefined)
    const news = said.filter((each) => !heard.has(each))
    if (news.length === 0) break
    for (const each of news) heard.add(each)
    state = yield* takeUp(lease, definition, { state }, {}, around, state.inbox)
  }
  return state
})

/** The answer of a run that has stopped, or how it fails to give one. */
const finish = Effect.fnUntraced(function* (
  lease: Lease,
  definition: Definition,
  stopped: RunState,
  around: Surroundings
) {
  const run = yield* heed(lease, definition, stopped, around)
  if (run.status === "completed") return yield* completed(definition, run)
  // A Stop of the fiber does not come here. What was cancelled before it was driven, or left by its driver, is one too.
  if (run.reason === "cancelled") return yield* Effect.failCause(Cancel.interruption(run.detail ?? ""))
  if (run.status === "running")
    return yield* Effect.failCause(Cancel.interruption("its driver was shut down"))
  const exit = RunExit.fromState(run)
  return yield* exit ??
    Effect.die(new Error(`run ${run.runId} has stopped as ${run.status}, without a reason`))
})

/** The id that a run is given, if it may have it. That of a sub-agent's run is made of its parent's, and is longer. */
const givenId = ({ runId }: RunOptions, { parent }: Surroundings) => {
  const refused =
    runId === undefined || parent !== undefined ? undefined : Names.refusedId(runId, Names.mostBytes.givenId)
  return refused === undefined ? Effect.succeed(runId) : Effect.fail(refused)
}

type Erased<A, E> = Effect.Effect<A, E, LanguageModel.LanguageModel | RunStore>

/** Starts a run, or takes it up where it is if one of this id is stored. */
export const run = (
  definition: Definition,
  input: string | ReadonlyArray<Message>,
  options: RunOptions,
  around: Surroundings
): Erased<Finished, Failures> =>
  Effect.gen(function* () {
    const store = yield* RunStore
    const given = yield* givenId(options, around)
    const runId = given ?? randomUUID()
    const sent = given === undefined ? 0 : yield* Inbox.lastSent(runId)
    const lease = yield* store.lease(runId)
    const stored = given === undefined ? undefined : yield* ifStored(load(given))
    if (stored !== undefined) {
      const { limits } = options
      const stopped = yield* takeUp(lease, definition, found(stored), { limits }, around, sent)
      return yield* finish(lease, definition, stopped, around)
    }
    const { job, start } = yield* opening(definition, runId, input, options, around)
    const stopped = yield* Session.start(job, start, lease, around.watcher)
    return yield* finish(lease, definition, stopped, around)
  }).pipe(Effect.scoped, definition.provided, ambientFailures<Finished, Failures>)

/** Takes a stored run up again. */
export const resume = (
  definition: Definition,
  runId: string,
  options: ResumeOptions,
  around: Surroundings
): Erased<Finished, Failures> =>
  Effect.gen(function* () {
    const store = yield* RunStore
    const sent = yield* Inbox.lastSent(runId)
    const lease = yield* store.lease(runId)
    const stored = found(yield* load(runId))
    if (around.isWanted?.(stored.state) === false) return yield* Effect.interrupt
    const stopped = yield* takeUp(lease, definition, stored, options, around, sent)
    return yield* finish(lease, definition, stopped, around)
  }).pipe(Effect.scoped, definition.provided, ambientFailures<Finished, Failures>)

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
  Effect.gen(function* () {
    const store = yield* RunStore
    const given = yield* givenId(options, alone)
    const runId = given ?? randomUUID()
    const isStored = Effect.gen(function* () {
      const stored = given === undefined ? undefined : yield* ifStored(store.summary(given))
      if (stored === undefined || stored.agent === definition.name) return stored !== undefined
      return yield* mismatch(definition, runId, `it is a run of ${stored.agent}`)
    })
    const stored = Effect.gen(function* () {
      if (yield* isStored) return
      const lease = yield* store.lease(runId)
      if (yield* isStored) return
      const { job, start } = yield* opening(definition, runId, input, options, alone)
      yield* Session.create(job, start, lease)
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
  }).pipe(definition.provided, ambientFailures<string, Outside>)

/**
 * Stops a run, whoever drives it: its driver is told, and does so within a second; a run that nobody drives is stopped
 * here. A run that has completed, failed or stopped at a limit stays as it is. A driver on its way out of the run heeds
 * what it is sent until it has looked for the last time; what comes later is obeyed by whoever takes the run up next.
 */
export const cancel = (
  runId: string,
  reason: string
): Effect.Effect<void, RunNotFound | RunStoreError, RunStore> =>
  Effect.gen(function* () {
    const store = yield* RunStore
    yield* store.summary(runId)
    const ended = Effect.asVoid(RunEnd.stopUndriven(runId, reason))
    yield* Effect.catchTag(ended, "RunBusy", () => store.send(runId, { type: "cancel", reason }))
  })

/** The failures and services of an erased toolkit and of provided layers are in the type of the `Agent` around it. */
const ambientFailures = <A, E>(effect: Effect.Effect<A, unknown, unknown>): Effect.Effect<A, E> =>
  ambient(effect) as Effect.Effect<A, E>
