import { assert, describe, it } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { Agent } from "../../src/index.ts"
import * as Signature from "../../src/loop/Signature.ts"
import { call, last, of, outcomeDuring, text, world } from "./modelSupport.ts"

const signature = (fields: Schema.Struct.Fields) =>
  Signature.of(Tool.make("t", { parameters: Schema.Struct(fields) }))

interface Tree {
  readonly value: string
  readonly children: ReadonlyArray<Tree>
}
const Tree = Schema.Struct({
  value: Schema.String,
  children: Schema.Array(Schema.suspend((): Schema.Codec<Tree> => Tree))
}).annotate({ identifier: "Tree" })

describe("the signature of a tool", () => {
  it("has names and types, and what is needed first", () => {
    assert.strictEqual(
      signature({
        lines: Schema.optionalKey(Schema.Int),
        path: Schema.String,
        mode: Schema.Literals(["text", "binary"]),
        tags: Schema.Array(Schema.Union([Schema.String, Schema.Finite])),
        since: Schema.DateFromString,
        "max size": Schema.NullOr(Schema.Finite),
        deep: Schema.Boolean
      }),
      '{ path: string, mode: "text" | "binary", tags: (string | number)[], since: string, "max size": number | null, deep: boolean, lines?: integer }'
    )
  })

  it("shows what is inside: objects, records, tuples, and what refers to itself as far as it is useful", () => {
    assert.strictEqual(
      signature({
        range: Schema.Struct({ from: Schema.Int, to: Schema.optionalKey(Schema.Int) }),
        names: Schema.Record(Schema.String, Schema.String),
        at: Schema.Tuple([Schema.Int, Schema.String])
      }),
      "{ range: { from: integer, to?: integer }, names: { [name]: string }, at: [integer, string] }"
    )
    assert.strictEqual(signature({ tree: Tree }), "{ tree: { value: string, children: Tree[] } }")
  })

  it("of a tool that takes nothing says so", () => {
    assert.strictEqual(Signature.of(Tool.make("t")), "{}")
  })

  it("of a tool of which only the JSON schema is known is read off that", () => {
    const schema = {
      type: "object",
      properties: { q: { type: ["string", "null"] }, any: {}, one: { const: 1 } },
      required: ["q"]
    }
    assert.strictEqual(Signature.ofJsonSchema(schema), "{ q: string | null, any?: any, one?: 1 }")
    assert.strictEqual(Signature.ofJsonSchema({}), "any")
  })

  it("is never longer than 600 characters: the details go first, what is needed last", () => {
    const many = (schema: Schema.Top, count: number) =>
      Object.fromEntries(Array.from({ length: count }, (_, i) => [`field${i}`, schema]))
    const nested = signature({ id: Schema.Int, more: Schema.Struct(many(Schema.String, 60)) })
    assert.strictEqual(nested, "{ id: integer, more: object }")
    const wide = signature({ ...many(Schema.optionalKey(Schema.String), 60), id: Schema.Int })
    assert.strictEqual(wide?.length, 600)
    assert.match(wide ?? "", /^\{ id: integer, field0\?: string, .* …$/)
  })
})

describe("wrong arguments", () => {
  const Find = Tool.make("find", {
    parameters: Schema.Struct({ name: Schema.String, limit: Schema.optionalKey(Schema.Int) }),
    success: Schema.String
  }).annotate(Tool.Readonly, true)
  const toolkit = Toolkit.make(Find)
  let ran = 0
  const finder = Agent.make("finder", { toolkit, limits: { usd: 100 } }).pipe(
    Agent.provide(toolkit.toLayer({ find: ({ name }) => Effect.sync(() => `${name} ${++ran}`) }))
  )
  const takes = "find takes { name: string, limit?: integer }."

  it.effect("are answered with the problem and what is right, so that the next call can be", () =>
    Effect.gen(function* () {
      const w = yield* world([
        call("find", { nme: "a" }, { id: "a" }),
        call("find", "{not json", { id: "b" }),
        call("find", { name: "a" }, { id: "c" }),
        text("done")
      ])
      const exit = yield* outcomeDuring(1_000, w.in(Agent.run(finder, "go", { runId: "r" })))
      assert.strictEqual(exit._tag, "Completed")
      const events = yield* w.journal()
      const [first, second, third] = of(events, "tool_result")
      assert.match(first?.content ?? "", /do not fit find\. It did not run\. .*name/s)
      assert.isTrue(first?.content.endsWith(takes))
      assert.isTrue(second?.content.endsWith(takes))
      assert.strictEqual(third?.content, "a 1")
      assert.strictEqual(w.requests[1]?.messages.at(-1)?.content, first?.content)
    })
  )

  it.effect("to the same tool count as one mistake, whatever they are, and stop the run", () =>
    Effect.gen(function* () {
      const w = yield* world([1, 2, 3, 4, 5, 6].map((n) => call("find", { [`wrong${n}`]: n })))
      const exit = yield* outcomeDuring(1_000, w.in(Agent.run(finder, "go", { runId: "r" })))
      assert.strictEqual(exit._tag, "RunStalled")
      assert.strictEqual(last(yield* w.journal(), "run_stopped").turns, 5)
    })
  )
})
