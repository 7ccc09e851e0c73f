/**
 * The runs that a host drives: each by one fiber, so many at a time, and what is asked for meanwhile kept for when that
 * one is done. They end with the scope, as `Shutdown` says.
 */
import { randomUUID } from "node:crypto"
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as FiberSet from "effect/FiberSet"
import * as Option from "effect/Option"
import * as Semaphore from "effect/Semaphore"
import * as Stream from "effect/Stream"
import type { InvalidLimits } from "../run/Limits.ts"
import type { Message } from "../run/Message.ts"
import type { Of } from "../run/RunEvent.ts"
import { BudgetPool, type BudgetPoolError } from "../store/BudgetPool.ts"
import { RunStore, RunStoreError, type RunSummary } from "../store/RunStore.ts"
import { atMost } from "../store/TimeLimit.ts"
import { type Agent, definitionOf } from "./AgentHandle.ts"
import { ambient } from "./Ambient.ts"
import * as Cancel from "./Cancel.ts"
import * as HostLog from "./HostLog.ts"
import { appendTimeout, type Watcher } from "./Journal.ts"
import * as Live from "./Live.ts"
import * as PoolClaims from "./PoolClaims.ts"
import { checkRun, type ResumeOptions, type RunOptions } from "./RunOptions.ts"
import * as Runs from "./Runs.ts"
import * as StoredResume from "./StoredResume.ts"
import type { Surroundings } from "./Surroundings.ts"
import { type Drive, isWanted, onlyUnstopped, recovering } from "./Wanted.ts"

/** What to do about the runs of a host that is shut down. */
export interface Shutdown {
  /**
   * What becomes of the turns and tools that are running: `finish` (default) lets them come to their end, `interrupt`
   * stops them. Either way nothing new begins, and every run stands as if its driver had died between two calls:
   * `recover` takes it over, here or elsewhere, at once.
   */
  readonly running?: "finish" | "interrupt" | undefined
  /** How long `finish` waits before it interrupts. Default 30 seconds. */
  readonly grace?: Duration.Input | undefined
}

/** A run as its journal says what it is, whoever drives it and wherever. */
export interface Hosted {
  readonly runId: string
  readonly agent: string
  readonly tags: ReadonlyArray<string>
}

/** How a host drives runs. */
export interface Options<R = never> {
  /**
   * How many runs are driven at a time. Default 16. With `"none"` the host drives no run, for a process that only takes
   * requests: what it starts and resumes is stored, and a host elsewhere that recovers it drives it.
   */
  readonly concurrency?: number | "none" | undefined
  readonly shutdown?: Shutdown | undefined
  /**
   * The budget that a run shares with others, such as those of its tenant; its sub-agents' runs spend it too. It is asked
   * for when a run is started or resumed, and each time that this host takes one up: made of what is stored with the run,
   * it is the same in every process. For `undefined`, and without this, it is the one around the layer, if there is one. A
   * run whose budget cannot be had is not driven: `start` and `resume` fail, and a run that is stored stays as it is.
   */
  readonly budget?:
    | ((run: Hosted) => Effect.Effect<BudgetPool["Service"] | undefined, BudgetPoolError | InvalidLimits, R>)
    | undefined
}

type Store = RunStore["Service"]
type Pool = BudgetPool["Service"]

/** An agent of a host. */
export type Driven = Agent<unknown, never, unknown>

/** A run that is driven here, or that waits for its turn. */
interface Driver {
  readonly done: Deferred.Deferred<void>
  /** What was asked for and is not taken up yet. */
  asked: Drive | undefined
  /** How many events the run had when it was taken up; `undefined` before that. */
  from: number | undefined
  /** The last thing that the run did since it was taken up: it has stopped, or goes on; `undefined` if it did nothing. */
  last: Of<"run_stopped"> | "goes on" | undefined
}

/** What is still asked for of a run, and the run that somebody else has: that one, or one below it. */
interface Busy {
  readonly how: Drive
  readonly busy: string
}

/** Has something else asked for than this, or nothing any more, unless somebody has asked again meanwhile. */
const replace = (driver: Driver, how: Drive, by?: Drive): void => {
  if (driver.asked === how) driver.asked = by
}

/** Whether somebody does not know any more whether what he asked for was stored. */
const isUntold = (cause: Cause.Cause<unknown>): boolean =>
  Cause.hasInterrupts(cause) || Option.getOrUndefined(Cause.findErrorOption(cause)) instanceof RunStoreError

/** How long to wait for somebody who has a run and does nothing with it: each time as long as all before, 26 s in all. */
const waits = Array.from({ length: 8 }, (_, index) => 100 * 2 ** index)

/** The drivers of a host, with what is around it: nothing that stands around one of its calls belongs to a run. */
export const make = Effect.fnUntraced(function* <R>(
  { budget, concurrency = 16, shutdown = {} }: Options<R>,
  context: Context.Context<R | RunStore>
) {
  const store = Context.get(context, RunStore)
  const slots = yield* Semaphore.make(concurrency === "none" ? 0 : concurrency)
  const drain = yield* Deferred.make<void>()
  const fibers = yield* FiberSet.make<void, never>()
  const drivers = new Map<string, Driver>()
  const live = Live.make()

  /** Runs something with what is around the host alone, except that it may be given a store of its own. */
  const here = <A, E>(effect: Effect.Effect<A, E, unknown>, given = store): Effect.Effect<A, E> =>
    Effect.updateContext(ambient(effect), () => Context.add(context, RunStore, given))

  /** The budget that a run shares, as the host says; `undefined` is the one around it, if there is one. */
  const poolOf = (run: Hosted): Effect.Effect<Pool | undefined, RunStoreError | InvalidLimits> => {
    if (budget === undefined) return Effect.undefined
    const failed = (kind: "timed_out" | "unavailable", problem: string, cause?: unknown) =>
      Effect.fail(new RunStoreError({ runId: run.runId, kind, problem, cause }))
    return ambient(budget(run)).pipe(
      Effect.catchTag("BudgetPoolError", (error) => Effect.fail(PoolClaims.stopped(run.runId)(error))),
      // Whoever waits for it has a place that others wait for.
      atMost(appendTimeout, () => failed("timed_out", "the host's `budget` has not said which it is")),
      Effect.catchCauseIf(Cause.hasInterruptsOnly, (cause) =>
        failed("unavailable", "the host's `budget` was interrupted from inside", cause)
      )
    )
  }

  /** Does something for a run with the budget that it shares. */
  const within = <A, E>(
    run: Hosted,
    effect: Effect.Effect<A, E, unknown>
  ): Effect.Effect<A, E | RunStoreError | InvalidLimits> =>
    Effect.flatMap(poolOf(run), (pool) =>
      pool === undefined ? ambient(effect) : Effect.provideService(ambient(effect), BudgetPool, pool)
    )

  const inStore = <A, E>(effect: Effect.Effect<A, E, RunStore>): Effect.Effect<A, E> =>
    Effect.provideService(effect, RunStore, store)
  const undriven = (runId: string) => (cause: Cause.Cause<unknown>) => inStore(HostLog.undriven(runId)(cause))

  /** Tells whoever is attached to a run, and keeps how it stands. */
  const watcherOf =
    (driver: Driver): Watcher =>
    (event, run) => {
      if (event.type === "run_stopped") driver.last = event
      else if (event.type === "run_resumed") driver.last = "goes on"
      live.watcher(event, run)
    }

  /**
   * Drives a run until it stops, as far as that is wanted. Yields what is still asked for if somebody else has it, or one
   * below it, and which that is.
   */
  const attempt = (agent: Driven, runId: string, driver: Driver) =>
    Effect.gen(function* () {
      const how = driver.asked
      if (how === undefined || Deferred.isDoneUnsafe(drain)) return undefined
      const busy = yield* Effect.gen(function* () {
        const summary = yield* store.summary(runId)
        if (!isWanted(how, summary)) return undefined
        const { agent: name, tags = [] } = summary
        const around: Surroundings = {
          // A stream costs more than a whole reply, and shows nothing where nobody looks.
          isStreamed: () => live.isAttached(runId),
          watcher: watcherOf(driver),
          drain,
          // Whatever Stop it was sent counts: it has obeyed none yet.
          sent: 0,
          isWanted: (run) => {
            if (driver.asked === undefined || !isWanted(driver.asked, run)) return false
            driver.asked = undefined
            driver.from = run.seq
            driver.last = undefined
            return true
          }
        }
        const resumed = Runs.resume(definitionOf(agent), runId, {}, around)
        yield* within({ runId, agent: name, tags }, resumed)
        return undefined
      }).pipe(
        Effect.catchTag("RunBusy", (error) =>
          Effect.gen(function* () {
            yield* Effect.logDebug(`run ${error.runId} is driven by somebody else`)
            if (driver.from === undefined) return error.runId
            if (driver.last !== undefined || error.runId === runId) return undefined
            // One below it is, and its lease may end later than that of this one: nothing has been done yet.
            driver.asked ??= how
            driver.from = undefined
            return error.runId
          })
        ),
        Effect.catchCause((cause) => Effect.as(undriven(runId)(cause), undefined))
      )
      const { from, last } = driver
      // A run that had failed before says nothing when it fails again with the same.
      if (from !== undefined && typeof last === "object" && last.status === "failed")
        yield* HostLog.failed(last, agent.name)
      if (from === undefined && busy === undefined) replace(driver, how)
      driver.from = undefined
      return busy === undefined ? undefined : { how: driver.asked ?? how, busy }
    }).pipe(slots.withPermit)

  /**
   * Waits until nobody has a run any more; says that it is not so if somebody goes on with it after event `seq`, where that
   * is given, or keeps it.
   */
  const comesFree = (runId: string, seq: number | undefined) => {
    const isFree = Effect.gen(function* () {
      for (const ms of waits) {
        yield* Effect.sleep(ms)
        if (!(yield* store.isDriven(runId))) return true
      }
      return false
    })
    const goesOn =
      seq === undefined ? Effect.never : Effect.as(Stream.runHead(store.watch(runId, seq)), false)
    return Effect.raceFirst(isFree, Effect.raceFirst(goesOn, Effect.as(Deferred.await(drain), false)))
  }

  /**
   * Waits for somebody else who has a run that has not stopped. Whoever drives it is left alone; but it may have been stored
   * just now, or be stopped, by somebody who does not drive it. A run below it that somebody has is waited for until it is
   * left, or its lease has ended.
   */
  const awaitOthers = (runId: string, driver: Driver, { busy, how }: Busy) =>
    Effect.gen(function* () {
      const { seq, status } = yield* store.summary(runId)
      if (status !== "running") return replace(driver, how)
      const isBelow = busy !== runId
      const isFree = how.hasWaited !== true && (yield* comesFree(busy, isBelow ? undefined : seq))
      if (!isFree && isBelow && !Deferred.isDoneUnsafe(drain))
        yield* Effect.logWarning(
          `run ${runId} is not driven on, because somebody drives run ${busy} below it: \`recover\` has it driven`
        )
      replace(driver, how, isFree ? { ...how, hasWaited: true } : undefined)
    }).pipe(
      Effect.catchCause((cause) => {
        replace(driver, how)
        return undriven(runId)(cause)
      })
    )

  /** Drops what is asked for of a run that has stopped: to find that out nobody waits for a place. */
  const dropOver = Effect.fnUntraced(function* (runId: string, driver: Driver) {
    for (let how = driver.asked; how !== undefined; how = driver.asked) {
      const summary = yield* Effect.option(store.summary(runId))
      if (Option.isNone(summary) || isWanted(how, summary.value)) return
      replace(driver, how)
    }
  })

  const drive = (agent: Driven, runId: string, driver: Driver) =>
    Effect.gen(function* () {
      // Whoever has asked for this may attach first, and then sees all of it.
      yield* Effect.yieldNow
      while (driver.asked !== undefined && !Deferred.isDoneUnsafe(drain)) {
        const busy = yield* attempt(agent, runId, driver)
        yield* busy === undefined ? dropOver(runId, driver) : awaitOthers(runId, driver, busy)
      }
      // In the same moment: what is asked for from now on needs a new one.
      drivers.delete(runId)
    }).pipe(
      Effect.ensuring(
        Effect.suspend(() => {
          if (drivers.get(runId) === driver) drivers.delete(runId)
          live.forget(runId)
          return Deferred.succeed(driver.done, undefined)
        })
      ),
      Effect.annotateLogs({ runId, agent: agent.name })
    )

  const submit = (agent: Driven, runId: string, how: Drive): Effect.Effect<void> =>
    Effect.suspend(() => {
      if (drivers.has(runId)) return Effect.void
      // Nothing begins any more in a host that is closed, or ever in one without a place: nobody would be done with it.
      if (Deferred.isDoneUnsafe(drain) || concurrency === "none") return Effect.sync(() => live.forget(runId))
      const driver: Driver = { done: Deferred.makeUnsafe(), asked: how, from: undefined, last: undefined }
      drivers.set(runId, driver)
      return Effect.asVoid(here(FiberSet.run(fibers, drive(agent, runId, driver))))
    })

  /** Has a run driven that was stored just now, or before. */
  const start = (agent: Driven, runId: string): Effect.Effect<void> =>
    Effect.suspend(() => {
      // Whoever has a run driven is likely to attach to it next, and many a run has one turn.
      live.expect(runId)
      const driver = drivers.get(runId)
      if (driver === undefined) return submit(agent, runId, onlyUnstopped)
      // It may be on the way out of a run that has stopped, or was deleted, meanwhile; else nothing is left to do then. And it
      // may have looked at the run before this was stored: what it finds there is no answer to this.
      driver.asked = { ...(driver.asked ?? onlyUnstopped) }
      return Effect.void
    })

  yield* Effect.addFinalizer(() =>
    Effect.gen(function* () {
      const open = [...drivers.values()]
      yield* Deferred.succeed(drain, undefined)
      if (shutdown.running !== "interrupt") {
        yield* Effect.timeoutOption(FiberSet.awaitEmpty(fibers), shutdown.grace ?? "30 seconds")
      }
      const begun = open.filter(({ last }) => last !== undefined)
      const finished = begun.filter(({ done }) => Deferred.isDoneUnsafe(done)).length
      yield* Fiber.interruptAll(fibers)
      const left = open.filter(({ last }) => last === undefined || last === "goes on").length
      yield* HostLog.closed({ finished, interrupted: begun.length - finished, left })
    })
  )

  return {
    /** Stores a run with what is around the host, by way of the store that whoever asks for it sees. */
    create: (agent: Driven, input: string | ReadonlyArray<Message>, options: RunOptions, given: Store) => {
      const definition = definitionOf(agent)
      if (budget === undefined) return here(Runs.create(definition, input, options), given)
      const hosted = Effect.flatMap(checkRun(options), (runId = randomUUID()) => {
        const { after, limits, tags } = options
        const all = { after, limits, runId, tags } satisfies Required<RunOptions>
        // Whoever is asked for its budget is told its id.
        return within(
          { runId, agent: definition.name, tags: tags ?? [] },
          Runs.create(definition, input, all)
        )
      })
      return here(hosted, given)
    },
    /** The stored events of a run, with what is said between them while it is driven here. */
    among: live.among,
    /** Whether a run is driven here, or waits for its turn. */
    has: (runId: string): boolean => drivers.has(runId),
    /** Waits until whoever drives a run here is done; not at all if nobody does. */
    done: (runId: string): Effect.Effect<void> =>
      Effect.suspend(() => {
        const driver = drivers.get(runId)
        return driver === undefined ? Effect.void : Deferred.await(driver.done)
      }),
    /** Has a run driven that stands like this, if it is not driven here already. */
    recover: (agent: Driven, run: RunSummary) => submit(agent, run.runId, recovering(run)),
    start,
    /** Has a run go on that stands like this, by way of the store that whoever asks for it sees. */
    resume: Effect.fnUntraced(function* (
      agent: Driven,
      { agent: name, runId, seq, startedAt, status, tags = [] }: RunSummary,
      options: ResumeOptions,
      given: Store
    ) {
      const saysNothing = options.message === undefined
      if (status === "completed" && saysNothing) return
      const isDriven = status === "running" && drivers.has(runId)
      // Its journal may be long, and there is nothing to write into it.
      if (isDriven && saysNothing && options.limits === undefined) return yield* start(agent, runId)
      // Before anything else is waited for: a Stop that comes from now on counts.
      const sent = yield* inStore(Cancel.lastSent(runId))
      const seen = { runId, startedAt, seq, sent }
      const resumed = StoredResume.store(definitionOf(agent), seen, options)
      const goesOn = yield* here(within({ runId, agent: name, tags }, resumed), given).pipe(
        // It may be stored all the same: whoever asked for it has gone, or the store could not say so any more.
        Effect.onError((cause) => (isUntold(cause) ? start(agent, runId) : Effect.void))
      )
      if (goesOn) yield* start(agent, runId)
    }),
    /**
     * The budget that a run nobody drives is stopped with, so that it hears of the model call that was lost: a Stop does
     * not depend on it.
     */
    poolFor: ({ agent, runId, tags = [] }: RunSummary): Effect.Effect<Pool | undefined> =>
      here(poolOf({ runId, agent, tags })).pipe(
        Effect.catch((error) =>
          Effect.as(
            Effect.logWarning(`run ${runId} is stopped without its budget, which cannot be had`, error),
            undefined
          )
        ),
        Effect.map((pool) => pool ?? Context.getOrUndefined(context, BudgetPool))
      )
  }
})
