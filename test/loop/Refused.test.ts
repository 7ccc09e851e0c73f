/**
 * What is refused before anything has run: each kind by a tag of its own, with words that say what to do, and with
 * nothing stored.
 */
import { inspect } from "node:util"
import { describe, expect } from "@effect/vitest"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { Agent, type Limits, PriceBook, RequestParams, RunStore } from "../../src/index.ts"
import * as Scripted from "../../src/provider/Scripted.ts"
import * as MemoryBudgetPool from "../../src/store/MemoryBudgetPool.ts"
import * as Audit from "../../src/testing/Audit.ts"
import { check, expectTag, finish, guarded, journal, of, results, usage, withTime } from "./support.ts"

const scripted = (lines: ReadonlyArray<Scripted.Line>) =>
  Scripted.layer(Scripted.make("model", lines), { usage })
const answers = scripted([Scripted.text("done")])

const analyst = Agent.make("analyst", { limits: { time: "1 hour" } })

type Needed = LanguageModel.LanguageModel | RunStore.RunStore

const isStored = (runId: string) =>
  Effect.flatMap(RunStore.RunStore, (store) =>
    store.summary(runId).pipe(
      Effect.as(true),
      Effect.catchTag("RunNotFound", () => Effect.succeed(false))
    )
  )

describe("a run", () => {
  check("of another agent is an AgentMismatch, and whose it is is said", function* () {
    yield* Effect.provide(Agent.run(analyst, "go", { runId: "r" }), answers)
    const other = Agent.make("other")
    const takes: ReadonlyArray<Effect.Effect<unknown, Agent.Failure<never>, Needed>> = [
      Agent.run(other, "go", { runId: "r" }),
      Agent.resume(other, "r"),
      Agent.create(other, "go", { runId: "r" })
    ]
    for (const taken of takes) {
      const refused = yield* Effect.flip(Effect.provide(taken, answers))
      expect(refused._tag).toBe("AgentMismatch")
      expect(refused.message).toContain("it is a run of analyst")
    }
  })

  check("that has not completed cannot be followed, and how it stands is said", function* () {
    const cutShort = scripted([Scripted.text("half an ans", { finish: "length" })])
    yield* Effect.exit(
      Effect.provide(Agent.run(analyst, "go", { runId: "r", limits: { turns: 1 } }), cutShort)
    )
    const followed = Agent.run(analyst, "And now?", { runId: "s", after: "r" })
    const refused = yield* Effect.flip(Effect.provide(followed, answers))
    expect(refused).toMatchObject({ _tag: "RunNotCompleted", runId: "r", status: "max_turns_exceeded" })
    expect(refused.message).toContain("resume it first")
    expect(yield* isStored("s")).toBe(false)
  })

  check("whose result does not fit the output any more is an OutputMismatch", function* () {
    const submits = scripted([Scripted.call("submit_result", { file: "a.log" })])
    const was = Agent.make("reporter", { output: Schema.Struct({ file: Schema.String }) })
    yield* Effect.provide(Agent.run(was, "go", { runId: "r" }), submits)
    const is = Agent.make("reporter", { output: Schema.Struct({ lines: Schema.Int }) })
    for (const taken of [Agent.run(is, "go", { runId: "r" }), Agent.resume(is, "r")]) {
      const refused = yield* Effect.flip(Effect.provide(taken, submits))
      expect(refused).toMatchObject({ _tag: "OutputMismatch", runId: "r", agent: "reporter" })
      expect(refused.message).toContain("RunStore.load")
    }
  })
})

describe("request parameters", () => {
  const wrong: ReadonlyArray<readonly [object, string]> = [
    ...[Number.NaN, 0, -1, 1.5, 1e300, "5"].map(
      (value) => [{ maxOutputTokens: value }, "RequestParams.maxOutputTokens is"] as const
    ),
    [{ temperature: Number.NaN }, "RequestParams.temperature is NaN, and must be a number of at least 0"],
    [{ topP: 1.1 }, "RequestParams.topP is 1.1, and must be a number from 0 to 1"],
    [{ seed: 0.5 }, "RequestParams.seed is 0.5, and must be a whole number"],
    [{ stop: "END" }, 'RequestParams.stop is "END", and must be a list of texts'],
    [{ reasoningEffort: "much" }, 'RequestParams.reasoningEffort is "much"'],
    [{ parallelToolCalls: 0 }, "RequestParams.parallelToolCalls is 0"],
    [{ extra: [] }, "RequestParams.extra is a list, and must be an object"],
    [{ max_tokens: 5 }, 'RequestParams has no "max_tokens": there are temperature, topP, maxOutputTokens']
  ]
  for (const [params, problem] of wrong) {
    check(`with which no model can be asked are InvalidParams: ${inspect(params)}`, function* () {
      for (const limits of [{}, { usd: 1, money: "hold" }] as const) {
        const run = RequestParams.add(params)(Agent.run(analyst, "go", { runId: "r", limits }))
        const refused = yield* Effect.flip(Effect.provide(run, answers))
        expect(refused).toMatchObject({ _tag: "InvalidParams", agent: "analyst" })
        expect(refused.message).toContain(problem)
        expect(yield* isStored("r")).toBe(false)
      }
    })
  }

  check("count wherever an object has them", function* () {
    class Written {
      temperature = 0
      get maxOutputTokens() {
        return 10
      }
    }
    const asked = RequestParams.add(new Written())(RequestParams.RequestParams)
    const inForce = yield* RequestParams.add({ topP: 1 })(asked)
    expect(inForce).toEqual({ topP: 1, temperature: 0, maxOutputTokens: 10 })
  })

  check("that can be asked with are none", function* () {
    const params = { temperature: 0, topP: 1, maxOutputTokens: 10, seed: -1, stop: [], extra: {} } as const
    const run = RequestParams.add({ ...params, reasoningEffort: "none" })(Agent.run(analyst, "go"))
    expect((yield* Effect.provide(run, answers)).output).toBe("done")
  })
})

describe("a model", () => {
  check("without a name and so without a price is told how to get both", function* () {
    const silent = Layer.effect(
      LanguageModel.LanguageModel,
      LanguageModel.make({ generateText: () => Effect.succeed([]), streamText: () => Stream.empty })
    )
    const limited = Agent.run(analyst, "go", { runId: "r", limits: { usd: 1 } })
    const refused = yield* Effect.flip(Effect.provide(limited, silent))
    expect(refused).toBeInstanceOf(Agent.UnpricedModel)
    expect(refused).not.toHaveProperty("model")
    expect(refused.message).toContain("Model.ModelName")
    expect(refused.message).toContain("PriceBook.layer")
    expect(refused.message).not.toContain("does not name:")
    expect(yield* isStored("r")).toBe(false)
  })

  check("that is not there at all is refused before anything is stored", function* () {
    // As it comes from JavaScript, or from a module whose agent is not typed.
    const none = Layer.empty as Layer.Layer<LanguageModel.LanguageModel>
    const starts: ReadonlyArray<Effect.Effect<unknown, Agent.Failure<never>, Needed>> = [
      Agent.run(analyst, "go", { runId: "r" }),
      Agent.create(analyst, "go", { runId: "r" }),
      Stream.runDrain(Agent.stream(analyst, "go", { runId: "r" }))
    ]
    for (const start of starts) {
      const refused = yield* Effect.flip(Effect.provide(start, none))
      expect(refused).toMatchObject({ _tag: "NoModel", agent: "analyst" })
      expect(refused.message).toContain("LanguageModel")
      expect(yield* isStored("r")).toBe(false)
    }
    yield* Effect.provide(Agent.run(analyst, "go", { runId: "answered" }), answers)
    expect((yield* Effect.provide(Agent.resume(analyst, "answered"), none)).output).toBe("done")
  })
})

describe("a sub-agent that cannot be run as its agent is made now", () => {
  const signing = Toolkit.make(guarded("sign"))
  const prices = PriceBook.layer({ bot: { input: 1, output: 1 } })

  interface Made {
    readonly name?: string
    readonly limits?: Limits.LimitsInput
    readonly around?: Layer.Layer<never>
  }

  /** An agent that asks another one, which signs, and how that one is made. */
  const asking = ({ around = Layer.empty, limits = {}, name = "signer" }: Made) => {
    const lines = [Scripted.call("sign", { q: "x" }, { id: "s" }), Scripted.text("signed")]
    const bot = Scripted.layer(Scripted.make("bot", lines), { usage, model: "bot" })
    const signer = Agent.make(name, { toolkit: signing, limits }).pipe(
      Agent.provide(signing.toLayer({ sign: ({ q }) => Effect.succeed(q) })),
      Agent.provide(Layer.merge(bot, around))
    )
    const ask = Agent.asTool(signer, { name: "ask", description: "Asks." })
    const asks = [Scripted.call("ask", { task: "sign" }, { id: "c" }), Scripted.text("done")]
    return Agent.make("lead", { toolkit: Toolkit.make(ask.tool), limits: { time: "1 hour" } }).pipe(
      Agent.provide(Layer.merge(ask.layer, scripted(asks)))
    )
  }

  const limited = { limits: { usd: 1 } }
  for (const [whole, broken, refusal, isOnlyLater] of [
    [{ ...limited, around: prices }, limited, { _tag: "UnpricedModel", model: "bot" }, false],
    [{}, { limits: { turns: -1 } }, { _tag: "InvalidLimits" }, false],
    [{}, { limits: { tokens: 900, money: "hold" } }, { _tag: "HoldUnavailable" }, false],
    [
      {},
      { around: Layer.succeed(RequestParams.RequestParams, { temperature: Number.NaN }) },
      { _tag: "InvalidParams" },
      false
    ],
    [{}, { name: "notary" }, { _tag: "AgentMismatch", runId: "r/c" }, true]
  ] as const) {
    check(
      `(${refusal._tag}) stops the run above, loses nothing, and both go on when that is mended`,
      function* () {
        const { exit } = yield* finish(Agent.run(asking(whole), "go", { runId: "r" }))
        yield* Agent.decide(expectTag(exit, "ApprovalRequired").calls[0], Agent.approve())
        const stops = of(yield* journal("r"), "run_stopped")
        for (let times = 0; times < 2; times++) {
          expect(yield* Effect.flip(Agent.resume(asking(broken), "r"))).toMatchObject(refusal)
          expect(of(yield* journal("r"), "run_stopped")).toEqual(stops)
          expect(of(yield* journal("r/c"), "run_stopped")).toHaveLength(1)
          expect((yield* Audit.run("r")).findings).toEqual([])
        }
        const { exit: end } = yield* finish(Agent.resume(asking(whole), "r"))
        expect(expectTag(end, "Completed").output).toBe("done")
        expect(results(end.run.messages).c).toMatchObject({ ok: true, content: "signed" })
      }
    )

    if (!isOnlyLater) {
      check(`(${refusal._tag}) before it has begun, ends the run above with what is wrong`, function* () {
        const { exit } = yield* finish(Agent.run(asking(broken), "go", { runId: "r" }))
        expect(expectTag(exit, "RunFailed")).toMatchObject({ reason: "tool_fatal" })
        expect(exit.run.detail).toMatch(/^ask cannot be run: /)
        expect(yield* isStored("r/c")).toBe(false)
      })
    }
  }
})

describe("a sub-agent beside one that cannot be taken up", () => {
  const signing = Toolkit.make(guarded("sign"))
  const signerOf = (name: string, limits: Limits.LimitsInput) => {
    const lines = [
      Scripted.call("sign", { q: name }, { id: "s" }),
      Scripted.text("signed", { latency: "1 minute" })
    ]
    return Agent.make(name, { toolkit: signing, limits }).pipe(
      Agent.provide(signing.toLayer({ sign: ({ q }) => Effect.succeed(q) })),
      Agent.provide(Scripted.layer(Scripted.make(name, lines), { usage }))
    )
  }
  const asking = (limits: Limits.LimitsInput) => {
    const a = Agent.asTool(signerOf("a", limits), { name: "ask_a", description: "Asks." })
    const b = Agent.asTool(signerOf("b", {}), { name: "ask_b", description: "Asks." })
    const toolkit = Toolkit.make(a.tool.annotate(Tool.Readonly, true), b.tool.annotate(Tool.Readonly, true))
    const both = Scripted.turn(
      Scripted.call("ask_a", { task: "sign" }, { id: "a" }),
      Scripted.call("ask_b", { task: "sign" }, { id: "b" })
    )
    return Agent.make("lead", { toolkit, limits: { time: "1 hour" } }).pipe(
      Agent.provide(Layer.mergeAll(a.layer, b.layer, scripted([both, Scripted.text("done")])))
    )
  }

  check("comes to its end, once", function* () {
    const { exit } = yield* finish(Agent.run(asking({}), "go", { runId: "r" }))
    for (const call of expectTag(exit, "ApprovalRequired").calls) yield* Agent.decide(call, Agent.approve())
    const broken = asking({ turns: -1 })
    const refusal = { _tag: "InvalidLimits" }
    expect(yield* withTime(Effect.flip(Agent.resume(broken, "r")))).toMatchObject(refusal)
    const events = yield* journal("r/b")
    expect(events.at(-1)).toMatchObject({ type: "run_stopped", status: "completed" })
    for (let times = 0; times < 3; times++) {
      expect(yield* withTime(Effect.flip(Agent.resume(broken, "r")))).toMatchObject(refusal)
    }
    expect(yield* journal("r/b")).toEqual(events)
    expect(of(events, "turn_started")).toHaveLength(2)
    const { exit: end } = yield* withTime(finish(Agent.resume(asking({}), "r")))
    expect(expectTag(end, "Completed").output).toBe("done")
    expect((yield* Audit.run("r")).findings).toEqual([])
  })
})

describe("the warning that nothing limits a run's money or time", () => {
  const unlimited = Agent.make("analyst")
  const deadline = "2100-01-01T00:00:00Z"
  for (const [of, isGiven, pool, limits] of [
    ["a run without either", true, undefined, {}],
    ["a run with a deadline", false, undefined, { deadline }],
    ["a run that shares a budget of money", false, { usd: 1 }, {}],
    ["a run that shares a budget of tool calls alone", true, { toolCalls: 9 }, {}]
  ] as const) {
    check(`is ${isGiven ? "given" : "not given"} for ${of}`, function* () {
      const warnings: Array<string> = []
      const heard = Logger.layer([
        Logger.make(({ logLevel, message }) => {
          if (logLevel === "Warn") warnings.push(String(message))
        })
      ])
      const around = Layer.mergeAll(
        answers,
        PriceBook.layer({ model: { input: 1, output: 1 } }),
        pool === undefined ? Layer.empty : MemoryBudgetPool.layer("team", pool),
        heard
      )
      yield* Effect.provide(Agent.run(unlimited, "go", { runId: "r", limits }), around)
      expect(warnings).toEqual(
        isGiven ? [expect.stringContaining("run r of analyst has no limit of money or time")] : []
      )
    })
  }
})
