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
import * as Semaphore from "effect/Semaphore"
import type { InvalidLimits } from "../run/Limits.ts"
import type { Message } from "../run/Message.ts"
import { isRunExit } from "../run/RunExit.ts"
import type { RunState } from "../run/RunState.ts"
import { BudgetPool, type BudgetPoolError } from "../store/BudgetPool.ts"
import { RunStore, RunStoreError, type RunSummary } from "../store/RunStore.ts"
import { atMost } from "../store/TimeLimit.ts"
import { type Agent, definitionOf } from "./AgentHandle.ts"
import { ambient } from "./Ambient.ts"
import { Drain } from "./Drain.ts"
import { appendTimeout } from "./Journal.ts"
import * as Live from "./Live.ts"
import * as PoolClaims from "./PoolClaims.ts"
import type { ResumeOptions } from "./Resume.ts"
import * as Runs from "./Runs.ts"

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
  /** How many runs are driven at a time. Default 16. */
  readonly concurrency?: number | undefined
  readonly shutdown?: Shutdown | undefined
  /**
   * The budget that a run shares with others, such as those of its tenant; its sub-agents' runs spend it too. It is asked
   * for when a run is started, and each time that this host takes one up: made of what is stored with the run, it is the
   * same in every process. For `undefined`, and without this, it is the one around the layer, if there is one. A run whose
   * budget cannot be had is not driven: `start` fails, and a run that is stored stays as it is.
   */
  readonly budget?:
    | ((run: Hosted) => Effect.Effect<BudgetPool["Service"] | undefined, BudgetPoolError | InvalidLimits, R>)
    | undefined
}

type Store = RunStore["Service"]
type Pool = BudgetPool["Service"]

/** An agent of a host. */
export type Driven = Agent<unknown, never, unknown>

interface Drive {
  readonly options: ResumeOptions
  /** How many events the run had when it was asked for to drive it although it has stopped, if that was asked for. */
  readonly again: number | undefined
}

/** Drives a run only as far as nobody has stopped it. */
const onlyUnstopped: Drive = { options: {}, again: undefined }

/** Whether a run that stands like this is to be driven: whoever was the last to stop it or to have it go on counts. */
const isWanted = (
  { again }: Drive,
  { reason, seq, status }: Pick<RunSummary, "reason" | "seq" | "status">
): boolean => status === "running" || (again !== undefined && (reason !== "cancelled" || seq <= again))

/** A run that is driven here, or that waits for its turn. */
interface Driver {
  readonly done: Deferred.Deferred<void>
  /** How many events the run had when it was taken up; `undefined` before that. */
  from: number | undefined
  /** What was asked for; a Stop that comes before the run is taken up leaves nothing to do. */
  how: Drive
  /** What was asked for after the run had stopped or was deleted, while its driver was still on its way out. */
  next: Drive | undefined
}

/** How long to wait for a driver elsewhere that is on its way out. */
const untilFree = "100 millis"

const finished = (runId: string) => (cause: Cause.Cause<unknown>) => {
  const failure = Cause.findErrorOption(cause)
  const ended = Cause.hasInterruptsOnly(cause) || (failure._tag === "Some" && isRunExit(failure.value))
  return ended
    ? Effect.logDebug(`run ${runId} has stopped`, cause)
    : Effect.logError(`run ${runId} is not driven any more, and has not stopped`, cause)
}

/** The drivers of a host, with what is around it: nothing that stands around one of its calls belongs to a run. */
export const make = Effect.fnUntraced(function* <R>(
  { budget, concurrency = 16, shutdown = {} }: Options<R>,
  context: Context.Context<R | RunStore>
) {
  const store = Context.get(context, RunStore)
  const slots = yield* Semaphore.make(concurrency)
  const drain = yield* Deferred.make<void>()
  const fibers = yield* FiberSet.make<void, never>()
  const drivers = new Map<string, Driver>()
  const live = Live.make()

  /** Runs something with what is around the host alone, except that it may be given a store of its own. */
  const here = <A, E>(effect: Effect.Effect<A, E, unknown>, given = store): Effect.Effect<A, E> =>
    Effect.updateContext(ambient(effect), () =>
      Context.add(Context.add(context, Drain, drain), RunStore, given)
    )

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

  const isLeaving = Effect.sync(() => Deferred.isDoneUnsafe(drain))

  /** Drives a run until it stops; says whether it could not, because somebody else is still on the way out of it. */
  const attempt = (agent: Driven, runId: string, driver: Driver) =>
    Effect.gen(function* () {
      if (yield* isLeaving) return false
      const summary = yield* store.summary(runId)
      if (!isWanted(driver.how, summary)) return false
      driver.from = summary.seq
      const { options } = driver.how
      const { agent: name, tags = [] } = summary
      const around = {
        // A stream costs more than a whole reply, and shows nothing where nobody looks.
        isStreamed: () => live.isAttached(runId),
        watcher: live.watcher,
        isWanted: (run: RunState) => isWanted(driver.how, run)
      }
      yield* within({ runId, agent: name, tags }, Runs.resume(definitionOf(agent), runId, options, around))
      return false
    }).pipe(
      Effect.catchTag("RunBusy", () =>
        Effect.gen(function* () {
          yield* Effect.logDebug(`run ${runId} is driven by somebody else`)
          return driver.how.again !== undefined && (yield* store.summary(runId)).status !== "running"
        })
      ),
      Effect.catchCause((cause) => Effect.as(finished(runId)(cause), false)),
      slots.withPermit
    )

  /** Whether there is something to be done next for a run; without that its driver is gone, in the same moment. */
  const hasNext = (runId: string, driver: Driver): boolean => {
    const { next } = driver
    if (next === undefined) {
      drivers.delete(runId)
      return false
    }
    driver.from = undefined
    driver.how = next
    driver.next = undefined
    return true
  }

  /** Whether a run has stopped and nobody has asked for more: to find that out nobody waits for a place. */
  const isOver = (runId: string, driver: Driver) =>
    Effect.match(store.summary(runId), {
      onFailure: () => false,
      onSuccess: (summary) => !isWanted(driver.how, summary)
    })

  const drive = (agent: Driven, runId: string, driver: Driver) =>
    Effect.gen(function* () {
      // Whoever has asked for this may attach first, and then sees all of it.
      yield* Effect.yieldNow
      let goesOn = true
      while (goesOn) {
        const isBusy: boolean = yield* attempt(agent, runId, driver)
        if (isBusy && !(yield* isLeaving)) {
          yield* Effect.raceFirst(Effect.sleep(untilFree), Deferred.await(drain))
          continue
        }
        goesOn = hasNext(runId, driver)
        while (goesOn && (yield* isOver(runId, driver))) goesOn = hasNext(runId, driver)
      }
    }).pipe(
      Effect.ensuring(
        Effect.suspend(() => {
          if (drivers.get(runId) === driver) drivers.delete(runId)
          live.forget(runId)
          return Deferred.succeed(driver.done, undefined)
        })
      )
    )

  const submit = (agent: Driven, runId: string, how: Drive): Effect.Effect<void> =>
    Effect.suspend(() => {
      if (drivers.has(runId)) return Effect.void
      // Nothing begins any more in a host that is closed, and nobody would ever be done with it.
      if (Deferred.isDoneUnsafe(drain)) return Effect.sync(() => live.forget(runId))
      const driver: Driver = { done: Deferred.makeUnsafe(), from: undefined, how, next: undefined }
      drivers.set(runId, driver)
      return Effect.asVoid(here(FiberSet.run(fibers, drive(agent, runId, driver))))
    })

  yield* Effect.addFinalizer(() =>
    Effect.gen(function* () {
      yield* Deferred.succeed(drain, undefined)
      if (shutdown.running !== "interrupt") {
        yield* Effect.timeoutOption(FiberSet.awaitEmpty(fibers), shutdown.grace ?? "30 seconds")
      }
      yield* Fiber.interruptAll(fibers)
    })
  )

  return {
    /** Stores a run with what is around the host, by way of the store that whoever asks for it sees. */
    create: (
      agent: Driven,
      input: string | ReadonlyArray<Message>,
      options: Runs.RunOptions,
      given: Store
    ) => {
      const definition = definitionOf(agent)
      if (budget === undefined) return here(Runs.create(definition, input, options), given)
      // Whoever is asked for its budget is told its id.
      const { runId = randomUUID(), tags = [] } = options
      const created = Runs.create(definition, input, { ...options, runId })
      return here(within({ runId, agent: definition.name, tags }, created), given)
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
    /** Has a run driven that has not stopped, if it is not driven here already. */
    recover: (agent: Driven, runId: string) => submit(agent, runId, onlyUnstopped),
    /** Has a run driven that was stored just now, or before. */
    start: (agent: Driven, runId: string): Effect.Effect<void> =>
      Effect.suspend(() => {
        // Whoever has a run driven is likely to attach to it next, and many a run has one turn.
        live.expect(runId)
        const driver = drivers.get(runId)
        if (driver?.from === undefined) return submit(agent, runId, onlyUnstopped)
        // It may be on the way out of a run that was deleted meanwhile; of one that is driven nothing is left to do then.
        driver.next ??= onlyUnstopped
        return Effect.void
      }),
    /** Has a run driven on that stands like this. */
    resume: (
      agent: Driven,
      { runId, seq, status }: RunSummary,
      options: ResumeOptions
    ): Effect.Effect<void> =>
      Effect.suspend(() => {
        live.expect(runId)
        const how = { options, again: seq }
        const driver = drivers.get(runId)
        if (driver === undefined) return submit(agent, runId, how)
        if (driver.from === undefined) {
          driver.how = how
          return Effect.void
        }
        // It is on its way out of a run that has stopped, or was told to forget it.
        const leaves = driver.from < seq || driver.how.again === undefined
        if (leaves && status !== "running") driver.next = how
        return Effect.void
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
      ),
    /** Forgets what was asked for of a run that is stopped now. */
    forget: (runId: string): void => {
      const driver = drivers.get(runId)
      if (driver === undefined) return
      driver.how = onlyUnstopped
      driver.next = undefined
    }
  }
})
