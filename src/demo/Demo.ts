/**
 * Runs one scenario with its options to its end, and says what came of it: the numbers are read from the stored journal.
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import type * as HttpServerError from "effect/http/HttpServerError"
import * as Agent from "../Agent.ts"
import * as RunTrace from "../observe/RunTrace.ts"
import * as Tokens from "../provider/Tokens.ts"
import type * as Handoff from "../run/Handoff.ts"
import type { LimitsInput } from "../run/Limits.ts"
import type { LiveEvent, RunEvent } from "../run/RunEvent.ts"
import * as RunExit from "../run/RunExit.ts"
import type * as RunState from "../run/RunState.ts"
import { load, type Stored } from "../store/RunStore.ts"
import * as Catalogue from "./Catalogue.ts"
import * as Fixture from "./Fixture.ts"
import * as Provider from "./Provider.ts"
import * as Scenario from "./Scenario.ts"

/** How a scenario is run. Everything has a default. */
export interface Options extends Catalogue.Given {
  /** The id to store the run under; by default `Scenario.newRunId`, so that the command line can resume it. */
  readonly runId?: string | undefined
  /** What the run may use, besides the defaults of the scenario. */
  readonly limits?: LimitsInput | undefined
  /** What a person says to every call that waits for one: nothing (`none`), yes (`all`) or no (`reject`). */
  readonly approve?: "none" | "all" | "reject" | undefined
  /** The reason for a rejection. */
  readonly reason?: string | undefined
  /** Presses Stop after this time. */
  readonly stopAfter?: Duration.Input | undefined
  /** Called once all tool results of this turn are stored, before the next model call. */
  readonly afterTools?: { readonly turn: number; readonly call: () => void } | undefined
  readonly provider?: Provider.Options["provider"] | undefined
  readonly latency?: Duration.Input | undefined
}

/** What one turn used. */
export interface Turn {
  readonly promptTokens: number
  readonly completionTokens: number
  readonly costUsd: number
}

/** What came of a run. Money in USD, time in milliseconds. */
export interface Outcome {
  readonly runId: string
  readonly status: RunState.RunState["status"]
  readonly reason: RunState.RunState["reason"]
  readonly detail: string
  readonly turns: number
  /** How often a tool was started. */
  readonly toolRuns: number
  readonly promptTokens: number
  readonly completionTokens: number
  readonly costUsd: number
  /** The price of the model is not known, and it counts as free. */
  readonly unpriced?: true
  readonly perTurn: ReadonlyArray<Turn>
  /** The model's answer, a structured one as JSON; empty when there is none. */
  readonly answer: string
  /** The deletions that were carried out. */
  readonly deleted: ReadonlyArray<string>
  /** What is left to whoever takes the work over; `null` where the run did not stop at a limit. */
  readonly handoff: Handoff.Handoff | null
  /** How long it took, from the start of the run to its end. */
  readonly ms: number
}

/** What came of a scenario. */
export interface Result extends Outcome {
  readonly scenario: Catalogue.Name
}

/** How a scenario may fail that has no result. */
export type Failure =
  | Exclude<Agent.Failure<never>, { readonly run: RunState.RunState }>
  | Agent.CallNotPending
  | HttpServerError.ServeError

/** What Stop says. */
const stopReason = "user pressed Stop"

/** The tools that were started, in order. */
export const toolsStarted = (events: ReadonlyArray<RunEvent>): ReadonlyArray<string> =>
  events.flatMap((event) => (event.type === "tool_start" ? [event.tool] : []))

const answerOf = ({ result = "" }: RunState.RunState): string =>
  typeof result === "string" ? result : JSON.stringify(result)

const handoffOf = (state: RunState.RunState): Handoff.Handoff | null => {
  const exit = RunExit.fromState(state)
  return exit !== undefined && "handoff" in exit ? exit.handoff : null
}

/** What is known of a stored run. What it has deleted is told by its journal, unless the world itself is at hand. */
export const outcomeOf = (
  { events, state }: Stored,
  ms: number = state.elapsedMs,
  deleted: ReadonlyArray<string> = Fixture.restore(events).deleted
): Outcome => ({
  runId: state.runId,
  status: state.status,
  reason: state.reason,
  detail: state.detail ?? "",
  turns: state.turns,
  toolRuns: toolsStarted(events).length,
  promptTokens: state.usage.promptTokens,
  completionTokens: state.usage.completionTokens,
  costUsd: state.costUsd,
  ...(state.unpriced === undefined ? undefined : { unpriced: state.unpriced }),
  perTurn: events.flatMap((event) =>
    event.type === "turn"
      ? [
          {
            promptTokens: event.usage.promptTokens,
            completionTokens: event.usage.completionTokens,
            costUsd: event.costUsd
          }
        ]
      : []
  ),
  answer: answerOf(state),
  deleted,
  handoff: handoffOf(state),
  ms
})

/** What is known of the stored run of a scenario. */
export const resultOf = (scenario: Catalogue.Name, ...known: Parameters<typeof outcomeOf>): Result => ({
  scenario,
  ...outcomeOf(...known)
})

/** Watches for the moment when the tool results of a turn are all in the store. */
const watchTools = ({ call, turn }: NonNullable<Options["afterTools"]>): RunTrace.Sink => {
  let open = Number.POSITIVE_INFINITY
  return {
    write: (event: LiveEvent) => {
      if (event.type === "turn") open = event.turn === turn ? event.calls.length : Number.POSITIVE_INFINITY
      else if (event.type === "tool_result" && --open === 0) call()
    }
  }
}

const watched = (afterTools: Options["afterTools"]) => {
  if (afterTools === undefined) return <A, E, R>(effect: Effect.Effect<A, E, R>) => effect
  const watcher = watchTools(afterTools)
  return Effect.updateService(RunTrace.RunTrace, (sink) => ({
    write: (event: LiveEvent) => {
      sink.write(event)
      watcher.write(event)
    }
  }))
}

/** Runs an effect as a person would who presses Stop after a while; that it was stopped is no failure. */
const stoppedAfter = <E, R>(effect: Effect.Effect<void, E, R>, after: Duration.Input | undefined) =>
  after === undefined
    ? effect
    : Effect.gen(function* () {
        const fiber = yield* Effect.forkChild(effect)
        const press = Effect.andThen(
          Effect.sleep(after),
          Fiber.interruptAs(fiber, undefined, Context.make(Agent.CancelReason, stopReason))
        )
        const exit = yield* Effect.raceFirst(
          Fiber.await(fiber),
          Effect.andThen(press, Fiber.await(fiber))
        ).pipe(
          // Whoever gives up on the scenario waits until its run has stopped, and passes the reason on.
          Effect.onExit((exit) =>
            Exit.isFailure(exit)
              ? Fiber.interruptAs(fiber, undefined, Cause.annotations(exit.cause))
              : Effect.void
          )
        )
        if (Exit.isFailure(exit) && !Cause.hasInterruptsOnly(exit.cause)) return yield* exit
      })

/**
 * Runs a scenario. Every ending of the run is a success here, for it is what the scenario is about.
 */
export const run = Effect.fnUntraced(function* (name: Catalogue.Name, options: Options = {}) {
  const { approve = "none", provider = "in-process" } = options
  const settings = Catalogue.settingsOf(name, options)
  const runId = options.runId ?? (yield* Scenario.newRunId(name, settings))
  const { agent, deleted, task } = Scenario.stage(name, settings)
  const model = Provider.layer(Scenario.script[name], {
    provider,
    latency: options.latency
  })

  const decision = approve === "all" ? Agent.approve() : Agent.reject(options.reason)
  const untilNobodyIsAsked = Effect.gen(function* () {
    let ending = yield* Agent.outcome(Agent.run(agent, task, { runId, limits: options.limits }))
    while (ending._tag === "ApprovalRequired" && approve !== "none") {
      for (const call of ending.calls) yield* Agent.decide(call, decision, { by: "checkrein demo" })
      ending = yield* Agent.outcome(Agent.resume(agent, runId))
    }
  })

  // Loading the tokenizer takes longer than most scenarios, and is not what they measure.
  yield* Tokens.load
  return yield* Effect.gen(function* () {
    const before = yield* Clock.monotonicTimeNanos
    yield* stoppedAfter(untilNobodyIsAsked, options.stopAfter).pipe(watched(options.afterTools))
    const after = yield* Clock.monotonicTimeNanos
    const ms = Number((after - before) / 10_000n) / 100
    return resultOf(name, yield* load(runId), ms, deleted())
  }).pipe(Effect.provide(model))
})
