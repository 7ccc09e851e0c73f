/**
 * What the tests of tool calls share: a scripted model that keeps its requests, tools with one string parameter, a run
 * that is held to the laws, and a store that dies when told to.
 */
import { expect, it } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Clock from "effect/Clock"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as TestClock from "effect/testing/TestClock"
import { Agent, MemoryRunStore, RunStore, ToolFailure } from "../../src/index.ts"
import * as Scripted from "../../src/provider/Scripted.ts"
import type * as Wire from "../../src/provider/Wire.ts"
import type { Message, ToolMessage } from "../../src/run/Message.ts"
import type { Usage } from "../../src/run/Money.ts"
import type { Of, RunEvent } from "../../src/run/RunEvent.ts"
import type { Completed, RunExit } from "../../src/run/RunExit.ts"
import type { RunState } from "../../src/run/RunState.ts"
import { World } from "../../src/store/TimeLimit.ts"
import * as Audit from "../../src/testing/Audit.ts"
import { checkLaws, checkTranscript, checkWire } from "./laws.ts"

// --- tests ----------------------------------------------------------------------------------------------------------

type Body = () => Generator<Effect.Effect<unknown, unknown, RunStore.RunStore | Scope.Scope>, unknown, never>

/** Takes the clock of the test for that of the world: a store of its own that hangs is waited for by that. */
export const inTestTime = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.flatMap(Clock.Clock, (clock) => Effect.provideService(effect, World, clock))

/** A test on the test clock with an empty store in memory. */
export const check = (name: string, body: Body): void =>
  it.effect(name, () => Effect.provide(inTestTime(Effect.gen(body)), MemoryRunStore.layer))

/** The same on the real clock. */
export const checkLive = (name: string, body: Body): void =>
  it.live(name, () => Effect.provide(Effect.gen(body), MemoryRunStore.layer))

/** Runs something while time passes, in steps, until it is done. */
export const withTime = <A, E, R>(
  effect: Effect.Effect<A, E, R>,
  step: Duration.Input = "1 second"
): Effect.Effect<A, E, R> =>
  Effect.gen(function* () {
    const fiber = yield* Effect.forkChild(effect, { startImmediately: true })
    for (let i = 0; i < 600 && fiber.pollUnsafe() === undefined; i++) {
      yield* settle
      yield* TestClock.adjust(step)
    }
    if (fiber.pollUnsafe() === undefined) {
      yield* Fiber.interrupt(fiber)
      throw new Error("it is still running, however much time passes")
    }
    return yield* Fiber.join(fiber)
  })

/** Lets every fiber that can go on go on. */
export const settle: Effect.Effect<void> = Effect.forEach(Array.from({ length: 30 }), () => Effect.yieldNow, {
  discard: true
})

// --- the model ------------------------------------------------------------------------------------------------------

/** Ten tokens in, five out: no tokenizer is loaded for these tests. */
export const usage: Usage = { promptTokens: 10, completionTokens: 5 }

/** A scripted model, and the requests that it got. */
export interface Model {
  readonly requests: Array<ReadonlyArray<Wire.Message>>
  readonly layer: ReturnType<typeof Scripted.layer>
}

export const model = (lines: Parameters<typeof Scripted.make>[1], name = "model"): Model => {
  const requests: Array<ReadonlyArray<Wire.Message>> = []
  const script = Scripted.make(name, lines)
  return {
    requests,
    layer: Scripted.layer(
      {
        ...script,
        reply: (turn, transcript) => {
          requests.push(structuredClone(transcript.messages))
          return script.reply(turn, transcript)
        }
      },
      { usage }
    )
  }
}

/** One turn with these calls, then the answer `done`. */
export const once = (...calls: ReadonlyArray<Scripted.Answer>): Model =>
  model([Scripted.turn(...calls), Scripted.text("done")])

/** A call of a tool with `q`. */
export const call = (tool: string, id: string, q = "x"): Scripted.Answer => Scripted.call(tool, { q }, { id })

// --- tools ----------------------------------------------------------------------------------------------------------

const options = {
  parameters: Schema.Struct({ q: Schema.String }),
  success: Schema.String,
  failure: ToolFailure.ToolFailure
}

/** A tool that changes the world. */
export const writer = <const Name extends string>(name: Name) => Tool.make(name, options)

/** A tool that changes nothing. */
export const reader = <const Name extends string>(name: Name) =>
  Tool.make(name, options).annotate(Tool.Readonly, true)

/** A tool that changes the world and asks first. */
export const guarded = <const Name extends string>(name: Name) =>
  Tool.make(name, { ...options, needsApproval: true })

/** A failure that the tool has not declared. */
export const undeclared = (error: unknown): Effect.Effect<never> => Effect.fail(error) as Effect.Effect<never>

// --- laws -----------------------------------------------------------------------------------------------------------

/** The stored events of a run. */
export const journal = (runId: string) => Effect.flatMap(RunStore.RunStore, (store) => store.read(runId))

/** The events of one type. */
export const of = <Type extends RunEvent["type"]>(
  events: ReadonlyArray<RunEvent>,
  type: Type,
  callId?: string
): ReadonlyArray<Of<Type>> =>
  events.filter(
    (event): event is Of<Type> =>
      event.type === type && (callId === undefined || ("callId" in event && event.callId === callId))
  )

/** The tool messages of a transcript by call id. */
export const results = (messages: ReadonlyArray<Message>): { readonly [callId: string]: ToolMessage } =>
  Object.fromEntries(
    messages.flatMap((message) => (message.role === "tool" ? [[message.callId, message] as const] : []))
  )

/** The tool message of a call; fails the test without one. */
export const resultOf = (
  exit: { readonly run: { readonly messages: ReadonlyArray<Message> } },
  id: string
) => {
  const result = results(exit.run.messages)[id]
  if (result === undefined) throw new Error(`call ${id} has no result`)
  return result
}

/** What the provider was sent: every call with its one result. */
export const expectValidRequests = (requests: ReadonlyArray<ReadonlyArray<Wire.Message>>): void =>
  requests.forEach(checkWire)

/** The transcript of a state: every call that does not wait has its one result. */
export const expectValidTranscript = ({ messages, pending }: RunState): void =>
  checkTranscript(messages, new Set(pending.map(({ callId }) => callId)))

/** How a run ended: the ending and the journal, both held to the laws, and the runs below it with them. */
export const finish = <A, R>(
  run: Effect.Effect<Completed<A>, Agent.Failure<never> | RunStore.RunNotFound, R>
): Effect.Effect<
  {
    readonly exit: Completed<A> | RunExit
    readonly events: ReadonlyArray<RunEvent>
  },
  Exclude<Agent.Failure<never>, RunExit> | RunStore.RunNotFound,
  R | RunStore.RunStore
> =>
  Effect.gen(function* () {
    const exit = yield* Agent.outcome(run)
    const { runId } = exit.run
    const events = yield* Effect.orDie(journal(runId))
    expectValidTranscript(exit.run)
    checkLaws(events)
    const { findings } = yield* Effect.orDie(Audit.run(runId))
    expect(findings).toEqual([])
    return { exit, events }
  })

/** The ending of a run must be this one. */
export const expectTag = <Tag extends (Completed<unknown> | RunExit)["_tag"], A>(
  exit: Completed<A> | RunExit,
  tag: Tag
): Extract<Completed<A> | RunExit, { readonly _tag: Tag }> => {
  expect(exit._tag, "message" in exit ? exit.message : undefined).toBe(tag)
  return exit as Extract<Completed<A> | RunExit, { readonly _tag: Tag }>
}

/** All that the model could ever see of a run, as one text. */
export const said = (exit: { readonly run: { readonly messages: ReadonlyArray<Message> } }): string =>
  JSON.stringify(exit.run.messages)

// --- a store that dies ----------------------------------------------------------------------------------------------

/** A process that dies: `after` an event was stored, or right `before` it would have been. `revive` starts the next. */
export interface Crash {
  readonly after?: (event: RunEvent) => boolean
  readonly before?: (event: RunEvent) => boolean
  /** Only this run's events are lost: the store has failed once, and the process lives on. */
  readonly only?: string
}

/** The store of the surrounding test, seen from a process that dies on cue: from then on nothing is written. */
export const dying = (crash: Crash): Layer.Layer<RunStore.RunStore, never, RunStore.RunStore> =>
  Layer.effect(
    RunStore.RunStore,
    Effect.map(RunStore.RunStore, (store): RunStore.RunStore["Service"] => {
      let dead = false
      return {
        ...store,
        append: (append) =>
          Effect.suspend(() => {
            if (crash.before !== undefined && append.events.some(crash.before)) dead = true
            if (dead && (crash.only === undefined || crash.only === append.runId)) {
              const problem = "the process has died"
              return Effect.fail(
                new RunStore.RunStoreError({
                  runId: append.runId,
                  kind: "unavailable",
                  problem
                })
              )
            }
            if (crash.after !== undefined && append.events.some(crash.after)) dead = true
            return store.append(append)
          })
      }
    })
  )

/** Runs something in a process that dies on cue. */
export const crashing = <A, E, R>(effect: Effect.Effect<A, E, R>, crash: Crash) =>
  Effect.provide(effect, dying(crash))
