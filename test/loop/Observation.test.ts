import { assert, describe, it } from "@effect/vitest"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Telemetry from "effect/ai/Telemetry"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Metric from "effect/Metric"
import * as Option from "effect/Option"
import * as References from "effect/References"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Tracer from "effect/Tracer"
import * as TestClock from "effect/testing/TestClock"
import { Agent, RequestParams, RunTrace, Spans, ToolFailure } from "../../src/index.ts"
import {
  call,
  during,
  fail,
  forked,
  outcomeDuring,
  Scripted,
  Tools,
  text,
  turn,
  until,
  type World,
  world
} from "./modelSupport.ts"
import { undeclared } from "./support.ts"

const minutes = 60_000
const agent = Agent.make("analyst", { toolkit: Tools })

const collector = () => {
  const spans: Array<Tracer.NativeSpan> = []
  const tracer = Tracer.make({
    span: (options) => {
      const span = new Tracer.NativeSpan(options)
      spans.push(span)
      return span
    }
  })
  const all = (name: string) => spans.filter((span) => span.name === name)
  const one = (name: string): Tracer.NativeSpan => {
    const found = all(name)
    assert.strictEqual(found.length, 1, `${name} among ${spans.map((span) => span.name).join(", ")}`)
    return found[0] as Tracer.NativeSpan
  }
  return {
    spans,
    all,
    one,
    provide: Effect.provideService(Tracer.Tracer, tracer),
    attributes: (name: string) => Object.fromEntries(one(name).attributes),
    parentOf: (span: Tracer.NativeSpan) => Option.getOrUndefined(span.parent)?.spanId
  }
}
type Collector = ReturnType<typeof collector>

const exitOf = (span: Tracer.NativeSpan): Exit.Exit<unknown, unknown> => {
  assert(span.status._tag === "Ended", `${span.name} never ended`)
  return span.status.exit
}

describe("spans", () => {
  it.effect("that of a run has its tags, also when it is taken up again", () =>
    Effect.gen(function* () {
      const w = yield* world([text("done")])
      for (const times of [1, 2]) {
        const trace = collector()
        const run = { runId: "r", tags: ["acme"], limits: { turns: times - 1 } }
        yield* w.in(Agent.outcome(Agent.run(agent, "go", run))).pipe(trace.provide)
        assert.deepStrictEqual(trace.attributes("invoke_agent analyst")["checkrein.run.tags"], ["acme"])
      }
    })
  )

  it.effect("one for the run, one for each model call, one for each tool call, in one tree", () =>
    Effect.gen(function* () {
      const trace = collector()
      const w = yield* world([
        turn(call("read_file", { path: "a" }, { id: "c1" }), call("list_files", {}, { id: "c2" })),
        text("done")
      ])
      yield* w.in(Agent.run(agent, "go", { runId: "r" })).pipe(trace.provide)
      const run = trace.one("invoke_agent analyst")
      assert.deepStrictEqual(trace.attributes("invoke_agent analyst"), {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "analyst",
        "checkrein.run.id": "r",
        "checkrein.run.status": "completed",
        "checkrein.run.reason": "answered",
        "checkrein.run.turns": 2,
        "checkrein.run.cost_usd": 0.2
      })
      const models = trace.all("LanguageModel.generateText")
      assert.strictEqual(models.length, 2)
      for (const [index, span] of models.entries()) {
        assert.strictEqual(span.kind, "client")
        assert.strictEqual(trace.parentOf(span), run.spanId)
        const attributes = Object.fromEntries(span.attributes)
        assert.strictEqual(attributes["gen_ai.operation.name"], "chat")
        assert.strictEqual(attributes["gen_ai.provider.name"], "scripted")
        assert.strictEqual(attributes["gen_ai.request.model"], "m")
        assert.strictEqual(attributes["gen_ai.response.model"], "m")
        assert.strictEqual(attributes["gen_ai.usage.input_tokens"], 100)
        assert.strictEqual(attributes["gen_ai.usage.output_tokens"], 10)
        assert.deepStrictEqual(attributes["gen_ai.response.finish_reasons"], [
          index === 0 ? "tool-calls" : "stop"
        ])
      }
      for (const [tool, callId] of [
        ["read_file", "c1"],
        ["list_files", "c2"]
      ] as const) {
        const span = trace.one(`execute_tool ${tool}`)
        assert.strictEqual(trace.parentOf(span), run.spanId)
        assert.deepStrictEqual(trace.attributes(span.name), {
          "gen_ai.operation.name": "execute_tool",
          "gen_ai.tool.name": tool,
          "gen_ai.tool.type": "function",
          "gen_ai.tool.call.id": callId
        })
      }
      for (const span of trace.spans) {
        assert.isTrue(Exit.isSuccess(exitOf(span)), span.name)
        assert.strictEqual(span.traceId, run.traceId)
      }
      assert.strictEqual(trace.spans.length, 5, trace.spans.map(({ name }) => name).join(", "))
    })
  )

  it.effect("a streamed call has the same attributes, and each attempt its own span", () =>
    Effect.gen(function* () {
      const trace = collector()
      const w = yield* world([fail(500), text("done")])
      const stream = Stream.runDrain(Agent.stream(agent, "go", { runId: "r" }))
      yield* Effect.flatten(during(minutes, w.in(stream).pipe(trace.provide)))
      const spans = trace.all("LanguageModel.streamText")
      assert.strictEqual(spans.length, 2)
      const attributes = Object.fromEntries(spans[1]?.attributes ?? [])
      assert.strictEqual(attributes["gen_ai.usage.input_tokens"], 100)
      assert.strictEqual(attributes["gen_ai.request.model"], "m")
      assert.isTrue(Exit.isFailure(exitOf(spans[0] as Tracer.NativeSpan)), "the attempt that failed")
    })
  )

  it.effect("a run that waits for a person is no error; one that failed says why", () =>
    Effect.gen(function* () {
      const waiting = collector()
      const w = yield* world([call("delete_file", { path: "a" })])
      const exit = yield* w.in(Agent.outcome(Agent.run(agent, "go", { runId: "r" }))).pipe(waiting.provide)
      assert.strictEqual(exit._tag, "ApprovalRequired")
      assert.isTrue(Exit.isSuccess(exitOf(waiting.one("invoke_agent analyst"))))
      assert.strictEqual(waiting.attributes("invoke_agent analyst")["checkrein.run.reason"], "approval")

      const failed = collector()
      const w2 = yield* world([fail(400)])
      yield* w2.in(Agent.outcome(Agent.run(agent, "go", { runId: "r" }))).pipe(failed.provide)
      assert.strictEqual(failed.attributes("invoke_agent analyst")["error.type"], "provider_refused")
    })
  )

  it.effect("a Stop ends all spans that are open", () =>
    Effect.gen(function* () {
      const trace = collector()
      const w = yield* world([call("slow_read", { path: "a" })])
      const fiber = yield* forked(w.in(Agent.run(agent, "go", { runId: "r" })).pipe(trace.provide))
      yield* until(() => w.work.started.length === 1)
      yield* Fiber.interrupt(fiber)
      for (const span of trace.spans) exitOf(span)
      assert.strictEqual(trace.attributes("invoke_agent analyst")["checkrein.run.reason"], "cancelled")
    })
  )

  it.effect("a child run is inside the tool call that started it", () =>
    Effect.gen(function* () {
      const trace = collector()
      const childModel = yield* world([call("read_file", { path: "a" }), text("child done")])
      const child = Agent.make("child", { toolkit: Tools }).pipe(Agent.provide(childModel.model))
      const ask = Agent.asTool(child, {
        name: "ask_child",
        description: "Asks."
      })
      const parent = Agent.make("parent", {
        toolkit: Toolkit.make(ask.tool)
      }).pipe(Agent.provide(ask.layer))
      const w = yield* world([call("ask_child", { task: "look" }, { id: "k" }), text("done")])
      yield* w.in(Agent.run(parent, "go", { runId: "r" })).pipe(trace.provide)
      const outer = trace.one("execute_tool ask_child")
      const inner = trace.one("invoke_agent child")
      assert.strictEqual(trace.parentOf(inner), outer.spanId)
      const attributes = trace.attributes("invoke_agent child")
      assert.strictEqual(attributes["checkrein.run.id"], "r/k")
      assert.strictEqual(attributes["checkrein.parent.run.id"], "r")
      assert.strictEqual(attributes["checkrein.parent.call.id"], "k")
      assert.strictEqual(trace.parentOf(trace.one("execute_tool read_file")), inner.spanId)
    })
  )

  const modelsOf = (trace: Collector) =>
    trace.all("LanguageModel.generateText").map((span) => {
      const { attributes } = span
      const [model, provider] = ["gen_ai.request.model", "gen_ai.provider.name"].map((key) =>
        attributes.get(key)
      )
      return { model, provider, maxTokens: attributes.get("gen_ai.request.max_tokens") }
    })

  /** A model that says nothing of itself. */
  const nameless = Layer.effect(
    LanguageModel.LanguageModel,
    LanguageModel.make({
      generateText: () => Effect.succeed([{ type: "text" as const, text: "found" }]),
      streamText: () => Stream.empty
    })
  )
  const small = Scripted.layer(Scripted.make("small", [text("found")]))
  const capped = (maxOutputTokens: number) =>
    Layer.succeed(RequestParams.RequestParams, { maxOutputTokens, temperature: 0 })
  const other = { model: "small", provider: "scripted", maxTokens: 700 }

  for (const [kind, layer, expected] of [
    ["of another name", Layer.merge(small, capped(700)), other],
    [
      "without a name",
      Layer.merge(nameless, capped(700)),
      { ...other, model: undefined, provider: undefined }
    ],
    [
      "without limits",
      Layer.merge(small, Layer.succeed(RequestParams.RequestParams, {})),
      { ...other, maxTokens: undefined }
    ]
  ] as const) {
    it.effect(
      `a model call of a child names the child's model (${kind}), and whoever describes spans hears of it once`,
      () =>
        Effect.gen(function* () {
          const trace = collector()
          const heard: Array<string> = []
          const child = Agent.make("child").pipe(Agent.provide(layer))
          const ask = Agent.asTool(child, { name: "ask_child", description: "Asks." })
          const middle = Agent.make("middle", { toolkit: Toolkit.make(ask.tool) }).pipe(
            Agent.provide(ask.layer)
          )
          const w = yield* world([call("ask_child", { task: "look" }, { id: "k" }), text("done")])
          yield* w.in(Agent.run(middle, "go", { runId: "r" }).pipe(Effect.provide(capped(900)))).pipe(
            trace.provide,
            Effect.provideService(
              Telemetry.CurrentSpanTransformer,
              ({ span }) => void heard.push(span.spanId)
            )
          )
          const above = { model: "m", provider: "scripted", maxTokens: 900 }
          assert.deepStrictEqual(modelsOf(trace), [above, expected, above])
          assert.deepStrictEqual(
            heard,
            trace.all("LanguageModel.generateText").map(({ spanId }) => spanId)
          )
        })
    )
  }

  it.effect("a model call of a tool is not described as one of its run", () =>
    Effect.gen(function* () {
      const trace = collector()
      const Think = Tool.make("think", { success: Schema.String })
      const toolkit = Toolkit.make(Think)
      const handlers = toolkit.toLayer({
        think: () =>
          LanguageModel.generateText({ prompt: "hm" }).pipe(
            Effect.map((reply) => reply.text),
            Effect.orDie,
            Effect.provide(nameless)
          )
      })
      const w = yield* world([call("think", {}, { id: "k" }), text("done")])
      const thinker = Agent.make("thinker", { toolkit }).pipe(Agent.provide(handlers))
      yield* w.in(Agent.run(thinker, "go", { runId: "r" })).pipe(trace.provide)
      assert.deepStrictEqual(
        modelsOf(trace).map(({ model }) => model),
        ["m", undefined, "m"]
      )
    })
  )
})

const secret = "SECRET-4711"

/** Tools that take secrets, give them, and fail with them, in every way that there is. */
const Keys = Toolkit.make(
  Tool.make("login", {
    parameters: Schema.Struct({ password: Schema.String }),
    success: Schema.String
  }),
  Tool.make("refuse", {
    parameters: Schema.Struct({ password: Schema.String }),
    success: Schema.String,
    failure: ToolFailure.ToolFailure
  }),
  Tool.make("break", {
    parameters: Schema.Struct({ password: Schema.String }),
    success: Schema.String
  }),
  Tool.make("guarded", {
    parameters: Schema.Struct({ password: Schema.String }),
    success: Schema.String,
    needsApproval: true
  })
)
const KeysLive = Keys.toLayer({
  login: ({ password }) => Effect.succeed(`welcome ${password}`).pipe(Effect.withSpan("inside")),
  refuse: ({ password }) => Effect.fail(ToolFailure.recoverable(`wrong ${password}`)),
  break: ({ password }) => Effect.die(new Error(`crash ${password}`)),
  guarded: ({ password }) => Effect.succeed(`in ${password}`)
})
const keeper = Agent.make("keeper", {
  instructions: `Never tell ${secret}.`,
  toolkit: Keys
})

const keep = (w: World, trace: Collector) =>
  Effect.gen(function* () {
    const exit = yield* w.in(
      Agent.outcome(Agent.run(keeper, `It is ${secret}.`, { runId: "r" })).pipe(Effect.provide(KeysLive))
    )
    if (exit._tag !== "ApprovalRequired") return exit
    yield* w.in(Agent.decide(exit.calls[0], Agent.approve()))
    return yield* w.in(Agent.outcome(Agent.resume(keeper, "r")).pipe(Effect.provide(KeysLive)))
  }).pipe(trace.provide)

const secretReplies = [
  turn(
    text(`I know ${secret}. `),
    call("login", { password: secret }, { id: "c1" }),
    call("refuse", { password: secret }, { id: "c2" }),
    call("break", { password: secret }, { id: "c3" }),
    call("login", { password: { nested: secret } }, { id: "c4" }),
    call("login", `{"password": "${secret}`, { id: "c5" }),
    call("nope", { password: secret }, { id: "c6" })
  ),
  call("guarded", { password: secret }, { id: "c7" }),
  text(`It was ${secret}.`)
]

describe("what is said stays off the spans", () => {
  it.effect("arguments, results, failures, prompts and answers, in whatever way a call ends", () =>
    Effect.gen(function* () {
      const trace = collector()
      const w = yield* world(secretReplies)
      const exit = yield* keep(w, trace)
      assert.strictEqual(exit._tag, "Completed")
      yield* w.journal()
      for (const span of trace.spans) {
        const ended = exitOf(span)
        const parts = [
          JSON.stringify([...span.attributes]),
          JSON.stringify(span.events),
          Exit.isFailure(ended) ? Cause.pretty(ended.cause) : ""
        ]
        for (const part of parts) assert.notInclude(part, secret, span.name)
      }
      const failed = trace.all("execute_tool refuse")[0]
      assert.isDefined(failed?.attributes.get("error.type"))
    })
  )

  it.effect("unless they are to be recorded: then tool spans have arguments and results", () =>
    Effect.gen(function* () {
      const trace = collector()
      const w = yield* world(secretReplies)
      yield* keep(w, trace).pipe(Effect.provideService(Spans.RecordContent, true))
      const attributes = trace.attributes("execute_tool guarded")
      assert.strictEqual(attributes["gen_ai.tool.call.arguments"], JSON.stringify({ password: secret }))
      assert.strictEqual(attributes["gen_ai.tool.call.result"], `in ${secret}`)
    })
  )
})

describe("logs", () => {
  it.effect("of a handler have runId, agent and callId; outside a call there is no callId", () =>
    Effect.gen(function* () {
      const Say = Tool.make("say", {
        success: Schema.String,
        needsApproval: () => Effect.as(Effect.logInfo("asked"), false)
      })
      const toolkit = Toolkit.make(Say)
      const seen: Array<readonly [string, Record<string, unknown>]> = []
      const logger = Logger.make(({ fiber, message }) => {
        seen.push([String(message), { ...fiber.getRef(References.CurrentLogAnnotations) }])
      })
      const w = yield* world([call("say", {}, { id: "c1" }), text("done")])
      const talker = Agent.make("talker", { toolkit, limits: { usd: 1 } })
      yield* w
        .in(
          Agent.run(talker, "go", { runId: "r" }).pipe(
            Effect.provide(
              toolkit.toLayer({
                say: () => Effect.as(Effect.logInfo("said"), "ok")
              })
            )
          )
        )
        .pipe(Effect.provide(Logger.layer([logger])), Effect.annotateLogs("mine", "1"))
      const of = (message: string) => seen.find(([text]) => text === message)?.[1]
      assert.deepStrictEqual(of("said"), {
        mine: "1",
        runId: "r",
        agent: "talker",
        callId: "c1",
        tool: "say"
      })
      const asked = of("asked")
      assert.strictEqual(asked?.runId, "r")
      assert.strictEqual(asked?.agent, "talker")
    })
  )

  it.effect(
    "name a tool that does what it has not declared, with the cause; what it has declared is no bug",
    () =>
      Effect.gen(function* () {
        const tool = (name: string) =>
          Tool.make(name, {
            parameters: Schema.Struct({ n: Schema.optional(Schema.Int) }),
            success: Schema.Struct({ count: Schema.Int }),
            failure: ToolFailure.ToolFailure
          }).annotate(Tool.Readonly, true)
        const toolkit = Toolkit.make(tool("dies"), tool("fails"), tool("miscounts"), tool("declares"))
        const handlers = toolkit.toLayer({
          dies: () => Effect.die(new TypeError("no such property")),
          fails: () => undeclared(new Error("socket hang up")),
          miscounts: () => Effect.succeed({ count: 0.5 }),
          declares: () => ToolFailure.recoverable("there is none")
        })
        const warnings: Array<string> = []
        const logger = Logger.make(({ logLevel, message }) => {
          if (logLevel === "Warn") warnings.push(String(message))
        })
        const all = ["dies", "fails", "miscounts", "declares"].map((name) => call(name, {}, { id: name }))
        const w = yield* world([turn(...all), call("declares", { n: "one" }, { id: "wrong" }), text("done")])
        const clumsy = Agent.make("clumsy", { toolkit, limits: { usd: 1 } })
        yield* w
          .in(Effect.provide(Agent.run(clumsy, "go", { runId: "r" }), handlers))
          .pipe(Effect.provide(Logger.layer([logger])))
        assert.lengthOf(warnings, 3)
        assert.match(
          warnings[0] ?? "",
          /^dies \(dies\) of run r .*TypeError: no such property[\s\S]*Observation\.test\.ts/
        )
        assert.match(warnings[1] ?? "", /^fails \(fails\) of run r .*socket hang up/)
        assert.match(warnings[2] ?? "", /^miscounts \(miscounts\) of run r [\s\S]*count/)
      })
  )

  it.effect("of a child's handler name the child's run", () =>
    Effect.gen(function* () {
      const Say = Tool.make("say", { success: Schema.String })
      const toolkit = Toolkit.make(Say)
      let annotations: Record<string, unknown> = {}
      const live = toolkit.toLayer({
        say: () =>
          Effect.map(References.CurrentLogAnnotations, (now) => {
            annotations = { ...now }
            return "ok"
          })
      })
      const childModel = yield* world([call("say", {}, { id: "c1" }), text("child done")])
      const child = Agent.make("child", { toolkit }).pipe(
        Agent.provide(live),
        Agent.provide(childModel.model)
      )
      const ask = Agent.asTool(child, {
        name: "ask_child",
        description: "Asks."
      })
      const parent = Agent.make("parent", {
        toolkit: Toolkit.make(ask.tool)
      }).pipe(Agent.provide(ask.layer))
      const w = yield* world([call("ask_child", { task: "look" }, { id: "k" }), text("done")])
      yield* w.in(Agent.run(parent, "go", { runId: "r" }))
      assert.deepStrictEqual(annotations, {
        runId: "r/k",
        agent: "child",
        callId: "c1",
        tool: "say"
      })
    })
  )
})

describe("metrics", () => {
  it.effect("name each tool that the agent has, also the harness's own and one that never starts", () =>
    Effect.gen(function* () {
      const name = "named"
      const measured = Agent.make(name, {
        toolkit: Tools,
        output: Schema.Struct({ n: Schema.Int }),
        limits: { toolCalls: 1 }
      })
      const w = yield* world([
        turn(
          call("read_file", { path: "a" }),
          call("write_file", { path: "a" }),
          call("made_up", {}),
          call("request_input", {})
        ),
        call("submit_result", { n: 3 })
      ])
      yield* w.in(Agent.run(measured, "go", { runId: "r" }))
      const counted: Record<string, number> = {}
      for (const { attributes, id, state, type } of yield* Metric.snapshot) {
        if (attributes?.agent !== name || id !== "checkrein.tool.calls" || type !== "Counter") continue
        const { disposition, ok, tool } = attributes
        counted[`${tool} ${ok} ${disposition}`] = Number(state.count)
      }
      assert.deepStrictEqual(counted, {
        "read_file true executed": 1,
        "write_file false refused": 1,
        "request_input false refused": 1,
        "submit_result true executed": 1,
        "other false refused": 1
      })
    })
  )

  it.effect("count a model call that a Stop has cut off as its run does", () =>
    Effect.gen(function* () {
      const name = "stopped in mid-call"
      const measured = Agent.make(name, { toolkit: Tools })
      const w = yield* world([call("read_file", { path: "a" }), text("lost"), text("done")], {
        latency: "1 minute"
      })
      const fiber = yield* Effect.forkChild(w.in(Agent.run(measured, "go", { runId: "r" })))
      yield* TestClock.adjust("90 seconds")
      yield* Fiber.interrupt(fiber)
      const { run } = yield* outcomeDuring(5 * minutes, w.in(Agent.resume(measured, "r")))
      assert.strictEqual(run.turns, 3)
      const counted = new Map<string, number>()
      for (const { attributes, id, state, type } of yield* Metric.snapshot) {
        if (attributes?.agent !== name || type !== "Counter") continue
        counted.set(`${id} ${attributes.type ?? ""}`, Number(state.count))
      }
      assert.strictEqual(counted.get("checkrein.turns "), run.turns)
      assert.strictEqual(counted.get("checkrein.tokens prompt"), run.usage.promptTokens)
      assert.strictEqual(counted.get("checkrein.tokens completion"), run.usage.completionTokens)
      assert.approximately(counted.get("checkrein.cost.usd ") ?? 0, run.costUsd, 1e-9)
    })
  )

  it.effect("turns, tokens, money, tool calls and exits by reason, each once, over run and resume", () =>
    Effect.gen(function* () {
      const name = "measured"
      const measured = Agent.make(name, { toolkit: Tools })
      const w = yield* world([
        call("read_file", { path: "a" }),
        fail(500),
        call("delete_file", { path: "b" }, { id: "d" }),
        text("done")
      ])
      const exit = yield* outcomeDuring(minutes, w.in(Agent.run(measured, "go", { runId: "r" })))
      assert(exit._tag === "ApprovalRequired")
      yield* w.in(Agent.decide(exit.calls[0], Agent.approve()))
      yield* outcomeDuring(minutes, w.in(Agent.resume(measured, "r")))
      yield* w.in(Agent.resume(measured, "r"))
      const snapshot = (yield* Metric.snapshot).filter(({ attributes }) => attributes?.agent === name)
      const count = (id: string, attributes: Record<string, string> = {}) => {
        const found = snapshot.find(
          (metric) =>
            metric.id === id &&
            Object.entries(attributes).every(([key, value]) => metric.attributes?.[key] === value)
        )
        return found?.type === "Counter" || found?.type === "Histogram"
          ? Number(found.state.count)
          : undefined
      }
      assert.strictEqual(count("checkrein.turns"), 3)
      assert.strictEqual(count("checkrein.turn.failures"), 1)
      assert.strictEqual(count("checkrein.tokens", { type: "prompt" }), 300)
      assert.strictEqual(count("checkrein.tokens", { type: "completion" }), 30)
      assert.approximately(count("checkrein.cost.usd") ?? 0, 0.3, 1e-9)
      assert.strictEqual(
        count("checkrein.tool.calls", {
          tool: "read_file",
          ok: "true",
          disposition: "executed"
        }),
        1
      )
      assert.strictEqual(count("checkrein.tool.calls", { tool: "delete_file", ok: "true" }), 1)
      assert.strictEqual(count("checkrein.tool.ms", { tool: "read_file" }), 1)
      assert.strictEqual(
        count("checkrein.exits", {
          status: "interrupted",
          reason: "approval"
        }),
        1
      )
      assert.strictEqual(count("checkrein.exits", { status: "completed", reason: "answered" }), 1)
      yield* w.journal()
    })
  )
})

describe("the trace", () => {
  it.effect("of a small run, exactly", () =>
    Effect.gen(function* () {
      const Scan = Tool.make("scan_archive", {
        success: Schema.String
      }).annotate(Tool.Readonly, true)
      const toolkit = Toolkit.merge(Tools, Toolkit.make(Scan))
      const small = Agent.make("log-analyst", { toolkit })
      const live = Toolkit.make(Scan).toLayer({
        scan_archive: (_, context) =>
          Effect.gen(function* () {
            yield* context.preliminary("scanned 200 of 1200 files")
            yield* Effect.sleep("3 millis")
            return "nothing"
          })
      })
      const w = yield* world([
        call("list_files", {}, { id: "c1", usage: { promptTokens: 204, completionTokens: 23 } }),
        call("scan_archive", {}, { id: "c2" }),
        call("delete_file", { path: "access.log" }, { id: "c3" }),
        text("done")
      ])
      const runs = Effect.provide(Agent.run(small, "go", { runId: "n1", limits: { turns: 9 } }), live)
      const exit = yield* outcomeDuring(minutes, w.in(runs))
      assert(exit._tag === "ApprovalRequired", exit._tag)
      yield* w.in(Agent.decide(exit.calls[0], Agent.reject("keep it"), { by: "ann" }))
      yield* outcomeDuring(minutes, w.in(Effect.provide(Agent.resume(small, "n1"), live)))
      assert.deepStrictEqual(w.trace.lines(), [
        '{"runId":"n1","type":"run_started","agent":"log-analyst"}',
        '{"runId":"n1","type":"turn","turn":1,"prompt_tokens":204,"completion_tokens":23,"total_tokens":227,"costUsd":0.217,"finish":"tool_calls"}',
        '{"runId":"n1","type":"tool_start","toolName":"list_files","args":"{}","callId":"c1"}',
        '{"runId":"n1","type":"tool_result","toolName":"list_files","ms":0,"ok":true}',
        '{"runId":"n1","type":"turn","turn":2,"prompt_tokens":100,"completion_tokens":10,"total_tokens":110,"costUsd":0.317,"finish":"tool_calls"}',
        '{"runId":"n1","type":"tool_start","toolName":"scan_archive","args":"{}","callId":"c2"}',
        '{"runId":"n1","type":"tool_progress","toolName":"scan_archive","label":"scanned 200 of 1200 files"}',
        '{"runId":"n1","type":"tool_result","toolName":"scan_archive","ms":3,"ok":true}',
        '{"runId":"n1","type":"turn","turn":3,"prompt_tokens":100,"completion_tokens":10,"total_tokens":110,"costUsd":0.417,"finish":"tool_calls"}',
        '{"runId":"n1","type":"approval_required","toolName":"delete_file","args":"{\\"path\\":\\"access.log\\"}","callId":"c3"}',
        '{"runId":"n1","type":"run_stopped","status":"interrupted","reason":"approval","turns":3,"costUsd":0.417}',
        '{"runId":"n1","type":"run_resumed","messages":0}',
        '{"runId":"n1","type":"approval_resolved","callId":"c3","decision":"rejected","by":"ann","reason":"keep it"}',
        '{"runId":"n1","type":"tool_result","toolName":"delete_file","ms":0,"ok":false,"disposition":"rejected"}',
        '{"runId":"n1","type":"turn","turn":4,"prompt_tokens":100,"completion_tokens":10,"total_tokens":110,"costUsd":0.517,"finish":"stop"}',
        '{"runId":"n1","type":"run_stopped","status":"completed","reason":"answered","turns":4,"costUsd":0.517}'
      ])
      yield* w.journal("n1")
    })
  )

  it.effect("has each event once, in the order of the journal, and never before it is stored", () =>
    Effect.gen(function* () {
      const w = yield* world([
        turn(call("read_file", { path: "a" }, { id: "a" }), call("write_file", { path: "b" }, { id: "b" })),
        text("done")
      ])
      const early: Array<string> = []
      const sink: RunTrace.Sink = {
        write: (event) => {
          w.trace.write(event)
          if (event.type === "text_delta" || event.type === "tool_progress") return
          const stored = Effect.runSync(Effect.orDie(w.store.read("r")))
          if (stored[event.seq] === undefined) early.push(event.type)
        }
      }
      yield* w.in(Agent.run(agent, "go", { runId: "r" }).pipe(Effect.provideService(RunTrace.RunTrace, sink)))
      assert.deepStrictEqual(early, [])
      assert.deepStrictEqual(w.trace.events, [...(yield* w.journal())])
    })
  )

  it.effect("a sink that throws does not disturb the run", () =>
    Effect.gen(function* () {
      const w = yield* world([call("list_files"), text("done")])
      const throwing = RunTrace.layer(() => {
        throw new Error("disk full")
      })
      const { output } = yield* w.in(Effect.provide(Agent.run(agent, "go", { runId: "r" }), throwing))
      assert.strictEqual(output, "done")
      yield* w.journal()
    })
  )
})
