/**
 * Drives one run to its end, through the fault and through whatever waits for a person on the way.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Agent from "../../Agent.ts"
import { ambient } from "../../loop/Ambient.ts"
import { Probe } from "../../loop/Probe.ts"
import type { LimitsInput } from "../../run/Limits.ts"
import type { Message } from "../../run/Message.ts"
import type { WaitingCall } from "../../run/RunEvent.ts"
import { fromState, isRunExit } from "../../run/RunExit.ts"
import { load, RunBusy, type RunNotFound, RunStore, type RunStoreError } from "../../store/RunStore.ts"
import type { Ending } from "./Observation.ts"
import type { Saboteur } from "./Saboteur.ts"
import * as Time from "./Time.ts"
import * as Witness from "./Witness.ts"

/** What is asked, and what the people around the run say, the same each time. */
export interface Script {
  readonly input: string | ReadonlyArray<Message>
  /** The limits of the run, over those of the agent. */
  readonly limits?: LimitsInput | undefined
  /** What is decided about a call that waits for approval. Default: it is approved. */
  readonly decide?: ((call: WaitingCall) => Agent.Decision) | undefined
  /** What is answered to a question of the run. Default: `Go on as you think best.` */
  readonly answer?: ((question: string) => string) | undefined
}

/** One run: where it is kept and under which id, who stops it, and what is known of the tools. */
export interface Options {
  readonly agent: Agent.Agent<unknown, unknown, unknown>
  readonly store: RunStore["Service"]
  readonly runId: string
  readonly saboteur: Saboteur
  readonly witness: Witness.Witness
  readonly clock: Time.Clock
  /** Whether a process was killed that drove the run. */
  readonly orphaned: boolean
  /** The tools of which it is known that something takes place in the world when they are called. */
  readonly telling: ReadonlySet<string>
}

// Far more than any run needs that goes on at all.
const mostDrivers = 200

/**
 * What a person finds out about a call of unknown outcome. The witness knows whether its handler was entered and how it
 * was left, and whether anything took place; a tool that never tells is believed to have had its effect.
 */
const findOut = (
  entries: ReadonlyArray<Witness.Entry>,
  { callId, runId, tool }: WaitingCall,
  telling: ReadonlySet<string>
): Agent.Resolution => {
  const own = entries.filter(
    (entry) => entry._tag !== "Stored" && entry.runId === runId && entry.callId === callId
  )
  const left = own.findLast((entry) => entry._tag === "Left")
  if (left?._tag === "Left" && left.as === "result") return Agent.happened(left.content)
  const entered = own.some((entry) => entry._tag === "Entered")
  const tookPlace = own.some((entry) => entry._tag === "Happened")
  return tookPlace || (entered && !telling.has(tool)) ? Agent.happened() : Agent.didNotHappen
}

type Exited = Exit.Exit<unknown, unknown>

const errorOf = (exit: Exited): unknown =>
  Exit.isFailure(exit) ? Option.getOrUndefined(Cause.findErrorOption(exit.cause)) : undefined

const tagOf = (error: unknown): string | undefined =>
  typeof error === "object" && error !== null && "_tag" in error && typeof error._tag === "string"
    ? error._tag
    : undefined

const endingOf = (exit: Exited): Ending => {
  if (Exit.isSuccess(exit)) return { tag: "Completed", reason: undefined, problem: "" }
  const error = errorOf(exit)
  if (isRunExit(error)) return { tag: error._tag, reason: error.run.reason, problem: error.message }
  const otherwise = Cause.hasInterruptsOnly(exit.cause) ? "interrupted" : "defect"
  return { tag: tagOf(error) ?? otherwise, reason: undefined, problem: Cause.pretty(exit.cause) }
}

const by = { by: "the crash kit" }

/** What was said before the run was stopped counts already. */
const said = <R>(
  told: Effect.Effect<void, RunNotFound | RunStoreError | Agent.CallNotPending, R>
): Effect.Effect<void, RunNotFound | RunStoreError, R> =>
  Effect.catchTag(told, "CallNotPending", () => Effect.void)

/** How a run that has stopped is taken up again; `undefined` if it has ended. A run that was `broken` is forced. */
const goOn = (
  { answer = () => "Go on as you think best.", decide = () => Agent.approve() }: Script,
  { clock, witness, orphaned, telling }: Options,
  exit: Exited,
  broken: boolean
) =>
  Effect.gen(function* () {
    const again: Agent.ResumeOptions = {}
    const error = errorOf(exit)
    if (error instanceof RunBusy && orphaned) {
      // The dead keep their lease until it ends by itself.
      yield* Time.really(clock, "100 millis")
      return again
    }
    if (!isRunExit(error)) return undefined
    switch (error._tag) {
      case "ApprovalRequired":
        for (const call of error.calls) yield* said(Agent.decide(call, decide(call), by))
        return again
      case "OutcomeUnknown":
        for (const call of error.calls) {
          yield* said(Agent.resolve(call, findOut(witness.read(), call, telling), by))
        }
        return again
      case "InputRequired":
        return { message: answer(error.question) }
      case "RunFailed":
        return broken && error.reason === "defect" ? { force: true } : undefined
      default:
        return undefined
    }
  })

/**
 * How a run stands that nobody drives, as the exit that its driver would have had if it had lived: what has stopped has
 * stopped. `undefined` for a run that is to be started, or taken up where its journal ends.
 */
const standing = ({ clock, runId, store }: Options): Effect.Effect<Exited | undefined> =>
  load(runId).pipe(
    Effect.flatMap(({ state }) => {
      const exit = fromState(state)
      return Effect.as(
        // The clock of a process that is dead may have been ahead.
        Time.notBefore(clock, state.updatedAt),
        exit === undefined ? undefined : Exit.fail(exit)
      )
    }),
    Effect.catchTags({
      RunNotFound: () => Effect.undefined,
      RunStoreError: (error) => Effect.succeed(Exit.fail(error))
    }),
    Effect.provideService(RunStore, store)
  )

/** One driver's time with the run; `undefined` if it has no end. */
const driveOnce = Effect.fnUntraced(function* (
  { input, limits }: Script,
  { agent, clock, witness, runId, saboteur, store }: Options,
  resumption: Agent.ResumeOptions
) {
  const isStored = yield* Effect.match(store.summary(runId), {
    onFailure: ({ _tag }) => _tag !== "RunNotFound",
    onSuccess: () => true
  })
  const running: Effect.Effect<unknown, unknown, unknown> = isStored
    ? Agent.resume(agent, runId, resumption)
    : Agent.run(agent, input, { runId, limits })
  const driver = saboteur.driver(store)
  const fiber = yield* ambient(running).pipe(
    Effect.provideService(RunStore, driver.store),
    Effect.provideService(Probe, driver.probe),
    Effect.provideService(Witness.Current, witness),
    Effect.forkChild
  )
  driver.drivenBy(fiber)
  if (yield* Time.awaitEnd(fiber, clock)) return yield* Fiber.await(fiber)
  yield* Fiber.interrupt(fiber)
  return undefined
})

const neverEnded = (problem: string): Ending => ({ tag: "never ended", reason: undefined, problem })

/**
 * Drives a run until it ends: it is started if it is not stored, and taken up if it is. What its agent needs is in the
 * context.
 */
export const drive = Effect.fnUntraced(function* (script: Script, options: Options) {
  const { saboteur, store } = options
  const stops: Array<string> = []
  let exit = yield* standing(options)
  let broken = false
  for (let drivers = 0; drivers < mostDrivers; drivers++) {
    let resumption: Agent.ResumeOptions = {}
    if (exit !== undefined) {
      const ending = endingOf(exit)
      const next = yield* goOn(script, options, exit, broken).pipe(
        Effect.provideService(RunStore, store),
        Effect.exit
      )
      if (Exit.isFailure(next)) return { ending: endingOf(next), stops }
      if (next.value === undefined) return { ending, stops }
      if (ending.tag !== "RunBusy") stops.push(ending.tag)
      resumption = next.value
    }
    const before = saboteur.strikes().length
    exit = yield* driveOnce(script, options, resumption)
    if (exit === undefined) {
      const ending = neverEnded("it has waited for days for something that does not come")
      return { ending, stops }
    }
    const strike = saboteur.strikes()[before]
    broken = strike?.fault.way === "defect"
    if (strike === undefined || Exit.isSuccess(exit) || isRunExit(errorOf(exit))) continue
    // Its driver is gone, and has said nothing that counts.
    stops.push(endingOf(exit).tag)
    exit = yield* standing(options)
  }
  return { ending: neverEnded(`it was taken up ${mostDrivers} times, and goes on`), stops }
})
