/**
 * Waiting for work that nobody can vouch for: the handler of a tool, the request to a provider.
 *
 * Interruption is a request. An uninterruptible region or a finalizer without an end goes on for as long as it likes, and
 * whoever waits for it waits as long. Here nobody does: work that has not ended a while after its interruption is let go
 * of. It runs on by itself, the log says so, and whoever has waited can say so too.
 *
 * Work that was interrupted in an uninterruptible region and comes to its end there has no result to tell: effect
 * replaces it by the interruption. So only what came back before it was cut off is known.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"

/** What came of work that was waited for. */
export interface Ended<A, E> {
  /** How it came back; `undefined` if it was cut off before it did. */
  readonly exit: Exit.Exit<A, E> | undefined
  /** Whether it, or something that it has started, was let go of and may still be running. */
  readonly mayRun: boolean
}

/** How long to wait, and whom to tell. */
export interface Options<A, E, B> {
  /** What the log calls it. */
  readonly name: string
  /** How long it has until it is interrupted, in milliseconds; `Infinity` for ever. Asked again while it runs. */
  readonly leftMs: () => number
  /** How long it may take to end when it is interrupted, in milliseconds; `Infinity` for work that bounds itself. */
  readonly graceMs: () => number
  /** Told that its time is up, before it is interrupted for that. */
  readonly onLate?: () => void
  /** Makes the answer of what came. It is asked also where the waiting itself is interrupted, and nobody gets the answer. */
  readonly onEnd: (ended: Ended<A, E>) => B
}

const orLonger = <A>(effect: Effect.Effect<A>, ms: number): Effect.Effect<unknown> =>
  ms === Number.POSITIVE_INFINITY ? effect : Effect.timeoutOption(effect, ms)

/** What is left of so much time from now on, both in milliseconds, by this monotonic clock. */
export const countdown = (nowMs: () => number, ms: number): (() => number) => {
  if (ms === Number.POSITIVE_INFINITY) return () => ms
  const end = nowMs() + ms
  // Readings are whole microseconds, and what their sum is off by is no time.
  return () => Math.round((end - nowMs()) * 1_000) / 1_000
}

/** A calendar may be set, or go on while the machine sleeps, and no timer tells. */
const longestSleepMs = 30_000

/** Waits until nothing is left: that is asked again after each sleep, and every 30 seconds. */
export const waitOut = (leftMs: () => number): Effect.Effect<void> =>
  Effect.suspend(() => {
    const left = leftMs()
    if (left <= 0) return Effect.void
    return Effect.andThen(Effect.sleep(Math.min(Math.ceil(left), longestSleepMs)), waitOut(leftMs))
  })

/** What a worker and whoever waits for it share. */
interface Shared<A, E> {
  readonly fiber: Fiber.Fiber<A, E>
  /** How the work came back, as soon as it is. */
  readonly exit: () => Exit.Exit<A, E> | undefined
  /** Done when the work is back, or late. */
  readonly over: Deferred.Deferred<void>
}

/** Whatever has woken this fiber comes to its own end first. */
const oneStep = Effect.promise(() => Promise.resolve())

const waitFor = Effect.fnUntraced(function* <A, E, B>(
  { exit, fiber, over }: Shared<A, E>,
  restore: <C>(effect: Effect.Effect<C>) => Effect.Effect<C>,
  { graceMs, leftMs, name, onEnd, onLate }: Options<A, E, B>
) {
  // One fiber for the time, where a race would need two.
  const timer =
    leftMs() === Number.POSITIVE_INFINITY
      ? undefined
      : yield* Effect.forkDetach(Effect.andThen(waitOut(leftMs), Deferred.succeed(over, undefined)), {
          startImmediately: true
        })
  // Back, late, or interrupted: an interruption is taken up again when the mask ends.
  const waited = yield* Effect.exit(restore(Deferred.await(over)))
  timer?.interruptUnsafe()
  const back = exit()
  if (back === undefined) {
    if (Exit.isSuccess(waited)) onLate?.()
    fiber.interruptUnsafe(yield* Effect.fiberId)
  }
  // Work that is back is over one step later, or when what it has left running is.
  else yield* oneStep
  if (fiber.pollUnsafe() === undefined) yield* orLonger(Fiber.await(fiber), graceMs())
  const mayRun = fiber.pollUnsafe() === undefined
  if (mayRun)
    yield* Effect.logWarning(`${name} does not end when it is interrupted, and may still be running`)
  return onEnd({ exit: back, mayRun })
})

/**
 * Runs work in a fiber of its own until it ends, is late, or the waiting is interrupted; then it and everything that it
 * has left running are interrupted, and waited for no longer than the grace. Never fails.
 */
export const run = <A, E, B, R>(
  work: Effect.Effect<A, E, R>,
  options: Options<A, E, B>
): Effect.Effect<B, never, R> =>
  Effect.uninterruptibleMask((restore) => {
    const over = Deferred.makeUnsafe<void>()
    let back: Exit.Exit<A, E> | undefined
    const working = Effect.onExit(work, (exit) => {
      back = exit
      return Deferred.succeed(over, undefined)
    })
    return Effect.flatMap(Effect.forkDetach(working, { startImmediately: true }), (fiber) => {
      const exit = fiber.pollUnsafe()
      return exit === undefined
        ? waitFor({ fiber, over, exit: () => back }, restore, options)
        : Effect.sync(() => options.onEnd({ exit, mayRun: false }))
    })
  })

/** A question to an author's own code, and what its answer is if it fails or does not come in time. */
export interface Question<A> extends Omit<Options<A, unknown, A>, "onEnd"> {
  readonly otherwise: A
  /** What the log says if it fails. */
  readonly warning: string
}

/** The answer to a question. Never fails. */
export const ask = <A, E>(
  question: Effect.Effect<A, E>,
  { otherwise, warning, ...options }: Question<A>
): Effect.Effect<A> =>
  run(question, { ...options, onEnd: ({ exit = Exit.succeed(otherwise) }) => exit }).pipe(
    Effect.flatten,
    Effect.catchCause((cause) => Effect.as(Effect.logWarning(warning, cause), otherwise))
  )
