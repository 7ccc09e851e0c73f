/**
 * What a model may give a tool: whatever the tool's JSON Schema, which is all that the model sees, promises to take. And
 * what it gets: the same form of it.
 */
import { describe, expect } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { Agent } from "../../src/index.ts"
import * as Scripted from "../../src/provider/Scripted.ts"
import { check, expectTag, finish, once, resultOf } from "./support.ts"

const date = new Date("2026-05-01T12:00:00.000Z")

class Point extends Schema.Class<Point>("Point")({ x: Schema.Int }) {}

type Given = Schema.Codec<unknown, unknown>

/** Types whose values JSON cannot carry as they are, with what a model gives for them and what the tool gets. */
const kinds: ReadonlyArray<readonly [name: string, schema: Given, given: Schema.Json, got: unknown]> = [
  ["a date", Schema.Date, date.toISOString(), date],
  ["a date that is text when encoded", Schema.DateFromString, date.toISOString(), date],
  ["a list of dates", Schema.Array(Schema.Date), [date.toISOString()], [date]],
  ["a bigint", Schema.BigInt, "12", 12n],
  ["a URL", Schema.URL, "https://example.org/", new URL("https://example.org/")],
  ["bytes", Schema.Uint8Array, "AQI=", new Uint8Array([1, 2])],
  ["a map", Schema.ReadonlyMap(Schema.String, Schema.Int), [["a", 1]], new Map([["a", 1]])],
  ["an option", Schema.Option(Schema.String), { _tag: "Some", value: "s" }, Option.some("s")],
  ["a duration", Schema.Duration, { _tag: "Millis", value: 5 }, Duration.millis(5)],
  ["what may be undefined", Schema.UndefinedOr(Schema.String), null, undefined],
  ["a number that is none", Schema.Number, "NaN", Number.NaN],
  ["a class", Point, { x: 1 }, new Point({ x: 1 })],
  ["anything", Schema.Unknown, { x: [1, null] }, { x: [1, null] }]
]

describe("an argument of a type that JSON cannot carry", () => {
  for (const [name, schema, given, got] of kinds) {
    for (const way of ["its layer", "handlers that are made before"]) {
      check(`${name} reaches a tool with ${way} as the tool's JSON Schema says`, function* () {
        const seen: Array<unknown> = []
        const tools = Toolkit.make(Tool.make("take", { parameters: Schema.Struct({ it: schema }) }))
        const handlers = tools.toLayer({ take: ({ it }) => Effect.sync(() => void seen.push(it)) })
        const bot = once(Scripted.call("take", { it: given }, { id: "c" }))
        const agent =
          way === "its layer"
            ? Agent.make("a", { toolkit: tools }).pipe(Agent.provide(handlers), Agent.provide(bot.layer))
            : Agent.make("a", { toolkit: yield* Effect.provide(tools, handlers) }).pipe(
                Agent.provide(bot.layer)
              )
        const { exit } = yield* finish(Agent.run(agent, "go", { runId: "r" }))
        expectTag(exit, "Completed")
        expect(resultOf(exit, "c").content).not.toMatch(/expected/i)
        expect(seen).toEqual([got])
      })
    }
  }

  check("may be null where the tool's JSON Schema says so of what may be left out", function* () {
    const seen: Array<unknown> = []
    const parameters = Schema.Struct({ note: Schema.optional(Schema.String) })
    const tools = Toolkit.make(Tool.make("take", { parameters }))
    const agent = Agent.make("a", { toolkit: tools }).pipe(
      Agent.provide(tools.toLayer({ take: ({ note }) => Effect.sync(() => void seen.push(note)) })),
      Agent.provide(
        once(Scripted.call("take", { note: null }, { id: "c" }), Scripted.call("take", {}, { id: "d" })).layer
      )
    )
    const { exit } = yield* finish(Agent.run(agent, "go", { runId: "r" }))
    expectTag(exit, "Completed")
    expect(seen).toEqual([undefined, undefined])
  })

  check("is what a person is asked about, and may give another of", function* () {
    const seen: Array<unknown> = []
    const parameters = Schema.Struct({ at: Schema.Date })
    const asks = Tool.make("take", {
      parameters,
      needsApproval: ({ at }) => {
        seen.push(at)
        return true
      }
    })
    const tools = Toolkit.make(asks)
    const agent = Agent.make("a", { toolkit: tools }).pipe(
      Agent.provide(tools.toLayer({ take: ({ at }) => Effect.sync(() => void seen.push(at)) })),
      Agent.provide(once(Scripted.call("take", { at: "2020-01-01T00:00:00.000Z" }, { id: "c" })).layer)
    )
    const { exit } = yield* finish(Agent.run(agent, "go", { runId: "r" }))
    const [asked] = expectTag(exit, "ApprovalRequired").calls
    yield* Agent.decide(asked, Agent.approve({ args: { at: date.toISOString() } }))
    expectTag((yield* finish(Agent.resume(agent, "r"))).exit, "Completed")
    expect(seen).toEqual([new Date("2020-01-01T00:00:00.000Z"), date])
  })
})

describe("a result of a type that JSON cannot carry", () => {
  const answering = Effect.fnUntraced(function* (schema: Given, result: unknown, way: string) {
    const tools = Toolkit.make(Tool.make("look", { success: schema }))
    const handlers = tools.toLayer({ look: () => Effect.succeed(result) })
    const bot = once(Scripted.call("look", {}, { id: "c" }))
    const agent =
      way === "its layer"
        ? Agent.make("a", { toolkit: tools }).pipe(Agent.provide(handlers), Agent.provide(bot.layer))
        : Agent.make("a", { toolkit: yield* Effect.provide(tools, handlers) }).pipe(Agent.provide(bot.layer))
    const { exit } = yield* finish(Agent.run(agent, "go", { runId: "r" }))
    expectTag(exit, "Completed")
    return resultOf(exit, "c")
  })

  for (const way of ["its layer", "handlers that are made before"]) {
    for (const [name, schema, given, got] of kinds) {
      check(`${name} from a tool with ${way} is what would be given for it`, function* () {
        const { content, ok } = yield* answering(Schema.Struct({ it: schema }), { it: got }, way)
        expect(ok).toBe(true)
        expect(JSON.parse(content)).toEqual({ it: given })
      })
    }

    check(`anything from a tool with ${way} is what JSON makes of it`, function* () {
      const { content } = yield* answering(Schema.Unknown, { at: date, note: undefined }, way)
      expect(JSON.parse(content)).toEqual({ at: date.toISOString() })
    })
  }

  check("is carried where it is the output of a sub-agent", function* () {
    const output = Schema.Struct({
      when: Schema.Date,
      counts: Schema.ReadonlyMap(Schema.String, Schema.BigInt)
    })
    const given = { when: date.toISOString(), counts: [["a", "1"]] }
    const child = Agent.make("child", { output }).pipe(
      Agent.provide(once(Scripted.call("submit_result", given)).layer)
    )
    const ask = Agent.asTool(child, { name: "ask", description: "Asks." })
    const lead = Agent.make("lead", { toolkit: Toolkit.make(ask.tool) }).pipe(
      Agent.provide(ask.layer),
      Agent.provide(once(Scripted.call("ask", { task: "count" }, { id: "c" })).layer)
    )
    const { exit } = yield* finish(Agent.run(lead, "go", { runId: "r" }))
    expect(JSON.parse(resultOf(exit, "c").content)).toEqual(given)
  })
})

describe("an argument of a type of which nothing says how JSON carries it", () => {
  class Socket {}
  const Opaque = Schema.instanceOf(Socket)

  const warningsOf = Effect.fnUntraced(function* (parameters: Readonly<Record<string, Given>>) {
    const logged: Array<string> = []
    const logger = Logger.make(({ message }) => void logged.push(String(message)))
    const tools = Toolkit.make(Tool.make("take", { parameters: Schema.Struct(parameters) }))
    const agent = Agent.make("a", { toolkit: tools, limits: { time: "1 minute" } }).pipe(
      Agent.provide(tools.toLayer({ take: () => Effect.void })),
      Agent.provide(once(Scripted.call("take", {})).layer)
    )
    const run = Effect.provide(Effect.exit(Agent.run(agent, "go")), Logger.layer([logger]))
    yield* run
    yield* run
    return logged
  })

  check("is named in the log, once, when the tool is first used", function* () {
    const logged = yield* warningsOf({ at: Schema.Struct({ socket: Opaque }), path: Schema.String })
    expect(logged).toHaveLength(1)
    expect(logged[0]).toContain("take as at.socket: its schema does not say how JSON carries it")
  })

  check("is nobody's trouble where it may be left out, or something else may be given", function* () {
    expect(yield* warningsOf({ a: Schema.optionalKey(Opaque), b: Schema.NullOr(Opaque) })).toEqual([])
    const each = Object.fromEntries(kinds.map(([, schema], index) => [`k${index}`, schema]))
    expect(yield* warningsOf(each)).toEqual([])
  })
})
