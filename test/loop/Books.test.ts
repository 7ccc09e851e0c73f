/**
 * A tree of runs dies with its process, at every append of every run. Whoever comes next, to go on with it or to end it:
 * each run has used what its own model calls and the runs below it have, to the nano-dollar and the token, and a shared
 * budget has been told the same.
 */
import { describe, expect } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Schema from "effect/Schema"
import * as TestClock from "effect/testing/TestClock"
import { Agent, PriceBook, RunStore } from "../../src/index.ts"
import * as Scripted from "../../src/provider/Scripted.ts"
import type { RunEvent } from "../../src/run/RunEvent.ts"
import * as RunState from "../../src/run/RunState.ts"
import * as BudgetPool from "../../src/store/BudgetPool.ts"
import * as MemoryBudgetPool from "../../src/store/MemoryBudgetPool.ts"
import * as Audit from "../../src/testing/Audit.ts"
import { checkLaws } from "./laws.ts"
import { call, check, crashing, guarded, journal, model, settle, withTime } from "./support.ts"

const Prices = PriceBook.layer({
  top: { input: 7, output: 13 },
  middle: { input: 3, output: 5 },
  leaf: { input: 11, output: 17 }
})

type Runnable = Agent.Agent<string, never, RunStore.RunStore>

const Read = Tool.make("read", {
  parameters: Schema.Struct({ q: Schema.String }),
  success: Schema.String
}).annotate(Tool.Readonly, true)
const reading = Toolkit.make(Read)
const handlers = reading.toLayer({ read: ({ q }) => Effect.succeed(q) })

const leaf = (): Runnable =>
  Agent.make("leaf", { toolkit: reading }).pipe(
    Agent.provide(handlers),
    Agent.provide(model([call("read", "a", "1"), call("read", "b", "2"), Scripted.text("dug")], "leaf").layer)
  )

/** An agent that asks another one, and has model calls of its own before and after. */
const above = (name: string, below: Runnable): Runnable => {
  const ask = Agent.asTool(below, { name: "ask", description: "Asks." })
  const lines = [
    call("read", "a", "1"),
    Scripted.call("ask", { task: "dig" }, { id: "c" }),
    call("read", "b", "2"),
    Scripted.text("done")
  ]
  return Agent.make(name, { toolkit: Toolkit.make(Read, ask.tool) }).pipe(
    Agent.provide(Layer.mergeAll(handlers, ask.layer, model(lines, name).layer))
  )
}

const trees: ReadonlyArray<readonly [name: string, ids: ReadonlyArray<string>, make: () => Runnable]> = [
  ["two levels", ["", "/c"], () => above("top", leaf())],
  ["three levels", ["", "/c", "/c/c"], () => above("top", above("middle", leaf()))]
]

interface Use {
  readonly turns: number
  readonly nanos: number
  readonly tokens: number
}

const nothing: Use = { turns: 0, nanos: 0, tokens: 0 }
const sum = (one: Use, other: Use): Use => ({
  turns: one.turns + other.turns,
  nanos: one.nanos + other.nanos,
  tokens: one.tokens + other.tokens
})

/** What the model calls of a journal have used, those that were lost at their estimates. */
const ownUse = (events: ReadonlyArray<RunEvent>): Use => {
  const useOf = (usd: number, { promptTokens = 0, completionTokens = 0 } = {}): Use => ({
    turns: 1,
    nanos: Math.round(usd * 1e9),
    tokens: promptTokens + completionTokens
  })
  let [total, open] = [nothing, nothing]
  for (const event of events) {
    if (event.type === "turn_started") open = useOf(event.estimate.costUsd, event.estimate.usage)
    else if (event.type === "turn") [total, open] = [sum(total, useOf(event.costUsd, event.usage)), nothing]
    else if (event.type === "run_resumed" || event.type === "run_stopped")
      [total, open] = [sum(total, open), nothing]
  }
  expect(open, "a model call that is in nobody's books").toEqual(nothing)
  return total
}

/** Every run of a tree says what it and those below it have used. Yields what all have. */
const expectBooks = Effect.fnUntraced(function* (ids: ReadonlyArray<string>, when: string) {
  const store = yield* RunStore.RunStore
  let below = nothing
  for (const runId of ids.toReversed()) {
    const events = yield* Effect.catchTag(store.read(runId), "RunNotFound", () => Effect.succeed([]))
    if (events.length === 0) continue
    below = sum(below, ownUse(events))
    const { state } = yield* RunStore.load(runId)
    const { tokens, usd } = RunState.used(state)
    const said = { nanos: Math.round(usd * 1e9), tokens }
    expect(said, `${when}: ${runId}`).toEqual({ nanos: below.nanos, tokens: below.tokens })
    expect((yield* store.summary(runId)).costUsd, `${when}: ${runId}`).toBe(usd)
    checkLaws(events)
  }
  const [top = ""] = ids
  expect((yield* Audit.run(top)).findings, when).toEqual([])
  return below
})

const summary = (runId: string) => RunStore.RunStore.use((store) => store.summary(runId))

type Step = Effect.Effect<unknown, unknown, RunStore.RunStore>

/** The process dies once this many events are stored. */
const killed = (step: Step, events: number): Step =>
  Effect.suspend(() => {
    let stored = 0
    return crashing(step, { before: () => ++stored > events })
  })

/** What is done with a tree whose process has died, one after the other. */
const histories: ReadonlyArray<
  readonly [name: string, steps: (agent: Runnable, runId: string) => ReadonlyArray<Step>]
> = [
  ["cancelled, and then resumed", (agent, id) => [Agent.cancel(id, "enough"), Agent.resume(agent, id)]],
  ["resumed", (agent, id) => [Agent.resume(agent, id)]],
  [
    "resumed where nothing is left to spend, and then with more",
    (agent, id) => [
      Agent.resume(agent, id, { limits: { usd: 1e-9 } }),
      Agent.resume(agent, id, { limits: { usd: 1 } })
    ]
  ],
  ...[1, 3, 6].flatMap((events): typeof histories => [
    [
      `killed again ${events} events after it was resumed, and cancelled`,
      (agent, id) => [killed(Agent.resume(agent, id), events), Agent.cancel(id, "enough")]
    ],
    [
      `killed again ${events} events after it was resumed, and resumed`,
      (agent, id) => [killed(Agent.resume(agent, id), events), Agent.resume(agent, id)]
    ]
  ]),
  ...[2, 5].flatMap((events): typeof histories => [
    [
      `killed again ${events} events after it was cancelled, and cancelled`,
      (_, id) => [killed(Agent.cancel(id, "enough"), events), Agent.cancel(id, "enough")]
    ],
    [
      `killed again ${events} events after it was cancelled, and resumed`,
      (agent, id) => [killed(Agent.cancel(id, "enough"), events), Agent.resume(agent, id)]
    ]
  ])
]

const attempt = (step: Step) => Effect.exit(Effect.provide(step, [Prices, Logger.layer([])]))

describe("what a tree of runs has used, wherever its process was killed", () => {
  for (const [levels, below, make] of trees) {
    for (const [name, steps] of histories) {
      check(`${levels}: ${name}`, function* () {
        for (let at = 1; ; at++) {
          const runId = `r${at}`
          const ids = below.map((path) => `${runId}${path}`)
          const finished = yield* Effect.gen(function* () {
            const first = yield* attempt(killed(Agent.run(make(), "go", { runId }), at))
            if (first._tag === "Success") return true
            const history = steps(make(), runId)
            for (const [index, step] of history.entries()) {
              yield* TestClock.adjust("1 second")
              yield* attempt(step)
              const when = `killed after event ${at}, step ${index + 1}`
              // A process that was killed leaves its books open.
              if (name.startsWith("killed") && index === 0) continue
              const { nanos, tokens, turns } = yield* expectBooks(ids, when)
              const pool = yield* Effect.flatMap(BudgetPool.BudgetPool, ({ status }) => status)
              expect(pool.used, when).toMatchObject({ turns, usd: nanos / 1e9, tokens })
              expect(pool.held, when).toMatchObject({ turns: 0, usd: 0 })
            }
            const { status } = yield* summary(runId)
            expect(["completed", name.endsWith("cancelled") ? "interrupted" : ""]).toContain(status)
            return false
          }).pipe(Effect.provide(MemoryBudgetPool.layer("team", { usd: 100 })))
          if (!finished) continue
          expect(at).toBeGreaterThan(20)
          break
        }
      })
    }
  }
})

describe("a run below one whose process was killed, which somebody drives by itself", () => {
  const driven = Effect.fnUntraced(function* () {
    const slow = (): Runnable =>
      Agent.make("leaf", { toolkit: reading }).pipe(
        Agent.provide(handlers),
        Agent.provide(
          model([call("read", "a", "1"), Scripted.text("dug", { latency: "1 hour" })], "leaf").layer
        )
      )
    const top = above("top", slow())
    yield* attempt(
      crashing(Agent.run(top, "go", { runId: "r" }), {
        after: ({ runId, type }) => runId === "r/c" && type === "turn"
      })
    )
    const fiber = yield* Effect.forkChild(attempt(Agent.resume(slow(), "r/c")), { startImmediately: true })
    yield* settle
    expect((yield* RunStore.load("r/c")).state.claim?.turn).toBe(2)
    return { fiber, top }
  })

  check("is stopped and waited for where the run above is cancelled", function* () {
    const { fiber } = yield* driven()
    yield* withTime(Agent.cancel("r", "enough"), "100 millis")
    yield* Fiber.await(fiber)
    expect(yield* summary("r/c")).toMatchObject({
      reason: "cancelled",
      detail: "run r was stopped",
      turns: 2
    })
    yield* expectBooks(["r", "r/c"], "cancelled")
  })

  check("keeps the run above from being taken up, since nobody knows what it will use", function* () {
    const { fiber, top } = yield* driven()
    const before = yield* journal("r")
    const error = yield* Effect.flip(Effect.provide(Agent.resume(top, "r"), Prices))
    expect(error).toMatchObject({ _tag: "RunBusy", runId: "r/c" })
    expect(yield* journal("r")).toEqual(before)
    yield* Fiber.interrupt(fiber)
    const { run } = yield* withTime(Effect.provide(Agent.resume(top, "r"), Prices), "20 minutes")
    expect(run.status).toBe("completed")
    yield* expectBooks(["r", "r/c"], "resumed")
  })
})

describe("a run below that spends from a shared budget of its own", () => {
  const endings: ReadonlyArray<
    readonly [name: string, steps: (agent: Runnable, runId: string) => ReadonlyArray<Step>]
  > = [
    ["resumed", (agent, id) => [Agent.resume(agent, id)]],
    ["cancelled, and then resumed", (agent, id) => [Agent.cancel(id, "enough"), Agent.resume(agent, id)]]
  ]

  for (const [name, steps] of endings) {
    check(`tells that one alone what it has used, wherever its process was killed: ${name}`, function* () {
      for (let at = 1; ; at++) {
        const own = yield* MemoryBudgetPool.make("helpers", { usd: 100 })
        const shared = yield* MemoryBudgetPool.make("team", { usd: 100 })
        const tree = above("top", leaf().pipe(Agent.provide(Layer.succeed(BudgetPool.BudgetPool, own))))
        const within = (step: Step) => attempt(Effect.provideService(step, BudgetPool.BudgetPool, shared))
        const runId = `r${at}`
        const first = yield* within(killed(Agent.run(tree, "go", { runId }), at))
        if (first._tag === "Success") {
          expect(at).toBeGreaterThan(20)
          return
        }
        const when = `killed after event ${at}`
        for (const step of steps(tree, runId)) {
          yield* TestClock.adjust("1 second")
          yield* within(step)
        }
        yield* expectBooks([runId, `${runId}/c`], when)
        for (const [pool, id] of [
          [shared, runId],
          [own, `${runId}/c`]
        ] as const) {
          const { nanos, tokens, turns } = ownUse(yield* journal(id))
          const { used } = yield* pool.status
          expect(used, `${when}: ${pool.pool}`).toMatchObject({ turns, usd: nanos / 1e9, tokens })
        }
      }
    })
  }
})

describe("a run below one that waits, which somebody drives by itself", () => {
  const asking = Toolkit.make(guarded("sign"))

  const waiting = (): Runnable =>
    Agent.make("leaf", { toolkit: asking }).pipe(
      Agent.provide(asking.toLayer({ sign: ({ q }) => Effect.succeed(q) })),
      Agent.provide(
        model([call("sign", "s", "1"), call("sign", "t", "2"), Scripted.text("dug")], "leaf").layer
      )
    )

  /** The tree waits for a decision at its leaf, of which a person is asked twice. */
  const levels: ReadonlyArray<readonly [name: string, ids: ReadonlyArray<string>, make: () => Runnable]> = [
    ["two levels", ["r", "r/c"], () => above("top", waiting())],
    ["three levels", ["r", "r/c", "r/c/c"], () => above("top", above("middle", waiting()))]
  ]

  for (const [name, ids, make] of levels) {
    const leafId = ids.at(-1) ?? ""
    const started = Effect.gen(function* () {
      yield* attempt(Agent.run(make(), "go", { runId: "r" }))
      expect(yield* summary("r")).toMatchObject({ reason: "approval" })
      yield* expectBooks(ids, "waiting")
    })
    const drive = (callId: string) =>
      Effect.gen(function* () {
        yield* Agent.decide({ runId: leafId, callId }, Agent.approve())
        const { costUsd } = yield* summary(leafId)
        yield* attempt(Agent.resume(waiting(), leafId))
        expect((yield* summary(leafId)).costUsd).toBeGreaterThan(costUsd)
      })

    for (const decided of [["s"], ["s", "t"]]) {
      check(
        `${name}: has told what it used where the run above is cancelled after ${decided.join(" and ")}`,
        function* () {
          yield* started
          for (const callId of decided) yield* drive(callId)
          yield* Agent.cancel("r", "enough")
          expect(yield* summary("r")).toMatchObject({ reason: "cancelled", detail: "enough" })
          yield* expectBooks(ids, "cancelled")
          yield* attempt(Agent.resume(make(), "r"))
          yield* expectBooks(ids, "resumed")
        }
      )
    }

    check(`${name}: is stopped and waited for where the run above is cancelled meanwhile`, function* () {
      yield* started
      yield* Agent.decide({ runId: leafId, callId: "s" }, Agent.approve())
      const slow = Agent.make("leaf", { toolkit: asking }).pipe(
        Agent.provide(asking.toLayer({ sign: () => Effect.never })),
        Agent.provide(model([], "leaf").layer)
      )
      const fiber = yield* Effect.forkChild(attempt(Agent.resume(slow, leafId)), { startImmediately: true })
      yield* settle
      yield* withTime(Agent.cancel("r", "enough"), "100 millis")
      yield* Fiber.await(fiber)
      expect(yield* summary(leafId)).toMatchObject({ status: "interrupted" })
      yield* expectBooks(ids, "cancelled")
    })

    check(
      `${name}: tells what it has used since the run above was cancelled once that is taken up`,
      function* () {
        yield* started
        yield* Agent.cancel("r", "enough")
        yield* drive("s")
        yield* attempt(Agent.resume(make(), "r"))
        expect(yield* summary("r")).toMatchObject({ reason: "approval" })
        yield* expectBooks(ids, "resumed")
      }
    )
  }

  for (const cancelled of [false, true]) {
    check(
      `has told what it used where the run above${cancelled ? ", which was cancelled," : ""} cannot go on`,
      function* () {
        const tree = () => above("top", waiting())
        yield* attempt(Agent.run(tree(), "go", { runId: "r" }))
        if (cancelled) yield* Agent.cancel("r", "enough")
        yield* Agent.decide({ runId: "r/c", callId: "s" }, Agent.approve())
        yield* attempt(Agent.resume(waiting(), "r/c"))
        yield* attempt(Agent.resume(tree(), "r", { limits: { usd: 1e-9 } }))
        expect(yield* summary("r")).toMatchObject({ status: "budget_exceeded" })
        yield* expectBooks(["r", "r/c"], "stopped at its limit")
      }
    )
  }
})
