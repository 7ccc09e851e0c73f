/**
 * A small world for tests of the loop: a scripted model that keeps what it was asked, tools that keep what they did, and
 * a store that can be looked into. A turn costs exactly ten cents.
 */
import { assert } from "@effect/vitest"
import type * as LanguageModel from "effect/ai/LanguageModel"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as TestClock from "effect/testing/TestClock"
import {
  Agent,
  MemoryRunStore,
  PriceBook,
  RunStore,
  RunTrace,
  ToolFailure,
  ToolPolicy
} from "../../src/index.ts"
import * as Scripted from "../../src/provider/Scripted.ts"
import * as Tokens from "../../src/provider/Tokens.ts"
import type * as Wire from "../../src/provider/Wire.ts"
import { snapshot } from "../../src/run/Draft.ts"
import { fold } from "../../src/run/Fold.ts"
import type * as Money from "../../src/run/Money.ts"
import type { RunEvent } from "../../src/run/RunEvent.ts"
import type { Completed, RunExit } from "../../src/run/RunExit.ts"
import { RunState } from "../../src/run/RunState.ts"
import { checkLaws, checkWire } from "./laws.ts"

export { Scripted }
export const { call, disconnect, fail, text, turn } = Scripted

const path = {
  parameters: Schema.Struct({ path: Schema.String }),
  success: Schema.String
}

export const ListFiles = Tool.make("list_files", {
  success: Schema.Array(Schema.String)
}).annotate(Tool.Readonly, true)
export const ReadFile = Tool.make("read_file", {
  ...path,
  failure: ToolFailure.ToolFailure
}).annotate(Tool.Readonly, true)
export const WriteFile = Tool.make("write_file", path)
export const DeleteFile = Tool.make("delete_file", {
  ...path,
  needsApproval: true
})
export const SlowRead = Tool.make("slow_read", path).annotate(Tool.Readonly, true)
export const SlowWrite = Tool.make("slow_write", path)
export const SlowPut = Tool.make("slow_put", path).annotate(Tool.Idempotent, true)
/** Asks for approval after ten seconds of thought. */
export const SlowAsk = Tool.make("slow_ask", {
  ...path,
  needsApproval: () => Effect.as(Effect.sleep("10 seconds"), false)
})
export const Observe = Tool.make("observe", { success: Schema.String })
  .annotate(Tool.Readonly, true)
  .annotate(ToolPolicy.Purpose, "handoff")

export const Tools = Toolkit.make(
  ListFiles,
  ReadFile,
  WriteFile,
  DeleteFile,
  SlowRead,
  SlowWrite,
  SlowPut,
  SlowAsk,
  Observe
)
type Handlers = Layer.Success<ReturnType<typeof handlers>>

/** What a tool did: `read_file a.log`, and how it ended. */
export interface Work {
  readonly started: Array<string>
  readonly finished: Array<string>
  readonly interrupted: Array<string>
}

const handlers = (work: Work, onStart: Options["onStart"]) => {
  const doing = (name: string, duration: Duration.Input | undefined, result: string) =>
    Effect.suspend(() => {
      work.started.push(name)
      onStart?.(name)
      return duration === undefined ? Effect.void : Effect.sleep(duration)
    }).pipe(
      Effect.onInterrupt(() => Effect.sync(() => work.interrupted.push(name))),
      Effect.map(() => {
        work.finished.push(name)
        return result
      })
    )
  return Tools.toLayer({
    list_files: () => Effect.as(doing("list_files", undefined, ""), ["a.log", "b.log"]),
    read_file: ({ path }) =>
      Effect.flatMap(doing(`read_file ${path}`, undefined, `content of ${path}`), (content) =>
        path === "gone" ? Effect.fail(ToolFailure.recoverable("no such file: gone")) : Effect.succeed(content)
      ),
    write_file: ({ path }) => doing(`write_file ${path}`, undefined, `wrote ${path}`),
    delete_file: ({ path }) => doing(`delete_file ${path}`, undefined, `deleted ${path}`),
    slow_read: ({ path }) => doing(`slow_read ${path}`, "10 seconds", `content of ${path}`),
    slow_write: ({ path }) => doing(`slow_write ${path}`, "10 seconds", `wrote ${path}`),
    slow_put: ({ path }) => doing(`slow_put ${path}`, "10 seconds", `put ${path}`),
    slow_ask: ({ path }) => doing(`slow_ask ${path}`, undefined, `asked ${path}`),
    observe: () => doing("observe", undefined, "still running")
  })
}

/** One request, as it went over the wire. */
export interface Request {
  readonly messages: ReadonlyArray<Wire.Message>
  readonly tools: ReadonlyArray<string>
}

/** Ten cents a turn with these prices. */
export const usage = { promptTokens: 100, completionTokens: 10 }
export const Prices = PriceBook.layer({ m: { input: 500, output: 5000 } })

export interface Options {
  readonly model?: string
  readonly latency?: Duration.Input
  readonly usage?: Money.Usage | "counted" | "omitted"
  /** Looks in as a request arrives at the model, and as a handler starts. */
  readonly onRequest?: () => void
  readonly onStart?: (work: string) => void
  /** Wraps the store that the runs use; `journal` looks at the one beneath. */
  readonly store?: (store: RunStore.RunStore["Service"]) => RunStore.RunStore["Service"]
}

export interface World {
  readonly requests: Array<Request>
  readonly model: ReturnType<typeof Scripted.layer>
  readonly work: Work
  readonly trace: RunTrace.Memory
  readonly store: RunStore.RunStore["Service"]
  /** Provides model, tools, prices, trace and store. */
  readonly in: <A, E>(
    effect: Effect.Effect<A, E, LanguageModel.LanguageModel | RunStore.RunStore | Handlers>
  ) => Effect.Effect<A, E>
  /** The journal of a run, which is held to the laws. */
  readonly journal: (runId?: string) => Effect.Effect<ReadonlyArray<RunEvent>>
}

/** Each request gets the next reply, whatever turn it belongs to. What is asked beyond them is turned away with 400. */
export const world = (replies: ReadonlyArray<Scripted.Line>, options: Options = {}): Effect.Effect<World> =>
  Effect.gen(function* () {
    // Loading it takes real time, which the TestClock does not wait for.
    if (options.usage === "counted" || options.usage === "omitted") yield* Tokens.load
    const store = yield* MemoryRunStore.make
    const requests: Array<Request> = []
    const work: Work = { started: [], finished: [], interrupted: [] }
    const trace = RunTrace.memory()
    const script = Scripted.make("m", (_, transcript) => {
      options.onRequest?.()
      const line = replies[requests.length]
      requests.push({
        messages: structuredClone(transcript.messages),
        tools: transcript.tools
      })
      return typeof line === "function" ? line(transcript) : line
    })
    const model = Scripted.layer(script, {
      model: options.model ?? "m",
      usage: options.usage ?? usage,
      ...(options.latency === undefined ? undefined : { latency: options.latency })
    })
    const all = Layer.mergeAll(
      model,
      handlers(work, options.onStart),
      Prices,
      Layer.succeed(RunTrace.RunTrace, trace),
      Layer.succeed(RunStore.RunStore, options.store?.(store) ?? store)
    )
    return {
      requests,
      model,
      work,
      trace,
      store,
      in: (effect) => Effect.provide(effect, all),
      journal: (runId = "r") =>
        Effect.map(Effect.orDie(store.read(runId)), (events) => {
          checkLaws(events)
          for (const { messages } of requests) checkWire(messages)
          return events
        })
    }
  })

/** The types of a journal's events, for a look at the whole. */
export const types = (events: ReadonlyArray<RunEvent>): ReadonlyArray<string> =>
  events.map(({ type }) => type)

/** The events of one type. */
export const of = <Type extends RunEvent["type"]>(
  events: ReadonlyArray<RunEvent>,
  type: Type
): ReadonlyArray<Extract<RunEvent, { readonly type: Type }>> =>
  events.filter((event): event is Extract<RunEvent, { readonly type: Type }> => event.type === type)

/** The last event, which has to be of this type. */
export const last = <Type extends RunEvent["type"]>(
  events: ReadonlyArray<RunEvent>,
  type: Type
): Extract<RunEvent, { readonly type: Type }> => {
  assert.strictEqual(events.at(-1)?.type, type)
  return events.at(-1) as Extract<RunEvent, { readonly type: Type }>
}

/** Lets other fibers run until something is the case. */
export const until = (condition: () => boolean): Effect.Effect<void> =>
  Effect.gen(function* () {
    for (let i = 0; i < 2000; i++) {
      if (condition()) return
      yield* Effect.yieldNow
    }
    assert.isTrue(condition(), `never happened: ${condition}`)
  })

/** Lets other fibers do what they can without time going by. */
export const idle: Effect.Effect<void> = Effect.repeat(Effect.yieldNow, {
  times: 40
}).pipe(Effect.asVoid)

/** Waits for a fiber while time goes by, up to this many milliseconds of it, a few seconds at a time. */
export const awaited = <A, E>(fiber: Fiber.Fiber<A, E>, time = 600_000): Effect.Effect<Exit.Exit<A, E>> =>
  Effect.gen(function* () {
    yield* idle
    for (let gone = 0; gone < time && fiber.pollUnsafe() === undefined; gone += 5000) {
      yield* TestClock.adjust(Math.min(5000, time - gone))
      yield* idle
    }
    assert.isDefined(fiber.pollUnsafe(), `it takes longer than ${time} ms`)
    return yield* Fiber.await(fiber)
  })

/** Runs something while time goes by, up to this many milliseconds of it. */
export const during = <A, E, R>(
  time: number,
  effect: Effect.Effect<A, E, R>
): Effect.Effect<Exit.Exit<A, E>, never, R> => Effect.flatMap(forked(effect), (fiber) => awaited(fiber, time))

/** Starts something at once. */
export const forked = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<Fiber.Fiber<A, E>, never, R> =>
  Effect.forkChild(effect, { startImmediately: true })

/** The same, for what ends in one of the typed ways. */
export const outcomeDuring = <A, E, R>(time: number, effect: Effect.Effect<Completed<A>, E, R>) =>
  Effect.flatten(during(time, Agent.outcome(effect)))

/** What every ending has to have, whichever it is: the state is the fold of the journal, and says why in a sentence. */
export const checkEnding = (
  ending: Completed<unknown> | RunExit,
  events: ReadonlyArray<RunEvent>,
  status: RunState["status"],
  reason: RunState["reason"]
): RunState => {
  const { run } = ending
  assert.strictEqual(run.status, status)
  assert.strictEqual(run.reason, reason)
  assert.isNotEmpty(run.detail ?? "")
  const stopped = last(events, "run_stopped")
  assert.strictEqual(stopped.status, status)
  assert.strictEqual(stopped.reason, reason)
  assert.strictEqual(stopped.detail, run.detail)
  const folded = fold(events)
  assert.deepStrictEqual(snapshot(run), folded && snapshot(folded), "the state is the fold of the journal")
  const codec = Schema.toCodecJson(RunState)
  const json = JSON.parse(JSON.stringify(Schema.encodeUnknownSync(codec)(run)))
  assert.deepStrictEqual(Schema.decodeUnknownSync(codec)(json), run, "the state is plain JSON")
  if (ending._tag === "Completed") return run
  assert.strictEqual(ending.status, status)
  assert.strictEqual(ending.resumable, status !== "failed")
  assert.instanceOf(ending, Error)
  assert.include(ending.message, run.runId)
  return run
}
