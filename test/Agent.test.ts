import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { Agent, type Limits, type Message, RunExit, RunStore } from "../src/index.ts"
import {
  awaited,
  call,
  checkEnding,
  during,
  fail,
  last,
  of,
  Tools,
  text,
  turn,
  types,
  until,
  type World,
  world
} from "./loop/modelSupport.ts"

const agent = Agent.make("analyst", {
  instructions: "Answer from the files.",
  toolkit: Tools
})
const free = { turns: 20 } as const

const fileAnswer = Schema.Struct({ file: Schema.String, lines: Schema.Int })
const contract = Agent.make("contract", { toolkit: Tools, output: fileAnswer })

const texts = (messages: ReadonlyArray<Message.Message>): ReadonlyArray<string> =>
  messages.map(
    (message) =>
      `${message.role}: ${typeof message.content === "string" ? message.content : JSON.stringify(message.content)}`
  )
const tagOf = (cause: Cause.Cause<{ readonly _tag: string }>): string | undefined =>
  Option.getOrUndefined(Cause.findErrorOption(cause))?._tag
const lastText = (w: World): string => JSON.stringify(w.requests.at(-1)?.messages.at(-1) ?? "")

describe("make", () => {
  for (const [options, problem] of [
    [
      { limit: { usd: 1 } },
      'lead cannot be made: options has no "limit": there are instructions, toolkit, output, limits, policy, stopWhen'
    ],
    [
      { instructions: ["Be brief."] },
      "lead cannot be made: options.instructions is a list, and must be a text"
    ],
    [{ output: { n: 1 } }, "lead cannot be made: options.output is an object, and must be a schema"],
    [
      { stopWhen: [() => undefined, "late"] },
      "lead cannot be made: options.stopWhen is a list, and must be a function, or a list of them"
    ],
    [null, "lead cannot be made: options is null, and must be an object"]
  ] as const) {
    it(`of ${JSON.stringify(options)} is not made`, () => {
      assert.throws(() => Agent.make("lead", options as Parameters<typeof Agent.make>[1]), TypeError, problem)
    })
  }
})

describe("the endings", () => {
  it.effect("completed: the success, with output and state", () =>
    Effect.gen(function* () {
      const w = yield* world([call("read_file", { path: "a.log" }, { id: "c1" }), text("It is a.log.")])
      const completed = yield* w.in(Agent.run(agent, "Which file?", { runId: "r" }))
      assert.strictEqual(completed._tag, "Completed")
      assert.strictEqual(completed.output, "It is a.log.")
      const run = checkEnding(completed, yield* w.journal(), "completed", "answered")
      assert.strictEqual(run.agent, "analyst")
      assert.strictEqual(run.turns, 2)
      assert.strictEqual(run.toolCalls, 1)
      assert.strictEqual(run.costUsd, 0.2)
      assert.deepStrictEqual(run.usage, {
        promptTokens: 200,
        completionTokens: 20
      })
      assert.deepStrictEqual(texts(run.messages), [
        "system: Answer from the files.",
        "user: Which file?",
        'assistant: [{"type":"tool-call","id":"c1","name":"read_file","params":{"path":"a.log"}}]',
        "tool: content of a.log",
        'assistant: [{"type":"text","text":"It is a.log."}]'
      ])
      assert.deepStrictEqual(types(yield* w.journal()), [
        "run_started",
        "turn_started",
        "turn",
        "tool_start",
        "tool_result",
        "turn_started",
        "turn",
        "run_stopped"
      ])
    })
  )

  it.effect("max turns, with the call of the last turn pending", () =>
    Effect.gen(function* () {
      const w = yield* world([call("list_files"), call("list_files")])
      const exit = yield* w.in(Agent.outcome(Agent.run(agent, "go", { runId: "r", limits: { turns: 2 } })))
      assert(exit._tag === "MaxTurnsExceeded")
      const run = checkEnding(exit, yield* w.journal(), "max_turns_exceeded", "max_turns")
      assert.strictEqual(exit.limit, 2)
      assert.strictEqual(run.turns, 2)
      assert.strictEqual(run.pending.length, 1)
      assert.deepStrictEqual(w.work.started, ["list_files"])
    })
  )

  it.effect("budget, by resource", () =>
    Effect.gen(function* () {
      const w = yield* world([call("list_files"), call("list_files")])
      const exit = yield* w.in(Agent.outcome(Agent.run(agent, "go", { runId: "r", limits: { usd: 0.15 } })))
      assert(exit._tag === "BudgetExceeded")
      checkEnding(exit, yield* w.journal(), "budget_exceeded", "max_budget")
      assert.strictEqual(exit.resource, "usd")
      assert.strictEqual(exit.used, 0.2)
      assert.strictEqual(exit.limit, 0.15)
    })
  )

  it.effect("interrupted: an approval names run, call, tool and arguments", () =>
    Effect.gen(function* () {
      const w = yield* world([call("delete_file", { path: "a.log" }, { id: "c1" }), text("done")])
      const exit = yield* w.in(Agent.outcome(Agent.run(agent, "go", { runId: "r" })))
      assert(exit._tag === "ApprovalRequired")
      checkEnding(exit, yield* w.journal(), "interrupted", "approval")
      assert.strictEqual(exit.calls.length, 1)
      const { argsDigest, ...rest } = exit.calls[0]
      assert.isNotEmpty(argsDigest)
      assert.deepStrictEqual(rest, {
        runId: "r",
        callId: "c1",
        tool: "delete_file",
        args: { path: "a.log" }
      })
      assert.deepStrictEqual(w.work.started, [])
    })
  )

  it.effect("interrupted: a stop condition, in its own words", () =>
    Effect.gen(function* () {
      const w = yield* world([call("list_files"), call("list_files")])
      const stopping = Agent.make("analyst", {
        toolkit: Tools,
        stopWhen: (state) => (state.toolCalls >= 1 ? "one call is enough" : undefined)
      })
      const exit = yield* w.in(Agent.outcome(Agent.run(stopping, "go", { runId: "r" })))
      assert(exit._tag === "StopConditionMet")
      const run = checkEnding(exit, yield* w.journal(), "interrupted", "stop_condition")
      assert.strictEqual(exit.condition, "one call is enough")
      assert.strictEqual(run.detail, "one call is enough")
      assert.strictEqual(w.requests.length, 1)
    })
  )

  it.effect("failed: with its reason, not resumable", () =>
    Effect.gen(function* () {
      const w = yield* world([fail(400, { message: "no such thing" })])
      const exit = yield* w.in(Agent.outcome(Agent.run(agent, "go", { runId: "r" })))
      assert(exit._tag === "RunFailed")
      checkEnding(exit, yield* w.journal(), "failed", "provider_refused")
      assert.strictEqual(exit.reason, "provider_refused")
      assert.include(exit.message, "no such thing")
    })
  )

  it.effect("a bug in the agent's own code is a defect of the run, not of the program", () =>
    Effect.gen(function* () {
      const w = yield* world([text("done")])
      const broken = Agent.make("analyst", {
        stopWhen: () => {
          throw new Error("oops")
        }
      })
      const exit = yield* w.in(Agent.outcome(Agent.run(broken, "go", { runId: "r" })))
      assert(exit._tag === "RunFailed")
      assert.strictEqual(exit.reason, "defect")
      checkEnding(exit, yield* w.journal(), "failed", "defect")
    })
  )

  it.effect("outcome leaves what is outside any run in the error channel", () =>
    Effect.gen(function* () {
      const w = yield* world([])
      const error = yield* w.in(Effect.flip(Agent.outcome(Agent.resume(agent, "nobody"))))
      assert.strictEqual(error._tag, "RunNotFound")
      const mapped = yield* Effect.flip(Agent.outcome(Effect.fail("mine" as const)))
      assert.strictEqual(mapped, "mine")
    })
  )

  it.effect("a failure is one of the exits for whoever gets it as unknown, and has JSON", () =>
    Effect.gen(function* () {
      const w = yield* world([call("list_files"), call("list_files")])
      const exit = yield* w.in(Effect.flip(Agent.run(agent, "go", { runId: "r", limits: { turns: 1 } })))
      assert.isTrue(RunExit.isRunExit(exit))
      const codec = Schema.toCodecJson(RunExit.RunExit)
      const json = JSON.parse(JSON.stringify(Schema.encodeUnknownSync(codec)(exit)))
      const back = Schema.decodeUnknownSync(codec)(json)
      assert.strictEqual(back._tag, "MaxTurnsExceeded")
      assert.strictEqual(back.run.turns, 1)
      assert.strictEqual(back.message, (exit as RunExit.RunExit).message)
    })
  )
})

describe("run", () => {
  it.effect("makes up an id if it gets none, another one each time", () =>
    Effect.gen(function* () {
      const w = yield* world([text("one"), text("two")])
      const runs = [yield* w.in(Agent.run(agent, "go")), yield* w.in(Agent.run(agent, "go"))]
      const ids = [...runs.map(({ run }) => run.runId), yield* w.in(Agent.create(agent, "go"))]
      assert.strictEqual(new Set(ids).size, 3)
      yield* w.journal(ids[0])
    })
  )

  it.effect("takes messages as input", () =>
    Effect.gen(function* () {
      const w = yield* world([text("blue")])
      const input: ReadonlyArray<Message.Message> = [
        { role: "user", content: "My name is Ann." },
        { role: "assistant", content: [{ type: "text", text: "Hello Ann." }] },
        { role: "user", content: "What do I like?" }
      ]
      const { run } = yield* w.in(Agent.run(agent, input, { runId: "r" }))
      assert.deepStrictEqual(
        w.requests[0]?.messages.map(({ role }) => role),
        ["system", "user", "assistant", "user"]
      )
      assert.deepStrictEqual(run.messages.slice(1, 4), input)
      yield* w.journal()
    })
  )

  it.effect("an id given twice starts once: the second gets the stored result", () =>
    Effect.gen(function* () {
      const w = yield* world([call("write_file", { path: "a" }), text("done"), text("again")])
      const one = yield* w.in(Agent.run(agent, "go", { runId: "r" }))
      const two = yield* w.in(Agent.run(agent, "go", { runId: "r" }))
      assert.strictEqual(two.output, "done")
      assert.deepStrictEqual(two.run, one.run)
      assert.strictEqual(w.requests.length, 2)
      assert.deepStrictEqual(w.work.started, ["write_file a"])
      assert.strictEqual(of(yield* w.journal(), "run_started").length, 1)
    })
  )

  it.effect("an id given twice at the same moment starts once", () =>
    Effect.gen(function* () {
      const w = yield* world([call("slow_write", { path: "a" }), text("done")], { latency: "1 second" })
      const one = Agent.run(agent, "go", { runId: "r" })
      const three = [Effect.exit(one), Effect.exit(one), Effect.exit(one)]
      const exits = yield* Effect.flatten(
        during(60_000, w.in(Effect.all(three, { concurrency: "unbounded" })))
      )
      const outputs = exits.map((exit) => (Exit.isSuccess(exit) ? exit.value.output : tagOf(exit.cause)))
      assert.include(outputs, "done")
      for (const output of outputs) assert.include(["done", "RunBusy"], output)
      assert.deepStrictEqual(w.work.started, ["slow_write a"])
      assert.strictEqual(w.requests.length, 2)
      assert.strictEqual(of(yield* w.journal(), "run_started").length, 1)
    })
  )

  it.effect("an id that is stored and stopped is taken up where it is", () =>
    Effect.gen(function* () {
      const w = yield* world([fail(503), fail(503), text("done")])
      const once = Agent.make("analyst", { policy: { modelRetries: 0 } })
      const one = yield* w.in(Agent.outcome(Agent.run(once, "go", { runId: "r" })))
      assert.strictEqual(one._tag, "ProviderUnavailable")
      const two = yield* w.in(Agent.outcome(Agent.run(once, "go", { runId: "r" })))
      assert.strictEqual(two._tag, "ProviderUnavailable")
      const three = yield* w.in(Agent.run(once, "go", { runId: "r" }))
      assert.strictEqual(three.output, "done")
      const journal = yield* w.journal()
      assert.strictEqual(of(journal, "run_started").length, 1)
      assert.strictEqual(three.run.messages.filter(({ role }) => role === "user").length, 1)
    })
  )

  it.effect("refuses an id of another agent's run", () =>
    Effect.gen(function* () {
      const w = yield* world([text("done"), text("other")])
      yield* w.in(Agent.run(agent, "go", { runId: "r" }))
      const other = Agent.make("other")
      const error = yield* w.in(Effect.flip(Agent.run(other, "go", { runId: "r" })))
      assert.strictEqual(error._tag, "AgentMismatch")
      const onResume = yield* w.in(Effect.flip(Agent.resume(other, "r")))
      assert.strictEqual(onResume._tag, "AgentMismatch")
      assert.strictEqual(w.requests.length, 1)
    })
  )

  it.effect(
    "refuses a money limit for a model without a price, by name, before anything is sent (case 6)",
    () =>
      Effect.gen(function* () {
        const w = yield* world([text("done")], { model: "mystery-1" })
        const error = yield* w.in(Effect.flip(Agent.run(agent, "go", { runId: "r", limits: { usd: 1 } })))
        assert(error._tag === "UnpricedModel")
        assert.strictEqual(error.model, "mystery-1")
        assert.include(error.message, "mystery-1")
        assert.strictEqual(w.requests.length, 0)
        const missing = yield* Effect.flip(w.store.read("r"))
        assert.strictEqual(missing._tag, "RunNotFound")
      })
  )

  it.effect("without a money limit a price need not be known, and the turn says that it has none", () =>
    Effect.gen(function* () {
      const w = yield* world([text("done"), text("more")], {
        model: "mystery-1"
      })
      const { run } = yield* w.in(Agent.run(agent, "go", { runId: "r" }))
      assert.strictEqual(run.costUsd, 0)
      assert.strictEqual(of(yield* w.journal(), "turn")[0]?.unpriced, true)
    })
  )

  it.effect("a money limit that comes with a resume needs a price too", () =>
    Effect.gen(function* () {
      const w = yield* world([call("list_files"), text("done")], {
        model: "mystery-1"
      })
      yield* w.in(Agent.outcome(Agent.run(agent, "go", { runId: "r", limits: { turns: 1 } })))
      const before = (yield* w.journal()).length
      const error = yield* w.in(Effect.flip(Agent.resume(agent, "r", { limits: { turns: 5, usd: 1 } })))
      assert.strictEqual(error._tag, "UnpricedModel")
      assert.strictEqual((yield* w.journal()).length, before)
    })
  )

  for (const [name, limits] of [
    ["a negative number of turns", { turns: -1 }],
    ["half a turn", { turns: 1.5 }],
    ["money that is no number", { usd: Number.NaN }],
    ["a reserve above its limit", { turns: 2, reserve: { turns: 3 } }],
    ["a reserve of what has no limit", { reserve: { usd: 1 } }],
    ["a name that is none", { turn: 1 } as Limits.LimitsInput],
    ["nothing at all", JSON.parse("null") as Limits.LimitsInput]
  ] as const) {
    it.effect(`refuses limits that make no sense: ${name}`, () =>
      Effect.gen(function* () {
        const w = yield* world([text("done")])
        const error = yield* w.in(Effect.flip(Agent.run(agent, "go", { runId: "r", limits })))
        assert.strictEqual(error._tag, "InvalidLimits")
        const own = Agent.make("analyst", { limits })
        assert.strictEqual(
          (yield* w.in(Effect.flip(Agent.run(own, "go", { runId: "r" }))))._tag,
          "InvalidLimits"
        )
        assert.strictEqual(w.requests.length, 0)
        assert.strictEqual((yield* Effect.flip(w.store.read("r")))._tag, "RunNotFound")
      })
    )
  }

  it.effect("limits of the run replace the agent's one by one", () =>
    Effect.gen(function* () {
      const w = yield* world([text("done")])
      const limited = Agent.make("analyst", { limits: { turns: 7, usd: 3 } })
      const { run } = yield* w.in(Agent.run(limited, "go", { runId: "r", limits: { turns: 2 } }))
      assert.deepStrictEqual(run.limits, { turns: 2, usd: 3 })
      const w2 = yield* world([text("done")])
      assert.deepStrictEqual((yield* w2.in(Agent.run(agent, "go"))).run.limits, { turns: 20 })
    })
  )

  it.effect("gets its toolkit anew from an effect, and fails as that does", () =>
    Effect.gen(function* () {
      const w = yield* world([call("list_files"), text("done")])
      class NoTools extends Context.Service<NoTools, { readonly no: true }>()("test/NoTools") {}
      const lazy = Agent.make("lazy", {
        toolkit: Effect.gen(function* () {
          const { no } = yield* NoTools
          if (!no) return yield* Effect.fail("no tools" as const)
          return yield* Tools
        })
      })
      const { run } = yield* w.in(
        Agent.run(lazy, "go", { runId: "r" }).pipe(Effect.provideService(NoTools, { no: true }))
      )
      assert.strictEqual(run.toolCalls, 1)
      const failing = Agent.make("failing", {
        toolkit: Effect.flatMap(Effect.fail("no tools" as const), () => Tools)
      })
      assert.strictEqual(yield* w.in(Effect.flip(Agent.run(failing, "go", { runId: "f" }))), "no tools")
      assert.strictEqual((yield* Effect.flip(w.store.read("f")))._tag, "RunNotFound")
    })
  )
})

describe("resume", () => {
  it.effect("a completed run yields its stored result without a model call, as often as one asks", () =>
    Effect.gen(function* () {
      const w = yield* world([text("done"), text("never")])
      const done = yield* w.in(Agent.run(agent, "go", { runId: "r" }))
      const before = yield* w.journal()
      const again = yield* w.in(
        Agent.resume(agent, "r", {
          message: "and?",
          limits: { turns: 30 },
          force: true
        })
      )
      assert.strictEqual(again.output, "done")
      assert.deepStrictEqual(again.run, done.run)
      assert.deepStrictEqual(yield* w.journal(), before)
      assert.strictEqual(w.requests.length, 1)
    })
  )

  it.effect("a stored result comes back as the type that it was submitted as", () =>
    Effect.gen(function* () {
      const dated = Agent.make("dated", {
        output: Schema.Struct({ at: Schema.DateFromString })
      })
      const w = yield* world([call("submit_result", { at: "2024-01-02T00:00:00.000Z" }, { id: "s" })])
      const done = yield* w.in(Agent.run(dated, "go", { runId: "r" }))
      assert.deepStrictEqual(done.output.at, new Date("2024-01-02T00:00:00.000Z"))
      const again = yield* w.in(Agent.resume(dated, "r"))
      assert.deepStrictEqual(again.output.at, done.output.at)
    })
  )

  it.effect("an unknown run is not found", () =>
    Effect.gen(function* () {
      const w = yield* world([])
      const error = yield* w.in(Effect.flip(Agent.resume(agent, "nobody")))
      assert(error._tag === "RunNotFound")
      assert.strictEqual(error.runId, "nobody")
    })
  )

  it.effect("a failed run fails again, with the same words and nothing written; force goes on", () =>
    Effect.gen(function* () {
      const w = yield* world([call("read_file", { path: "a" }), fail(400, { message: "bad" }), text("done")])
      const one = yield* w.in(Agent.outcome(Agent.run(agent, "go", { runId: "r" })))
      assert(one._tag === "RunFailed")
      const before = yield* w.journal()
      for (const again of [Agent.resume(agent, "r"), Agent.run(agent, "go", { runId: "r" })]) {
        const two = yield* w.in(Agent.outcome(again))
        assert(two._tag === "RunFailed")
        assert.strictEqual(two.message, one.message)
      }
      assert.deepStrictEqual(yield* w.journal(), before)
      const forced = yield* w.in(Agent.resume(agent, "r", { force: true }))
      assert.strictEqual(forced.output, "done")
      assert.deepStrictEqual(w.work.started, ["read_file a"])
      checkEnding(forced, yield* w.journal(), "completed", "answered")
    })
  )

  it.effect("with higher limits runs the calls pending from the last turn, and asks nothing twice", () =>
    Effect.gen(function* () {
      const w = yield* world([
        call("read_file", { path: "a" }),
        turn(call("write_file", { path: "b" }, { id: "w" }), call("read_file", { path: "c" }, { id: "x" })),
        text("done")
      ])
      const one = yield* w.in(Agent.outcome(Agent.run(agent, "go", { runId: "r", limits: { turns: 2 } })))
      assert.strictEqual(one._tag, "MaxTurnsExceeded")
      assert.deepStrictEqual(w.work.started, ["read_file a"])
      const done = yield* w.in(Agent.resume(agent, "r", { limits: { turns: 3 } }))
      assert.strictEqual(done.output, "done")
      assert.sameMembers([...w.work.started], ["read_file a", "write_file b", "read_file c"])
      assert.strictEqual(w.requests.length, 3)
      const journal = yield* w.journal()
      assert.deepStrictEqual(of(journal, "limits_changed")[0]?.limits, {
        turns: 3
      })
      checkEnding(done, journal, "completed", "answered")
    })
  )

  it.effect("with the same limits stops again at once, with nothing spent", () =>
    Effect.gen(function* () {
      const w = yield* world([call("list_files"), text("done")])
      yield* w.in(Agent.outcome(Agent.run(agent, "go", { runId: "r", limits: { turns: 1 } })))
      const again = yield* w.in(Agent.outcome(Agent.resume(agent, "r")))
      assert(again._tag === "MaxTurnsExceeded")
      assert.strictEqual(again.run.turns, 1)
      assert.strictEqual(w.requests.length, 1)
      assert.deepStrictEqual(w.work.started, [])
      checkEnding(again, yield* w.journal(), "max_turns_exceeded", "max_turns")
    })
  )

  it.effect("limits that make no sense are refused, and the run stays as it was", () =>
    Effect.gen(function* () {
      const w = yield* world([call("list_files"), text("done")])
      yield* w.in(Agent.outcome(Agent.run(agent, "go", { runId: "r", limits: { turns: 1 } })))
      const before = yield* w.journal()
      for (const limits of [{ turns: -3 }, JSON.parse("null") as Limits.LimitsInput]) {
        const error = yield* w.in(Effect.flip(Agent.resume(agent, "r", { limits })))
        assert.strictEqual(error._tag, "InvalidLimits")
      }
      assert.deepStrictEqual(yield* w.journal(), before)
    })
  )

  it.effect("a message is said to the model, after the results of what was pending", () =>
    Effect.gen(function* () {
      const w = yield* world([call("read_file", { path: "a" }, { id: "c" }), text("done")])
      yield* w.in(Agent.outcome(Agent.run(agent, "go", { runId: "r", limits: { turns: 1 } })))
      const done = yield* w.in(
        Agent.resume(agent, "r", {
          limits: { turns: 5 },
          message: "Hurry up."
        })
      )
      assert.deepStrictEqual(
        w.requests[1]?.messages.map(({ role }) => role),
        ["system", "user", "assistant", "tool", "user"]
      )
      assert.include(lastText(w), "Hurry up.")
      checkEnding(done, yield* w.journal(), "completed", "answered")
    })
  )

  it.effect("two at the same moment: one goes on, nothing runs twice", () =>
    Effect.gen(function* () {
      const w = yield* world([call("slow_write", { path: "a" }, { id: "c" }), text("done")])
      yield* w.in(Agent.outcome(Agent.run(agent, "go", { runId: "r", limits: { turns: 1 } })))
      const resume = Effect.exit(Agent.resume(agent, "r", { limits: free }))
      const both = w.in(Effect.all([resume, resume], { concurrency: "unbounded" }))
      const exits = yield* Effect.flatten(during(60_000, both))
      assert.isTrue(exits.some(Exit.isSuccess))
      for (const exit of exits) if (Exit.isFailure(exit)) assert.strictEqual(tagOf(exit.cause), "RunBusy")
      assert.deepStrictEqual(w.work.started, ["slow_write a"])
      yield* w.journal()
    })
  )

  it.effect("while another fiber drives the run, it is busy", () =>
    Effect.gen(function* () {
      const w = yield* world([text("done")], { latency: "5 seconds" })
      const fiber = yield* Effect.forkChild(w.in(Agent.run(agent, "go", { runId: "r" })), {
        startImmediately: true
      })
      yield* until(() => w.requests.length === 1)
      const error = yield* w.in(Effect.flip(Agent.resume(agent, "r")))
      assert(error._tag === "RunBusy")
      assert.strictEqual(error.runId, "r")
      yield* awaited(fiber)
      yield* w.journal()
    })
  )
})

describe("result", () => {
  const submitted = { file: "a.log", lines: 3 }

  it.effect("is what the run yielded, with no model, no tools and nothing written", () =>
    Effect.gen(function* () {
      const w = yield* world([call("submit_result", submitted, { id: "s" })])
      const unbuilt = contract.pipe(Agent.provide(Layer.effectDiscard(Effect.die("it was built"))))
      const done = yield* w.in(Agent.run(contract, "go", { runId: "r" }))
      const before = yield* w.journal()
      const stored = yield* Effect.provideService(Agent.result(unbuilt, "r"), RunStore.RunStore, w.store)
      assert.deepStrictEqual(stored, done)
      assert.deepStrictEqual(yield* w.journal(), before)
    })
  )

  it.effect("comes back as the type that it was submitted as, and as text where there is no output", () =>
    Effect.gen(function* () {
      const dated = Agent.make("dated", { output: Schema.Struct({ at: Schema.DateFromString }) })
      const w = yield* world([
        call("submit_result", { at: "2024-01-02T00:00:00.000Z" }, { id: "s" }),
        text("It is a.log.")
      ])
      yield* w.in(Agent.run(dated, "go", { runId: "r" }))
      yield* w.in(Agent.run(agent, "go", { runId: "q" }))
      const { output } = yield* w.in(Agent.result(dated, "r"))
      assert.deepStrictEqual(output.at, new Date("2024-01-02T00:00:00.000Z"))
      assert.strictEqual((yield* w.in(Agent.result(agent, "q"))).output, "It is a.log.")
    })
  )

  it.effect("says what is in its way: no run, no result, another agent's run, another output", () =>
    Effect.gen(function* () {
      const w = yield* world([
        call("submit_result", submitted, { id: "s" }),
        call("delete_file", { path: "a" }, { id: "d" })
      ])
      yield* w.in(Agent.run(contract, "go", { runId: "done" }))
      yield* w.in(Effect.exit(Agent.run(contract, "go", { runId: "waits" })))
      yield* w.in(Agent.create(contract, "go", { runId: "queued" }))
      const denied = Agent.make("denied").pipe(Agent.provide((yield* world([fail(401)])).model))
      const changed = Agent.make("contract", { output: Schema.Struct({ since: Schema.String }) })
      const problem = (runId: string, of: Agent.Agent<unknown, never, unknown> = contract) =>
        Effect.provideService(Effect.flip(Agent.result(of, runId)), RunStore.RunStore, w.store)
      assert.deepInclude(yield* problem("nobody"), { _tag: "RunNotFound", runId: "nobody" })
      const not = { _tag: "RunNotCompleted" } as const
      assert.deepInclude(yield* problem("waits"), { ...not, runId: "waits", status: "interrupted" })
      const queued = yield* problem("queued")
      assert.deepInclude(queued, { ...not, runId: "queued", status: "running" })
      assert.include(queued.message, "wait until its driver is done, or, if its process has died, resume it")
      yield* w.in(Effect.exit(Agent.run(denied, "go", { runId: "denied" })))
      assert.include((yield* problem("denied", denied)).message, "with `force`, once its cause is mended")
      assert.deepInclude(yield* problem("done", agent), { _tag: "AgentMismatch", agent: "analyst" })
      assert.deepInclude(yield* problem("done", changed), { _tag: "OutputMismatch", runId: "done" })
    })
  )
})

describe("after", () => {
  it.effect("a follow-up has the transcript of the first run and a budget of its own", () =>
    Effect.gen(function* () {
      const w = yield* world([
        call("read_file", { path: "a" }, { id: "c" }),
        text("It is a."),
        text("Since Monday.")
      ])
      const one = yield* w.in(
        Agent.run(agent, "Which file?", {
          runId: "r1",
          limits: { turns: 2 }
        })
      )
      const two = yield* w.in(
        Agent.run(agent, "Since when?", {
          runId: "r2",
          after: "r1",
          limits: { turns: 1 }
        })
      )
      assert.strictEqual(two.output, "Since Monday.")
      assert.strictEqual(two.run.runId, "r2")
      assert.strictEqual(two.run.turns, 1)
      assert.strictEqual(two.run.costUsd, 0.1)
      assert.strictEqual(two.run.toolCalls, 0)
      assert.deepStrictEqual(two.run.messages.slice(0, one.run.messages.length), one.run.messages)
      assert.deepStrictEqual(
        two.run.messages.map(({ role }) => role),
        ["system", "user", "assistant", "tool", "assistant", "user", "assistant"]
      )
      const journal = yield* w.journal("r2")
      assert.strictEqual(of(journal, "run_started")[0]?.after, "r1")
      assert.deepStrictEqual((yield* w.journal("r1")).at(-1)?.type, "run_stopped")
      checkEnding(two, journal, "completed", "answered")
    })
  )

  it.effect("a follow-up of a submitted result sends a valid transcript", () =>
    Effect.gen(function* () {
      const w = yield* world([
        turn(
          call("read_file", { path: "a" }, { id: "c" }),
          call("submit_result", { file: "a", lines: 3 }, { id: "s" })
        ),
        call("submit_result", { file: "b", lines: 4 }, { id: "s" })
      ])
      yield* w.in(Agent.run(contract, "Which file?", { runId: "r1" }))
      const two = yield* w.in(Agent.run(contract, "And now?", { runId: "r2", after: "r1" }))
      assert.deepStrictEqual(two.output, { file: "b", lines: 4 })
      yield* w.journal("r1")
      yield* w.journal("r2")
    })
  )

  it.effect("call ids of the first run are not new in the follow-up", () =>
    Effect.gen(function* () {
      const w = yield* world([
        call("write_file", { path: "a" }, { id: "c" }),
        text("done"),
        call("write_file", { path: "a" }, { id: "c" }),
        text("done again")
      ])
      yield* w.in(Agent.run(agent, "go", { runId: "r1" }))
      yield* w.in(Agent.run(agent, "again", { runId: "r2", after: "r1" }))
      assert.deepStrictEqual(w.work.started, ["write_file a", "write_file a"])
      yield* w.journal("r2")
    })
  )

  it.effect("an unknown run, and one that is not complete, cannot be followed", () =>
    Effect.gen(function* () {
      const w = yield* world([call("list_files"), text("done")])
      const missing = yield* w.in(Effect.flip(Agent.run(agent, "x", { runId: "r2", after: "nobody" })))
      assert.strictEqual(missing._tag, "RunNotFound")
      yield* w.in(Agent.outcome(Agent.run(agent, "go", { runId: "r1", limits: { turns: 1 } })))
      const exit = yield* w.in(Effect.exit(Agent.run(agent, "x", { runId: "r2", after: "r1" })))
      assert.isTrue(Exit.isFailure(exit))
      assert.isFalse(Exit.hasDies(exit), "told as a failure, not as a defect")
      assert.strictEqual((yield* Effect.flip(w.store.read("r2")))._tag, "RunNotFound")
      assert.strictEqual(w.requests.length, 1)
    })
  )
})

describe("output", () => {
  it.effect("a valid submission completes the run, typed", () =>
    Effect.gen(function* () {
      const w = yield* world([call("submit_result", { file: "a.log", lines: 3 }, { id: "s" })])
      const done = yield* w.in(Agent.run(contract, "go", { runId: "r" }))
      assert.deepStrictEqual(done.output, { file: "a.log", lines: 3 })
      checkEnding(done, yield* w.journal(), "completed", "submitted")
      assert.include(w.requests[0]?.tools ?? [], "submit_result")
      assert.include(w.requests[0]?.tools ?? [], "request_input")
      assert.strictEqual(done.run.toolCalls, 0)
    })
  )

  it.effect("an output that is no object is submitted as `result`", () =>
    Effect.gen(function* () {
      const count = Agent.make("count", { output: Schema.Int })
      const w = yield* world([call("submit_result", { result: 42 }, { id: "s" })])
      const done = yield* w.in(Agent.run(count, "go", { runId: "r" }))
      assert.strictEqual(done.output, 42)
      const names = Agent.make("names", {
        output: Schema.Array(Schema.String)
      })
      const w2 = yield* world([call("submit_result", { result: ["a", "b"] }, { id: "s" })])
      assert.deepStrictEqual((yield* w2.in(Agent.run(names, "go", { runId: "r" }))).output, ["a", "b"])
      const union = Agent.make("union", {
        output: Schema.Union([Schema.Struct({ a: Schema.Int }), Schema.Struct({ b: Schema.String })])
      })
      const w3 = yield* world([call("submit_result", { result: { b: "x" } }, { id: "s" })])
      assert.deepStrictEqual((yield* w3.in(Agent.run(union, "go", { runId: "r" }))).output, { b: "x" })
    })
  )

  it.effect("an invalid submission is answered with what is wrong, and may be corrected", () =>
    Effect.gen(function* () {
      const w = yield* world([
        call("submit_result", { file: "a.log", lines: "three" }, { id: "s1" }),
        call("submit_result", "{not json", { id: "s2" }),
        call("submit_result", { file: "a.log", lines: 3 }, { id: "s3" })
      ])
      const done = yield* w.in(Agent.run(contract, "go", { runId: "r" }))
      assert.deepStrictEqual(done.output, { file: "a.log", lines: 3 })
      assert.strictEqual(done.run.turns, 3)
      assert.include(JSON.stringify(w.requests[1]?.messages.at(-1)), "lines")
      const results = of(yield* w.journal(), "tool_result")
      assert.deepStrictEqual(
        results.slice(0, 2).map(({ ok }) => ok),
        [false, false]
      )
    })
  )

  it.effect("prose alone does not complete: the model is told what is missing", () =>
    Effect.gen(function* () {
      const w = yield* world([text("It is a.log."), call("submit_result", { file: "a.log", lines: 3 })])
      const done = yield* w.in(Agent.run(contract, "go", { runId: "r" }))
      assert.strictEqual(done.run.turns, 2)
      assert.strictEqual(w.requests[1]?.messages.at(-1)?.role, "user")
      assert.include(lastText(w), "submit_result")
      checkEnding(done, yield* w.journal(), "completed", "submitted")
    })
  )

  it.effect("prose for ever ends at the turn limit", () =>
    Effect.gen(function* () {
      const w = yield* world([text("a"), text("b"), text("c")])
      const exit = yield* w.in(Agent.outcome(Agent.run(contract, "go", { runId: "r", limits: { turns: 3 } })))
      checkEnding(exit, yield* w.journal(), "max_turns_exceeded", "max_turns")
    })
  )

  it.effect("the siblings of a submission run first, writers too, even at the last turn", () =>
    Effect.gen(function* () {
      const w = yield* world([
        turn(
          call("submit_result", { file: "a.log", lines: 3 }, { id: "s" }),
          call("write_file", { path: "b" }, { id: "w" }),
          call("read_file", { path: "gone" }, { id: "x" })
        )
      ])
      const done = yield* w.in(Agent.run(contract, "go", { runId: "r", limits: { turns: 1 } }))
      assert.deepStrictEqual(done.output, { file: "a.log", lines: 3 })
      assert.sameMembers([...w.work.started], ["write_file b", "read_file gone"])
      checkEnding(done, yield* w.journal(), "completed", "submitted")
    })
  )

  it.effect(
    "a sibling that needs approval is decided first; then the run completes without a model call",
    () =>
      Effect.gen(function* () {
        const w = yield* world([
          turn(
            call("submit_result", { file: "a.log", lines: 3 }, { id: "s" }),
            call("delete_file", { path: "b" }, { id: "d" })
          )
        ])
        const exit = yield* w.in(Agent.outcome(Agent.run(contract, "go", { runId: "r" })))
        assert(exit._tag === "ApprovalRequired")
        yield* w.in(Agent.decide(exit.calls[0], Agent.approve()))
        const done = yield* w.in(Agent.resume(contract, "r"))
        assert.deepStrictEqual(done.output, { file: "a.log", lines: 3 })
        assert.deepStrictEqual(w.work.started, ["delete_file b"])
        assert.strictEqual(w.requests.length, 1)
        checkEnding(done, yield* w.journal(), "completed", "submitted")
      })
  )

  it.effect("of two submissions in one turn one counts, and both have a result", () =>
    Effect.gen(function* () {
      const w = yield* world([
        turn(
          call("submit_result", { file: "a", lines: 1 }, { id: "s1" }),
          call("submit_result", { file: "b", lines: 2 }, { id: "s2" })
        )
      ])
      const done = yield* w.in(Agent.run(contract, "go", { runId: "r" }))
      assert.include(["a", "b"], done.output.file)
      checkEnding(done, yield* w.journal(), "completed", "submitted")
    })
  )

  it.effect("an agent without a contract does not offer its tools", () =>
    Effect.gen(function* () {
      const w = yield* world([text("done")])
      yield* w.in(Agent.run(agent, "go", { runId: "r" }))
      assert.notInclude(w.requests[0]?.tools ?? [], "submit_result")
      assert.notInclude(w.requests[0]?.tools ?? [], "request_input")
    })
  )
})

describe("request_input", () => {
  const asking = [
    turn(
      call("request_input", { question: "Which year?" }, { id: "q" }),
      call("read_file", { path: "a" }, { id: "c" })
    ),
    call("submit_result", { file: "a.log", lines: 3 }, { id: "s" })
  ]

  it.effect("stops for a person with the question; resume answers it", () =>
    Effect.gen(function* () {
      const w = yield* world(asking)
      const exit = yield* w.in(Agent.outcome(Agent.run(contract, "go", { runId: "r" })))
      assert(exit._tag === "InputRequired")
      assert.strictEqual(exit.question, "Which year?")
      assert.strictEqual(exit.runId, "r")
      assert.strictEqual(exit.callId, "q")
      assert.include(exit.message, "Which year?")
      const journal = yield* w.journal()
      checkEnding(exit, journal, "interrupted", "input")
      assert.deepStrictEqual(
        of(journal, "input_required").map(({ callId, question }) => [callId, question]),
        [["q", "Which year?"]]
      )
      assert.deepStrictEqual(w.work.started, ["read_file a"])

      const done = yield* w.in(Agent.resume(contract, "r", { message: "1999" }))
      assert.deepStrictEqual(done.output, { file: "a.log", lines: 3 })
      assert.deepStrictEqual(w.work.started, ["read_file a"])
      assert.include(JSON.stringify(w.requests[1]?.messages), "1999")
      assert.notInclude(
        (w.requests[1]?.messages ?? []).map(({ role }) => role).slice(2),
        "user",
        "the answer is the call's result, and nothing besides"
      )
      const after = yield* w.journal()
      assert.deepStrictEqual(
        of(after, "input_given").map(({ answer, callId }) => [callId, answer]),
        [["q", "1999"]]
      )
      checkEnding(done, after, "completed", "submitted")
    })
  )

  it.effect("a resume without an answer asks again, at no cost", () =>
    Effect.gen(function* () {
      const w = yield* world(asking)
      yield* w.in(Agent.outcome(Agent.run(contract, "go", { runId: "r" })))
      const again = yield* w.in(Agent.outcome(Agent.resume(contract, "r")))
      assert(again._tag === "InputRequired")
      assert.strictEqual(again.question, "Which year?")
      assert.strictEqual(w.requests.length, 1)
      checkEnding(again, yield* w.journal(), "interrupted", "input")
    })
  )

  it.effect("an answer sent to the inbox counts as well", () =>
    Effect.gen(function* () {
      const w = yield* world(asking)
      yield* w.in(Agent.outcome(Agent.run(contract, "go", { runId: "r" })))
      yield* w.store.send("r", {
        type: "answer",
        callId: "q",
        answer: "1999",
        by: "ann"
      })
      const done = yield* w.in(Agent.resume(contract, "r"))
      assert.strictEqual(done._tag, "Completed")
      assert.strictEqual(of(yield* w.journal(), "input_given")[0]?.by, "ann")
    })
  )

  it.effect("a question with wrong arguments is answered in words", () =>
    Effect.gen(function* () {
      const w = yield* world([
        call("request_input", { ask: 1 }, { id: "q" }),
        call("submit_result", { file: "a", lines: 1 }, { id: "s" })
      ])
      const done = yield* w.in(Agent.run(contract, "go", { runId: "r" }))
      assert.strictEqual(done.run.turns, 2)
      assert.include(JSON.stringify(w.requests[1]?.messages.at(-1)), "question")
      yield* w.journal()
    })
  )

  it.effect("with an approval at the same time the approval comes first, then the question", () =>
    Effect.gen(function* () {
      const w = yield* world([
        turn(
          call("request_input", { question: "Which year?" }, { id: "q" }),
          call("delete_file", { path: "a" }, { id: "d" })
        ),
        call("submit_result", { file: "a.log", lines: 3 }, { id: "s" })
      ])
      const one = yield* w.in(Agent.outcome(Agent.run(contract, "go", { runId: "r" })))
      assert.include(["ApprovalRequired", "InputRequired"], one._tag)
      assert.strictEqual(one.run.pending.length, 2)
      const call0 = one.run.pending.find(({ callId }) => callId === "d")
      assert.isDefined(call0)
      yield* w.in(Agent.decide({ runId: "r", callId: "d" }, Agent.reject()))
      const done = yield* w.in(Agent.resume(contract, "r", { message: "1999" }))
      assert.strictEqual(done._tag, "Completed")
      assert.deepStrictEqual(w.work.started, [])
      checkEnding(done, yield* w.journal(), "completed", "submitted")
    })
  )
})

describe("provide", () => {
  it.effect("an agent's own model wins over the one around the run", () =>
    Effect.gen(function* () {
      const outer = yield* world([text("outer")])
      const inner = yield* world([text("inner")])
      const own = Agent.make("own").pipe(Agent.provide(inner.model))
      const { output } = yield* outer.in(Agent.run(own, "go", { runId: "r" }))
      assert.strictEqual(output, "inner")
      assert.strictEqual(outer.requests.length, 0)
      yield* outer.journal()
    })
  )
})

describe("interruption", () => {
  it.effect("is cancellation: outcome does not turn it into a value", () =>
    Effect.gen(function* () {
      const w = yield* world([text("done")], { latency: "5 seconds" })
      const fiber = yield* Effect.forkChild(w.in(Agent.outcome(Agent.run(agent, "go", { runId: "r" }))), {
        startImmediately: true
      })
      yield* until(() => w.requests.length === 1)
      yield* Fiber.interrupt(fiber)
      const exit = yield* Fiber.await(fiber)
      assert(Exit.isFailure(exit))
      assert.isTrue(Cause.hasInterruptsOnly(exit.cause))
      assert.strictEqual(last(yield* w.journal(), "run_stopped").reason, "cancelled")
    })
  )
})
