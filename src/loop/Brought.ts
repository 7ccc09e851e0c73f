/**
 * What an agent brings to one run: the layers of `Agent.provide`, and its tools where an effect yields them.
 *
 * All of it is code of somebody else, as a tool is. It lives in a fiber of its own, from when the run asks for it until the
 * run is over: so a run whose time is up, or that is stopped, need not wait for what cannot be built, nor one that has ended
 * for what cannot be closed. What has not ended a while after that is let go of, and the log says so.
 */
import { LanguageModel } from "effect/ai/LanguageModel"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import * as Deadline from "../run/Deadline.ts"
import { outOf } from "../run/Exhaustion.ts"
import * as Limits from "../run/Limits.ts"
import type { Ending } from "../run/NextStep.ts"
import { type RunBusy, type RunNotFound, RunStore, type RunStoreError } from "../store/RunStore.ts"
import { ambient } from "./Ambient.ts"
import * as Cancel from "./Cancel.ts"
import type { Definition } from "./Definition.ts"
import { Drain } from "./Drain.ts"
import * as Patience from "./Patience.ts"

/** For what run it is, and how long that waits for it. */
export interface Waiting {
  readonly runId: string
  readonly limits: Limits.Limits
  /** How long the run was driven before, in milliseconds. */
  readonly elapsedMs: number
  /** Yields the reason of a Stop when one comes; fails if the run is lost meanwhile. */
  readonly stopped: Effect.Effect<string, RunBusy | RunNotFound | RunStoreError, RunStore>
  /** What is done when whoever waits is interrupted, after so many milliseconds, before that goes on. */
  readonly interrupted?:
    | ((cause: Cause.Cause<unknown>, waitedMs: number) => Effect.Effect<unknown, unknown, unknown>)
    | undefined
}

/** What came of that, and how long it took, in milliseconds: that is the run's time. */
export type Came = { readonly waitedMs: number } & (
  | {
      readonly _tag: "Ready"
      /** The agent with its tools made. */
      readonly definition: Definition
      /** Runs something with what was brought. */
      readonly here: <A, E>(effect: Effect.Effect<A, E, unknown>) => Effect.Effect<A, E>
    }
  | { readonly _tag: "Ended"; readonly ending: Ending }
)

/** Asks for what the agent brings. Fails as building it does. */
export type Bring = (waiting: Waiting) => Effect.Effect<Came, unknown, unknown>

interface Built {
  readonly context: Context.Context<never>
  readonly tools: Definition["tools"]
}

/** Builds what an agent brings. What its tools acquire is closed with its layers. */
const build = (
  { provided = () => Effect.context<never>(), tools }: Definition,
  scope: Scope.Scope
): Effect.Effect<Built, unknown, unknown> =>
  Effect.flatMap(provided(scope), (around) => {
    const context = Context.add(around, Scope.Scope, scope)
    // Without a model it is refused, whatever its tools are.
    if (Option.isNone(Context.getOption(context, LanguageModel))) return Effect.succeed({ context, tools })
    const made = Effect.updateContext(ambient(tools), () => context)
    return Effect.map(made, (tools) => ({ context, tools: Effect.succeed(tools) }))
  })

/** The time that a run has while it waits. */
const stopwatch = Effect.fnUntraced(function* ({ elapsedMs, limits }: Waiting, leastMs: number) {
  const clock = yield* Clock.Clock
  const nowMs = () => Number(clock.monotonicTimeNanosUnsafe() / 1_000n) / 1_000
  const since = nowMs()
  const waitedMs = () => nowMs() - since
  const limitsNow = () => {
    const at = new Date(clock.currentTimeMillisUnsafe()).toISOString()
    return Deadline.anchor(limits, at, elapsedMs + waitedMs())
  }
  const inTimeMs = () => Limits.timeLeftMs(limitsNow(), elapsedMs + waitedMs(), "handoff")
  const wasUp = inTimeMs() === 0
  return {
    waitedMs,
    // A run whose time was up before is only to be told so, and what it needs for that may be there soon.
    leftMs: () => (wasUp ? leastMs - waitedMs() : inTimeMs()),
    used: (): Limits.Exhausted => ({
      resource: "time",
      used: elapsedMs + waitedMs(),
      limit: limitsNow().timeMs ?? Number.POSITIVE_INFINITY
    })
  }
})

const dies = (exit: Exit.Exit<unknown, unknown> | undefined): exit is Exit.Failure<never, unknown> =>
  exit !== undefined && Exit.isFailure(exit) && Cause.hasDies(exit.cause)

/** Of an agent that brings nothing: what it needs is around its runs, and there at once. */
const nothing =
  (definition: Definition): Bring =>
  () =>
    Effect.succeed({ _tag: "Ready", waitedMs: 0, definition, here: ambient })

/**
 * Does something for a run of an agent that may ask for what the agent brings, and closes that after it. A finalizer that
 * dies is told of as the end of the effect, and in the log where the run has ended for something else meanwhile.
 */
export const lend = <A>(
  definition: Definition,
  use: (bring: Bring) => Effect.Effect<A, unknown, unknown>
): Effect.Effect<A, unknown, unknown> => {
  if (definition.provided === undefined && !definition.toolsAreYielded) return use(nothing(definition))
  return Effect.uninterruptibleMask((restore) => {
    const graceMs = definition.policy.interruptGraceMs
    const built = Deferred.makeUnsafe<Built, unknown>()
    const over = Deferred.makeUnsafe<A, unknown>()
    const life = Effect.scopedWith((scope) =>
      Effect.andThen(
        Effect.onExit(build(definition, scope), (exit) => Deferred.done(built, exit)),
        Deferred.await(over)
      )
    )
    let living: { readonly fiber: Fiber.Fiber<A, unknown>; readonly runId: string } | undefined

    /** Begins its life, of which nobody would know who is interrupted in the middle. */
    const begin = (runId: string) =>
      living !== undefined
        ? Effect.void
        : Effect.uninterruptible(
            Effect.map(Effect.forkDetach(life, { startImmediately: true }), (fiber) => {
              living = { fiber, runId }
            })
          )

    /** Ends its life, if it has one, and waits for that as long as it may take. Yields how it has ended. */
    const end = (exit?: Exit.Exit<A, unknown>) =>
      Effect.gen(function* () {
        if (living === undefined) return undefined
        const { fiber, runId } = living
        living = undefined
        if (exit !== undefined && Deferred.isDoneUnsafe(built)) yield* Deferred.done(over, exit)
        else fiber.interruptUnsafe(yield* Effect.fiberId)
        if (fiber.pollUnsafe() === undefined) yield* Effect.timeoutOption(Fiber.await(fiber), graceMs)
        const ended = fiber.pollUnsafe()
        if (ended === undefined) {
          const what = `a layer of ${definition.name}, or the effect that yields its tools, for run ${runId}`
          yield* Effect.logWarning(`${what} does not end when the run does, and may still be running`)
        }
        return ended
      })

    const bring: Bring = Effect.fnUntraced(function* (waiting) {
      const { interrupted, runId, stopped } = waiting
      const time = yield* stopwatch(waiting, graceMs)
      yield* begin(runId)
      const ready = Effect.map(
        Deferred.await(built),
        ({ context, tools }): Came => ({
          _tag: "Ready",
          waitedMs: time.waitedMs(),
          definition: { ...definition, tools },
          // The store is that in which the run was looked for, whatever layers there are.
          here: (effect) =>
            Effect.updateContext(ambient(effect), (around: Context.Context<never>) =>
              Context.add(context, RunStore, Context.getUnsafe(around, RunStore))
            )
        })
      )
      // A race costs more than most layers do.
      if (Deferred.isDoneUnsafe(built)) return yield* ready
      const late = Effect.map(Patience.waitOut(time.leftMs), (): Ending => {
        const { detail, ...ending } = outOf(time.used())
        return { ...ending, detail: `${detail}, waiting for what ${definition.name} brings along` }
      })
      // Nothing has begun yet: whoever has to leave off leaves.
      const drain = yield* Drain
      const leaves =
        drain === undefined ? Effect.never : Effect.andThen(Deferred.await(drain), Effect.interrupt)
      // What is written down about its end has waited for that.
      const close = Effect.uninterruptible(
        Effect.gen(function* () {
          const ended = yield* end()
          if (dies(ended))
            yield* Effect.logWarning(
              `a layer of ${definition.name} has died while it was closed`,
              ended.cause
            )
        })
      )
      const ending = yield* Effect.raceAllFirst([
        // One that interrupts itself interrupts nobody who waits for it.
        Effect.as(Effect.exit(Deferred.await(built)), undefined),
        late,
        Effect.map(stopped, Cancel.endingFor),
        leaves
      ]).pipe(
        Effect.onExit((exit) =>
          interrupted !== undefined && Exit.isFailure(exit) && Cause.hasInterrupts(exit.cause)
            ? Effect.andThen(
                close,
                Effect.suspend(() => interrupted(exit.cause, time.waitedMs()))
              )
            : Effect.void
        )
      )
      if (ending === undefined) return yield* ready
      yield* close
      return { _tag: "Ended", ending, waitedMs: time.waitedMs() }
    })

    return restore(use(bring)).pipe(
      Effect.exit,
      Effect.flatMap((exit) => Effect.flatMap(end(exit), (ended) => (dies(ended) ? ended : exit)))
    )
  })
}
