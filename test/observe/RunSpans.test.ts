import { assert, describe, it } from "@effect/vitest"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Prompt from "effect/ai/Prompt"
import type * as Response from "effect/ai/Response"
import * as Telemetry from "effect/ai/Telemetry"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as References from "effect/References"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Tracer from "effect/Tracer"
import * as RunSpans from "../../src/observe/RunSpans.ts"
import * as Spans from "../../src/observe/Spans.ts"
import { samples } from "./events.ts"

const secret = "SECRET-4711"

const collector = () => {
  const spans: Array<Tracer.NativeSpan> = []
  const tracer = Tracer.make({
    span: (options) => {
      const span = new Tracer.NativeSpan(options)
      spans.push(span)
      return span
    }
  })
  const named = (name: string) => {
    const span = spans.find((one) => one.name === name)
    if (span === undefined)
      throw new Error(`no span ${name} among ${spans.map((one) => one.name).join(", ")}`)
    return span
  }
  return {
    spans,
    provide: Effect.provideService(Tracer.Tracer, tracer),
    attributes: (name: string) => Object.fromEntries(named(name).attributes),
    id: (name: string) => named(name).spanId,
    trace: (name: string) => named(name).traceId,
    parent: (name: string) => Option.getOrUndefined(named(name).parent)
  }
}

const Login = Tool.make("login", {
  parameters: Schema.Struct({ password: Schema.String }),
  success: Schema.String
})
const Tools = Toolkit.make(Login)
const ToolsLive = Tools.toLayer({
  login: () =>
    Effect.succeed("in").pipe(
      Effect.withSpan("inside"),
      Effect.tap(Effect.annotateCurrentSpan("mine", 1)),
      Effect.tap(Effect.logInfo("from the handler"))
    )
})

const handle = Effect.flatMap(Tools, (tools) =>
  tools.handle("login", { password: secret }).pipe(Stream.unwrap, Stream.runDrain)
)

const call = { tool: "login", callId: "c1", args: { password: secret } }

describe("RunSpans.tool", () => {
  it.effect("has the names of the conventions, and never the arguments", () =>
    Effect.gen(function* () {
      const trace = collector()
      yield* RunSpans.tool(call, (span) => {
        const ended = Effect.sync(() =>
          RunSpans.toolEnded(span, { ...samples.tool_result, content: secret }, false)
        )
        return Effect.andThen(handle, ended)
      }).pipe(Effect.provide(ToolsLive), trace.provide)
      assert.deepStrictEqual(trace.attributes("execute_tool login"), {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "login",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": "c1",
        mine: 1
      })
      for (const span of trace.spans) {
        assert.notInclude(
          JSON.stringify([...span.attributes, ...span.events.map((event) => event[2])]),
          secret
        )
      }
    })
  )

  it.effect("would carry them without the filter, so the test above can fail", () =>
    Effect.gen(function* () {
      const trace = collector()
      yield* handle.pipe(Effect.withSpan("bare"), Effect.provide(ToolsLive), trace.provide)
      assert.deepStrictEqual(trace.attributes("bare").parameters, { password: secret })
    })
  )

  it.effect("is the parent of the spans of its handler, in the same trace", () =>
    Effect.gen(function* () {
      const trace = collector()
      yield* RunSpans.agent({ agent: "a", runId: "n1" }, () => RunSpans.tool(call, () => handle)).pipe(
        Effect.provide(ToolsLive),
        trace.provide
      )
      // Asked for through the child first, which is when a span makes up its ids.
      assert.strictEqual(trace.parent("inside")?.spanId, trace.id("execute_tool login"))
      assert.strictEqual(trace.trace("inside"), trace.trace("execute_tool login"))
      assert.strictEqual(trace.parent("execute_tool login")?.spanId, trace.id("invoke_agent a"))
      assert.strictEqual(trace.trace("inside"), trace.trace("invoke_agent a"))
    })
  )

  it.effect("carries arguments and result if they are to be recorded", () =>
    Effect.gen(function* () {
      const trace = collector()
      yield* RunSpans.tool(call, (span) =>
        Effect.map(Spans.RecordContent, (record) => RunSpans.toolEnded(span, samples.tool_result, record))
      ).pipe(Effect.provideService(Spans.RecordContent, true), trace.provide)
      const attributes = trace.attributes("execute_tool login")
      assert.strictEqual(attributes["gen_ai.tool.call.arguments"], `{"password":"${secret}"}`)
      assert.strictEqual(attributes["gen_ai.tool.call.result"], samples.tool_result.content)
    })
  )

  it.effect("says what went wrong, in few words", () =>
    Effect.gen(function* () {
      const trace = collector()
      const ended = (tool: string, result: Parameters<typeof RunSpans.toolEnded>[1]) =>
        RunSpans.tool({ ...call, tool }, (span) => Effect.sync(() => RunSpans.toolEnded(span, result, false)))
      yield* ended("failed", { content: secret, ok: false, disposition: "executed" }).pipe(trace.provide)
      yield* ended("lost", { content: secret, ok: false, disposition: "unknown" }).pipe(trace.provide)
      yield* ended("reused", { content: secret, ok: true, disposition: "cached" }).pipe(trace.provide)
      assert.strictEqual(trace.attributes("execute_tool failed")["error.type"], "tool_error")
      assert.strictEqual(trace.attributes("execute_tool lost")["error.type"], "unknown")
      assert.strictEqual(trace.attributes("execute_tool lost")["checkrein.tool.disposition"], "unknown")
      assert.strictEqual(trace.attributes("execute_tool reused")["checkrein.tool.disposition"], "cached")
      assert.notProperty(trace.attributes("execute_tool reused"), "error.type")
    })
  )

  it.effect("annotates logs with the run, the agent and the call, and a child run with its own", () =>
    Effect.gen(function* () {
      const annotations = yield* RunSpans.agent({ agent: "a", runId: "n1" }, () =>
        RunSpans.tool(call, () =>
          Effect.all([
            References.CurrentLogAnnotations,
            RunSpans.agent({ agent: "child", runId: "n1/c1" }, () => References.CurrentLogAnnotations)
          ])
        )
      ).pipe(Effect.annotateLogs("request", "r1"))
      assert.deepStrictEqual(annotations, [
        { request: "r1", runId: "n1", agent: "a", callId: "c1", tool: "login" },
        { request: "r1", runId: "n1/c1", agent: "child" }
      ])
    })
  )
})

describe("RunSpans.withoutArguments", () => {
  const real = () =>
    new Tracer.NativeSpan({
      name: "real",
      parent: Option.none(),
      annotations: References.CurrentLogAnnotations.context({}),
      links: [],
      startTime: 1n,
      kind: "internal",
      sampled: true
    })

  it("is the span itself in all but those attributes", () => {
    const span = real()
    const deaf = RunSpans.withoutArguments(span)
    assert.instanceOf(deaf, Tracer.NativeSpan)
    const { spanId, traceId } = deaf
    assert.strictEqual(span.spanId, spanId)
    assert.strictEqual(span.traceId, traceId)
    deaf.attribute("tool", "x")
    deaf.attribute("parameters", { password: secret })
    deaf.attribute("other", 1)
    deaf.event("e", 2n, { a: 1 })
    deaf.addLinks([{ span: real(), attributes: {} }])
    assert.deepStrictEqual([...span.attributes], [["other", 1]])
    assert.strictEqual(deaf.attributes, span.attributes)
    assert.strictEqual(span.events.length, 1)
    assert.strictEqual(span.links.length, 1)
  })
})

describe("RunSpans.agent", () => {
  it.effect("names the agent, the run, its parent, and how it stopped", () =>
    Effect.gen(function* () {
      const trace = collector()
      const run = { agent: "log-analyst", runId: "n1/c3", parent: { runId: "n1", callId: "c3" } }
      yield* RunSpans.agent(run, (span) =>
        Effect.sync(() => RunSpans.agentStopped(span, samples.run_stopped))
      ).pipe(trace.provide)
      assert.deepStrictEqual(trace.attributes("invoke_agent log-analyst"), {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "log-analyst",
        "checkrein.run.id": "n1/c3",
        "checkrein.parent.run.id": "n1",
        "checkrein.parent.call.id": "c3",
        "checkrein.run.status": "interrupted",
        "checkrein.run.reason": "approval",
        "checkrein.run.turns": 2,
        "checkrein.run.cost_usd": 0.00157
      })
    })
  )

  it.effect("has the tags of its run, if there are any", () =>
    Effect.gen(function* () {
      for (const [tags, expected] of [
        [
          ["acme", "ticket-7"],
          ["acme", "ticket-7"]
        ],
        [[], undefined],
        [undefined, undefined]
      ] as const) {
        const trace = collector()
        yield* RunSpans.agent({ agent: "a", runId: "n1", tags }, () => Effect.void).pipe(trace.provide)
        assert.deepStrictEqual(trace.attributes("invoke_agent a")["checkrein.run.tags"], expected)
      }
    })
  )

  it.effect("has an error type only if the run failed", () =>
    Effect.gen(function* () {
      const trace = collector()
      yield* RunSpans.agent({ agent: "a", runId: "n1" }, (span) =>
        Effect.sync(() =>
          RunSpans.agentStopped(span, {
            ...samples.run_stopped,
            status: "failed",
            reason: "provider_refused"
          })
        )
      ).pipe(trace.provide)
      assert.strictEqual(trace.attributes("invoke_agent a")["error.type"], "provider_refused")
    })
  )
})

describe("RunSpans.chat", () => {
  const metadata = { type: "response-metadata", id: "r1", modelId: "m-1" } as const
  const finish = {
    type: "finish",
    reason: "stop",
    usage: { inputTokens: { total: 10, cacheRead: 3 }, outputTokens: { total: 5 } }
  } as const
  const parts: Array<Response.PartEncoded> = [metadata, { type: "text", text: secret }, finish]
  const streamed: Array<Response.StreamPartEncoded> = [
    metadata,
    { type: "text-start", id: "1" },
    { type: "text-delta", id: "1", delta: secret },
    { type: "text-end", id: "1" },
    finish
  ]
  const Model = Layer.effect(
    LanguageModel.LanguageModel,
    LanguageModel.make({
      generateText: () => Effect.succeed(parts),
      streamText: () => Stream.fromIterable(streamed)
    })
  )

  const expected = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "openai",
    "gen_ai.request.model": "m",
    "gen_ai.request.temperature": 0,
    "gen_ai.request.max_tokens": 100,
    "gen_ai.response.id": "r1",
    "gen_ai.response.model": "m-1",
    "gen_ai.response.finish_reasons": ["stop"],
    "gen_ai.usage.input_tokens": 10,
    "gen_ai.usage.output_tokens": 5,
    "gen_ai.usage.cache_read.input_tokens": 3
  }

  it.effect("describes effect's own span of a model call, whole or streamed, without the words", () =>
    Effect.gen(function* () {
      const trace = collector()
      const chat = RunSpans.chat({ provider: "openai", model: "m", temperature: 0, maxOutputTokens: 100 })
      const prompt = Prompt.make(secret)
      yield* LanguageModel.generateText({ prompt }).pipe(
        Effect.andThen(Stream.runDrain(LanguageModel.streamText({ prompt }))),
        Effect.provideService(Telemetry.CurrentSpanTransformer, chat),
        Effect.provide(Model),
        trace.provide
      )
      for (const name of ["LanguageModel.generateText", "LanguageModel.streamText"]) {
        assert.deepInclude(trace.attributes(name), expected)
        assert.notInclude(JSON.stringify(trace.attributes(name)), secret)
      }
    })
  )

  it.effect("does not erase with what is unknown, and passes on to the transformer before it", () =>
    Effect.gen(function* () {
      const trace = collector()
      let also = 0
      yield* LanguageModel.generateText({ prompt: "hi" }).pipe(
        Effect.provideService(
          Telemetry.CurrentSpanTransformer,
          RunSpans.chat({}, () => {
            also++
          })
        ),
        Effect.provide(Model),
        trace.provide
      )
      assert.strictEqual(also, 1)
      assert.notProperty(trace.attributes("LanguageModel.generateText"), "gen_ai.request.model")
      assert.strictEqual(trace.attributes("LanguageModel.generateText")["gen_ai.usage.output_tokens"], 5)
    })
  )
})
