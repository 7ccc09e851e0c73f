import { describe, expect, it } from "@effect/vitest"
import * as Prompt from "effect/ai/Prompt"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { vi } from "vitest"
import { Agent, type RunState, ToolFailure } from "../../src/index.ts"
import { toPrompt } from "../../src/loop/Transcript.ts"
import * as Wire from "../../src/provider/Wire.ts"
import { calls, finish as ends, packageModel, says } from "./packageModel.ts"
import { check, expectTag, finish, reader, resultOf, results } from "./support.ts"

const brings = <const Name extends string, S extends Schema.Codec<unknown, unknown>>(
  name: Name,
  success: S
) => Tool.make(name, { success }).annotate(Tool.Readonly, true)

const Invoice = Schema.Struct({
  id: Schema.String,
  lines: Schema.Array(Schema.Finite),
  paid: Schema.NullOr(Schema.Date)
})
const due = new Date("2026-01-02T03:04:05.000Z")

const Structured = Toolkit.make(
  brings("object", Invoice),
  brings("array", Schema.Array(Schema.Struct({ path: Schema.String }))),
  brings("empty", Schema.Struct({})),
  brings("number", Schema.Finite),
  brings("boolean", Schema.Boolean),
  brings("nothing", Schema.Null),
  brings("words", Schema.String),
  brings("lines", Schema.String),
  brings("spaced", Schema.String),
  brings("log", Schema.String),
  brings("quoted", Schema.String),
  brings("long", Schema.String)
)

/** What each of them brings, as its schema encodes it: what effect itself would hand to a package. */
const encoded = {
  object: { id: 'a "7"', lines: [1, 2.5, -3e21], paid: due.toISOString() },
  array: [{ path: "ä😀.log" }, { path: "" }],
  empty: {},
  number: -2.5,
  boolean: false,
  nothing: null,
  words: "two\nlines",
  lines: '{"a":1}\n{"b":2}',
  spaced: '{ "a": 1 }',
  log: "[2026-01-02] gone]",
  quoted: '"a"',
  long: "12345678901234567890"
}

const handlers = Structured.toLayer({
  object: () => Effect.succeed({ ...encoded.object, paid: due }),
  array: () => Effect.succeed(encoded.array),
  empty: () => Effect.succeed({}),
  number: () => Effect.succeed(encoded.number),
  boolean: () => Effect.succeed(false),
  nothing: () => Effect.succeed(null),
  words: () => Effect.succeed(encoded.words),
  lines: () => Effect.succeed(encoded.lines),
  spaced: () => Effect.succeed(encoded.spaced),
  log: () => Effect.succeed(encoded.log),
  quoted: () => Effect.succeed(encoded.quoted),
  long: () => Effect.succeed(encoded.long)
})

const names = Object.keys(encoded)
const each = calls(Object.fromEntries(names.map((name) => [name, [name] as const])))
const once = Object.fromEntries(Object.entries(encoded).map(([name, value]) => [name, JSON.stringify(value)]))

/** The words that the run's transcript has for each call. */
const said = (exit: { readonly run: RunState.RunState }): Record<string, string> =>
  Object.fromEntries(Object.entries(results(exit.run.messages)).map(([id, { content }]) => [id, content]))

const texts = (words: Record<string, string>): Record<string, string> =>
  Object.fromEntries(Object.entries(words).map(([id, text]) => [id, JSON.stringify(text)]))

describe("the result of a tool, in a package that writes it out as JSON", () => {
  check("is encoded once, whatever its schema makes of it", function* () {
    const bot = packageModel([each, says("done")])
    const agent = Agent.make("a", { toolkit: Structured }).pipe(
      Agent.provide(handlers),
      Agent.provide(bot.layer)
    )
    expectTag((yield* finish(Agent.run(agent, "go", { runId: "r" }))).exit, "Completed")
    expect(bot.wire()).toEqual(once)
  })

  check("is encoded once in a streamed run, too", function* () {
    const bot = packageModel([each, says("done")])
    const agent = Agent.make("a", { toolkit: Structured }).pipe(
      Agent.provide(handlers),
      Agent.provide(bot.layer)
    )
    yield* Stream.runDrain(Agent.stream(agent, "go"))
    expect(bot.wire()).toEqual(once)
  })

  check("is encoded once after a resume from the store", function* () {
    const first = packageModel([each])
    const second = packageModel([])
    const agent = Agent.make("a", { toolkit: Structured }).pipe(Agent.provide(handlers))
    const limited = Agent.run(agent, "go", { runId: "r", limits: { turns: 1 } })
    expectTag((yield* finish(Effect.provide(limited, first.layer))).exit, "MaxTurnsExceeded")
    const resumed = Effect.provide(Agent.resume(agent, "r", { limits: { turns: 9 } }), second.layer)
    expectTag((yield* finish(resumed)).exit, "Completed")
    expect(second.wire()).toEqual(once)
  })

  check("is what a sub-agent has answered: its text, or its output", function* () {
    const Report = Schema.Struct({ files: Schema.Array(Schema.String) })
    const prose = packageModel([says("Nothing found.")])
    const report = packageModel([calls({ s: ["submit_result", { files: ["a.log"] }] })])
    const talker = Agent.asTool(Agent.make("talker").pipe(Agent.provide(prose.layer)), {
      name: "talk",
      description: "Talks."
    })
    const reporter = Agent.asTool(
      Agent.make("reporter", { output: Report }).pipe(Agent.provide(report.layer)),
      {
        name: "report",
        description: "Reports.",
        success: Report
      }
    )
    const bot = packageModel([calls({ t: ["talk", { task: "x" }], r: ["report", { task: "x" }] })])
    const lead = Agent.make("lead", { toolkit: Toolkit.make(talker.tool, reporter.tool) }).pipe(
      Agent.provide(talker.layer),
      Agent.provide(reporter.layer),
      Agent.provide(bot.layer)
    )
    expectTag((yield* finish(Agent.run(lead, "go", { runId: "r" }))).exit, "Completed")
    expect(bot.wire()).toEqual({ t: '"Nothing found."', r: '{"files":["a.log"]}' })
  })

  check("is words where it failed or was refused", function* () {
    const Asks = Tool.make("asks", { success: Schema.Finite, needsApproval: true })
    const Fails = Tool.make("fails", {
      success: Schema.Finite,
      failure: Schema.Struct({ code: Schema.Finite })
    })
    const tools = Toolkit.make(reader("read"), Asks, Fails)
    const bot = packageModel([
      calls({
        unknown: ["nope"],
        wrong: ["read", { q: 7 }],
        broken: ["read", '{"q'],
        failed: ["read", { q: "x" }],
        coded: ["fails"],
        rejected: ["asks"]
      })
    ])
    const agent = Agent.make("a", { toolkit: tools }).pipe(
      Agent.provide(
        tools.toLayer({
          read: () => Effect.fail(ToolFailure.recoverable("no such file")),
          asks: () => Effect.succeed(1),
          fails: () => Effect.fail({ code: 7 })
        })
      ),
      Agent.provide(bot.layer)
    )
    expectTag((yield* finish(Agent.run(agent, "go", { runId: "r" }))).exit, "ApprovalRequired")
    yield* Agent.decide({ runId: "r", callId: "rejected" }, Agent.reject("no"))
    const { exit } = yield* finish(Agent.resume(agent, "r"))
    expectTag(exit, "Completed")
    const words = said(exit)
    expect(Object.keys(words).sort()).toEqual(["broken", "coded", "failed", "rejected", "unknown", "wrong"])
    expect(bot.wire()).toEqual(texts(words))
  })

  check("is mapped once, however many turns follow", function* () {
    const bot = packageModel([each, calls({ c2: ["words"] }), calls({ c3: ["log"] }), says("done")])
    const agent = Agent.make("a", { toolkit: Structured }).pipe(
      Agent.provide(handlers),
      Agent.provide(bot.layer)
    )
    yield* finish(Agent.run(agent, "go", { runId: "r" }))
    const [, second, third, fourth] = bot.prompts
    expect(fourth?.content.length).toBeGreaterThan(third?.content.length ?? 0)
    second?.content.forEach((message, index) => {
      expect(fourth?.content[index]).toBe(message)
    })
  })
})

describe("the result of a tool, in the chat-completions format", () => {
  const deep = `${"[".repeat(300)}1${"]".repeat(300)}`
  const odd = [
    "",
    "-",
    "-0",
    "1e400",
    "0x1",
    "nul",
    "{",
    "{}x",
    '{"b":1,"1":2}',
    '{"a":1,"a":2}',
    '{"__proto__":1}',
    deep
  ]
  it("is the very text of the transcript", () => {
    const contents = [
      ...Object.values(once),
      ...Object.values(texts(once)),
      ...odd,
      "Error: the tool failed."
    ]
    for (const content of contents) {
      const message = toPrompt({ role: "tool", callId: "c", tool: "t", ok: true, content }, {})
      expect(Wire.messages([message])).toEqual([{ role: "tool", tool_call_id: "c", name: "t", content }])
    }
  })

  it("is not worked out anew from the value, which nobody asks for", () => {
    const content = JSON.stringify(encoded.array)
    const message = toPrompt({ role: "tool", callId: "c", tool: "t", ok: true, content }, {})
    const parse = vi.spyOn(JSON, "parse")
    const [wire] = Wire.messages([message])
    expect([wire?.content, parse.mock.calls]).toEqual([content, []])
    parse.mockRestore()
  })

  it("is what somebody has put in its place on the way to the model", () => {
    const message = toPrompt({ role: "tool", callId: "c", tool: "t", ok: true, content: '{"secret":1}' }, {})
    const redacted =
      message.role === "tool"
        ? Prompt.makeMessage("tool", {
            content: message.content.map((part) =>
              part.type === "tool-result" ? { ...part, result: { secret: "-" } } : part
            )
          })
        : message
    expect(Wire.messages([redacted])[0]?.content).toBe('{"secret":"-"}')
  })
})

describe("a call whose name the model has made up", () => {
  const Dotted = Toolkit.make(brings("files.list", Schema.String), brings("read", Schema.String))
  const dotted = Dotted.toLayer({
    "files.list": () => Effect.succeed("a.log"),
    read: () => Effect.succeed("text")
  })
  const accepted = /^[a-zA-Z0-9_-]{1,64}$/

  check(
    "is read back by an endpoint that takes no such name, and stands in the transcript as it is",
    function* () {
      const names = [
        "multi_tool_use.parallel",
        "functions.read",
        "",
        "x".repeat(65),
        "läs 😀",
        "a\ud83d",
        "n".repeat(1e6)
      ]
      const bot = packageModel([
        calls(Object.fromEntries(names.map((name, n) => [`c${n}`, [name]]))),
        calls({ own: ["files.list"] })
      ])
      const agent = Agent.make("a", { toolkit: Dotted }).pipe(Agent.provide(dotted), Agent.provide(bot.layer))
      const { exit } = yield* finish(Agent.run(agent, "go"))
      const sent = Wire.messages(bot.prompts.at(-1)?.content ?? [])
      const called = sent.flatMap((message) =>
        message.role === "assistant" ? (message.tool_calls ?? []).map((call) => call.function.name) : []
      )
      const answered = sent.flatMap((message) => (message.role === "tool" ? [message.name] : []))
      // A tool of the agent's is called what its author calls it.
      expect(called.at(-1)).toBe("files.list")
      expect(called.slice(0, -1).filter((name) => !accepted.test(name))).toEqual([])
      expect(called.slice(0, 2)).toEqual(["multi_tool_use_parallel", "functions_read"])
      expect(answered).toEqual(called)
      expect(Object.values(results(exit.run.messages)).map(({ tool }) => tool)).toEqual([
        ...names,
        "files.list"
      ])
      const longest = Math.max(
        ...Object.values(results(exit.run.messages)).map(({ content }) => content.length)
      )
      expect(longest).toBeLessThan(300)
    }
  )
})

describe("half a character", () => {
  const half = "The log: 😀".slice(0, 10)
  const Log = Toolkit.make(brings("log", Schema.String), brings("raw", Schema.Unknown))
  const log = Log.toLayer({ log: () => Effect.succeed(half), raw: () => Effect.succeed({ [half]: [half] }) })

  check("goes to no endpoint, wherever it was written", function* () {
    const metadata = { some: { [half]: [half, "\\ud83d"] } }
    const bot = packageModel([
      [
        { type: "reasoning", text: half, metadata },
        { type: "text", text: half },
        {
          type: "tool-call",
          id: "c1",
          name: "log",
          params: { [half]: [half, { deep: half, kept: "\\ud83d 😀" }] }
        },
        { type: "tool-call", id: "c0", name: "log", params: {} },
        { type: "tool-call", id: "c2", name: half, params: {} },
        { type: "tool-call", id: "c3", name: "raw", params: half },
        { type: "tool-call", id: "p", name: "raw", params: {}, providerExecuted: true },
        {
          type: "tool-result",
          id: "p",
          name: "raw",
          result: { half },
          isFailure: false,
          providerExecuted: true
        },
        ends("tool-calls")
      ]
    ])
    const agent = Agent.make("a", { toolkit: Log, instructions: half, policy: { modelRetries: 0 } }).pipe(
      Agent.provide(log),
      Agent.provide(bot.layer)
    )
    const { exit } = yield* finish(
      Agent.run(agent, [
        { role: "user", content: half },
        { role: "user", content: [{ type: "text", text: half }] }
      ])
    )
    const sent = JSON.stringify(bot.prompts.at(-1))
    expect(sent.replaceAll("\\\\", "")).not.toMatch(/\\ud[89a-f]/)
    expect(sent).toContain('"kept":"\\\\ud83d 😀"')
    expect(resultOf(exit, "c0").content).toBe(half)
  })
})
