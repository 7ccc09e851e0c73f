/**
 * Journals of runs that real agents have lived through: everything that a journal can have in it is in one of these.
 */
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as TestClock from "effect/testing/TestClock"
import * as Catalogue from "../../../src/demo/Catalogue.ts"
import * as Demo from "../../../src/demo/Demo.ts"
import {
  Agent,
  MemoryRunStore,
  Operation,
  PriceBook,
  RequestParams,
  RunStore,
  ToolFailure,
  ToolPolicy
} from "../../../src/index.ts"
import * as Scripted from "../../../src/provider/Scripted.ts"
import type { RunEvent } from "../../../src/run/RunEvent.ts"
import { onTestClock } from "../../demo/support.ts"
import {
  call,
  crashing,
  guarded,
  type Model,
  model,
  reader,
  settle,
  withTime,
  writer
} from "../../loop/support.ts"

/** A run and the runs below it. */
export interface Lived {
  readonly name: string
  readonly events: ReadonlyArray<RunEvent>
  readonly children: ReadonlyArray<ReadonlyArray<RunEvent>>
}

const question = Schema.Struct({ q: Schema.String })

const tools = Toolkit.make(
  reader("read"),
  writer("write"),
  guarded("remove"),
  guarded("put").annotate(Tool.Idempotent, true),
  // Away the first time, and then there.
  reader("fetch"),
  writer("push"),
  reader("slow"),
  writer("lose").annotate(ToolPolicy.Timeout, "1 second"),
  Tool.make("start_test", { parameters: question, success: Operation.Started }),
  Tool.make("observe_test", { parameters: question, success: Operation.Observed })
    .annotate(Tool.Readonly, true)
    .annotate(ToolPolicy.Purpose, "handoff")
)

const Prices = PriceBook.layer({ model: { input: 2, output: 12 }, helper: { input: 1, output: 3 } })

const handlers = Effect.sync(() => {
  const asked = new Set<string>()
  const later = (name: string, options: { readonly notExecuted?: true }) => {
    if (asked.has(name)) return Effect.succeed(`${name}: there`)
    asked.add(name)
    return Effect.fail(ToolFailure.transient("away", options))
  }
  return tools.toLayer({
    read: ({ q }) =>
      q === "gone" ? Effect.fail(ToolFailure.recoverable("no such file")) : Effect.succeed(`content of ${q}`),
    write: ({ q }) => Effect.succeed(`wrote ${q}`),
    remove: ({ q }) => Effect.succeed(`removed ${q}`),
    put: ({ q }) => Effect.succeed(`put ${q}`),
    fetch: ({ q }) => later(`fetch ${q}`, {}),
    push: ({ q }) => later(`push ${q}`, { notExecuted: true }),
    slow: ({ q }) => Effect.as(Effect.sleep("10 seconds"), `content of ${q}`),
    lose: () => Effect.never,
    start_test: ({ q }) => Effect.succeed(Operation.started({ id: `test ${q}`, observe: "observe_test" })),
    observe_test: ({ q }) =>
      Effect.succeed(Operation.ended({ id: q, outcome: "failed", detail: "the last row is missing" }))
  })
})

type Options = NonNullable<Parameters<typeof Agent.make>[1]>

const agentOf = (bot: Model, options: Pick<Options, "limits" | "policy"> = {}) =>
  Agent.make("lead", { toolkit: tools, ...options }).pipe(
    Agent.provide(Layer.unwrap(handlers)),
    Agent.provide(Layer.merge(bot.layer, Prices))
  )

const turn = Scripted.turn

/** Decisions of all three kinds, attempts of a read and of a write, and a write of which nobody can tell. */
const people = Effect.gen(function* () {
  const agent = agentOf(
    model([
      turn(
        call("read", "r1"),
        call("remove", "d1", "a"),
        call("remove", "d2", "b"),
        call("remove", "d3", "c"),
        call("write", "w1")
      ),
      turn(call("fetch", "f1"), call("push", "p1"), call("read", "r2", "gone")),
      call("lose", "l1"),
      Scripted.text("done")
    ])
  )
  yield* Agent.outcome(Agent.run(agent, "go", { runId: "r" }))
  yield* Agent.decide({ runId: "r", callId: "d1" }, Agent.approve(), { by: "ann" })
  yield* Agent.decide({ runId: "r", callId: "d2" }, Agent.reject("keep it"), { by: "bob" })
  yield* Agent.decide({ runId: "r", callId: "d3" }, Agent.approve({ args: { q: "old" } }), { by: "ann" })
  yield* withTime(Agent.outcome(Agent.resume(agent, "r")))
  yield* Agent.resolve({ runId: "r", callId: "l1" }, Agent.happened("it did"), { by: "ann" })
  yield* Agent.resume(agent, "r")
})

/** A rejection without a reason, and a call whose outcome is that it did not happen, after a crash. */
const crash = Effect.gen(function* () {
  const agent = agentOf(
    model([turn(call("remove", "d1"), call("write", "w1"), call("write", "w2")), Scripted.text("done")])
  )
  yield* Agent.outcome(Agent.run(agent, "go", { runId: "r" }))
  yield* Agent.decide({ runId: "r", callId: "d1" }, Agent.reject())
  yield* Effect.ignore(
    crashing(Agent.resume(agent, "r"), {
      after: (event) => event.type === "tool_start" && event.callId === "w1"
    })
  )
  yield* Agent.outcome(Agent.resume(agent, "r"))
  yield* Agent.resolve({ runId: "r", callId: "w1" }, Agent.didNotHappen)
  yield* Agent.resume(agent, "r", { message: "Go on." })
})

/** Children that wait for somebody, are paid for, and get what is left. */
const children = Effect.gen(function* () {
  const helper = agentOf(model([call("remove", "h1"), Scripted.text("helped")], "helper"))
  const ask = Agent.asTool(helper, { name: "ask", description: "Helps." })
  const toolkit = Toolkit.make(ask.tool)
  const asks = (id: string) => Scripted.call("ask", { task: "help" }, { id })
  const bot = model([turn(asks("c1"), asks("c2")), Scripted.text("done")])
  const agent = Agent.make("lead", { toolkit, limits: { usd: 1, tokens: 100_000 } }).pipe(
    Agent.provide(ask.layer),
    Agent.provide(Layer.merge(bot.layer, Prices))
  )
  yield* Agent.outcome(Agent.run(agent, "go", { runId: "r" }))
  yield* Agent.decide({ runId: "r/c1", callId: "h1" }, Agent.approve())
  yield* Agent.outcome(Agent.resume(agent, "r"))
  yield* Agent.decide({ runId: "r/c2", callId: "h1" }, Agent.reject("no"))
  yield* Agent.resume(agent, "r")
})

/** A model that is away for a while, one whose answer never comes back, and a Stop in the middle of a tool. */
const interruptions = Effect.gen(function* () {
  let requests = 0
  const replies = [
    Scripted.fail(500),
    Scripted.fail(429, { retryAfter: 2 }),
    call("slow", "s1"),
    Scripted.text("late", { latency: "1 hour" }),
    Scripted.text("done")
  ]
  const agent = agentOf(model(() => replies[requests++]))
  const fiber = yield* Effect.forkChild(Agent.outcome(Agent.run(agent, "go", { runId: "r" })), {
    startImmediately: true
  })
  for (let second = 0; second < 8; second++) {
    yield* settle
    yield* TestClock.adjust("1 second")
  }
  yield* Fiber.interrupt(fiber)
  yield* withTime(Agent.outcome(Agent.resume(agent, "r", { limits: { time: "60 seconds" } })), "5 seconds")
  yield* Agent.resume(agent, "r", { limits: { time: "5 minutes", turns: 30 } })
})

/** A result that has to be submitted, and a question to a person. */
const contract = Effect.gen(function* () {
  const bot = model([
    Scripted.text("It is 7."),
    turn(call("read", "r1"), Scripted.call("request_input", { question: "Which day?" }, { id: "i1" })),
    turn(call("read", "r2"), Scripted.call("submit_result", { n: 7 }, { id: "s1" }))
  ])
  const agent = Agent.make("lead", { toolkit: tools, output: Schema.Struct({ n: Schema.Int }) }).pipe(
    Agent.provide(Layer.unwrap(handlers)),
    Agent.provide(Layer.merge(bot.layer, Prices))
  )
  yield* Agent.outcome(Agent.run(agent, "go", { runId: "r" }))
  yield* Agent.resume(agent, "r", { message: "Tuesday" })
})

/** Work that goes on over a limit, a handoff, and what is refused meanwhile. */
const limits = Effect.gen(function* () {
  const bot = model([
    call("start_test", "t1", "x"),
    turn(call("start_test", "t2", "x"), call("read", "r1")),
    turn(call("read", "r2"), call("remove", "d1"), call("start_test", "t3", "y")),
    Scripted.text("handed over"),
    turn(call("read", "r3"), call("observe_test", "o1", "test x")),
    Scripted.text("done")
  ])
  const agent = agentOf(bot, { limits: { turns: 5, toolCalls: 5, reserve: { toolCalls: 2 } } })
  yield* Agent.outcome(Agent.run(agent, "go", { runId: "r" }))
  yield* Agent.outcome(Agent.resume(agent, "r", { limits: { turns: 7, toolCalls: 9 }, message: "Go on." }))
})

/** Two reads that would both be tried again, and one call left for them. */
const attempts = Effect.gen(function* () {
  const bot = model([turn(call("fetch", "f1", "a"), call("fetch", "f2", "b")), Scripted.text("done")])
  yield* withTime(Agent.run(agentOf(bot, { limits: { toolCalls: 3 } }), "go", { runId: "r" }))
})

/** Reads that are answered from what they have brought. */
const dedupe = Effect.gen(function* () {
  const same = (id: string) => call("read", id)
  const bot = model([same("r1"), turn(same("r2"), call("write", "w1")), same("r3"), Scripted.text("done")])
  yield* Agent.run(agentOf(bot, { policy: { dedupe: "read-only" } }), "go", { runId: "r" })
})

/** The worst case of each call held before it is sent, and a child within it. */
const hold = Effect.gen(function* () {
  const helper = agentOf(model([call("read", "h1"), Scripted.text("helped")], "helper"))
  const ask = Agent.asTool(helper, { name: "ask", description: "Helps." })
  const toolkit = Toolkit.make(ask.tool)
  const bot = model([Scripted.call("ask", { task: "help" }, { id: "c1" }), Scripted.text("done")])
  const agent = Agent.make("lead", { toolkit, limits: { usd: 1, money: "hold" } }).pipe(
    Agent.provide(ask.layer),
    Agent.provide(
      Layer.mergeAll(bot.layer, Prices, Layer.succeed(RequestParams.RequestParams, { maxOutputTokens: 50 }))
    )
  )
  yield* Agent.run(agent, "go", { runId: "r" })
})

/** The demo's scenarios, with the options that change what is journaled. */
const demos: ReadonlyArray<readonly [Catalogue.Name, Demo.Options]> = [
  ...Catalogue.names.filter((name) => name !== "slow").map((name) => [name, {}] as const),
  ["destructive", { approve: "all" }],
  ["destructive", { approve: "reject", reason: "keep the logs" }],
  ["double-delete", { approve: "all", dedupe: "all" }],
  ["denied", { permanent: "continue" }],
  ["repeat", { dedupe: "read-only" }],
  ["runaway", { limits: { turns: 6, reserve: { turns: 1 } } }],
  ["runaway", { limits: { usd: 0.005 } }],
  ["slow", { stopAfter: "1200 millis" }]
]

/** Lives through a run in a store of its own, and reads what was stored. */
const lived = <E>(
  name: string,
  living: Effect.Effect<unknown, E, RunStore.RunStore>,
  runId = "r"
): Effect.Effect<Lived> =>
  Effect.gen(function* () {
    yield* living
    const store = yield* RunStore.RunStore
    const events = yield* store.read(runId)
    const below = (yield* store.list()).filter((run) => run.runId.startsWith(`${runId}/`))
    const journals = yield* Effect.forEach(below, (run) => store.read(run.runId))
    return { name, events, children: journals }
  }).pipe(Effect.provide(MemoryRunStore.layer), Effect.orDie)

/** Approvals that expire: before they are taken in, while a call waits behind another, and after a call was cut off. */
const expiry = Effect.gen(function* () {
  const agent = agentOf(
    model([
      turn(call("remove", "d1", "a"), call("remove", "d2", "b")),
      turn(call("put", "p1"), call("remove", "d3", "c")),
      Scripted.text("done")
    ])
  )
  const decide = (callId: string, decision: Agent.Decision) =>
    Agent.decide({ runId: "r", callId }, decision, { by: "ann" })
  const resume = Effect.suspend(() => Agent.outcome(Agent.resume(agent, "r")))
  yield* Agent.outcome(Agent.run(agent, "go", { runId: "r" }))
  yield* decide("d1", Agent.approve({ expires: "1 minute" }))
  yield* decide("d2", Agent.approve({ args: { q: "old" }, expires: "1 hour" }))
  yield* TestClock.adjust("1 minute")
  yield* resume
  yield* TestClock.adjust("1 hour")
  yield* decide("d1", Agent.approve())
  yield* resume
  yield* decide("d2", Agent.approve({ expires: "1 hour" }))
  yield* resume
  yield* decide("p1", Agent.approve({ args: { q: "here" }, expires: "1 hour" }))
  const before = (event: RunEvent) => event.type === "tool_result" && event.callId === "p1"
  yield* Effect.exit(crashing(resume, { before }))
  yield* TestClock.adjust("1 hour")
  yield* resume
  yield* decide("p1", Agent.approve())
  yield* decide("d3", Agent.reject("no"))
  yield* resume
})

/** Every run, to be lived through on the test clock. */
export const runs: ReadonlyArray<Effect.Effect<Lived>> = [
  lived("people", people),
  lived("expiry", expiry),
  lived("crash", crash),
  lived("children", children),
  lived("interruptions", interruptions),
  lived("contract", contract),
  lived("limits", limits),
  lived("attempts", attempts),
  lived("dedupe", dedupe),
  lived("hold", hold),
  ...demos.map(([scenario, options]) =>
    lived(
      `demo ${scenario} ${JSON.stringify(options)}`,
      onTestClock(Demo.run(scenario, { ...options, runId: "r" }), 100),
      "r"
    )
  )
]
