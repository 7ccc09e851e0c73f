import { describe, expect, it } from "@effect/vitest"
import * as Arbitrary from "effect/Arbitrary"
import * as Schema from "effect/Schema"
import * as Completion from "../../src/provider/Completion.ts"

const chunkOf = Schema.decodeUnknownSync(Completion.Chunk)
const replyOf = Schema.decodeUnknownSync(Completion.Completion)

/** What a streamed reply comes to, each delta in an event of its own. */
const assembled = (deltas: ReadonlyArray<object>) => {
  const assembler = new Completion.Assembler()
  const parts = deltas.flatMap((delta) => assembler.push(chunkOf({ choices: [{ index: 0, delta }] })))
  return [...parts, ...assembler.end()]
}

const callsIn = (parts: ReadonlyArray<{ readonly type: string }>) =>
  parts.filter((part) => part.type === "tool-call")

interface Piece {
  readonly index?: number
  readonly id?: string
  readonly function: { readonly name?: string; readonly arguments: string }
}

const small = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 40 }))
const Call = Schema.Struct({
  index: Schema.NullOr(Schema.Literals([0, 1, 2, 5, 9])),
  q: Schema.String,
  cuts: Schema.Array(small).check(Schema.isMaxLength(3)),
  // Some endpoints make up an id for every piece.
  fresh: Schema.Boolean
})

const piecesOf = (call: typeof Call.Type, id: string, alone: boolean): ReadonlyArray<Piece> => {
  const text = JSON.stringify({ q: call.q })
  const ends = [...call.cuts.map((cut) => cut % text.length), text.length].sort((a, b) => a - b)
  return ends.map((end, n) => ({
    ...(call.index === null ? undefined : { index: call.index }),
    ...(n === 0 || !alone ? { id } : call.fresh ? { id: `${id}-${n}` } : undefined),
    function: {
      ...(n === 0 ? { name: `tool_${id}` } : undefined),
      arguments: text.slice(ends[n - 1] ?? 0, end)
    }
  }))
}

describe("the calls of a streamed reply", () => {
  it.prop(
    "are the same in whatever order the pieces of different calls arrive: by index, then those without one",
    {
      calls: Arbitrary.schema(Schema.Array(Call).check(Schema.isMaxLength(5))),
      picks: Arbitrary.schema(Schema.Array(small).check(Schema.isMaxLength(30)))
    },
    ({ calls, picks }) => {
      const all = calls.map((call, n) => {
        // Under an index that others have too, or none, only the id says whose a piece is.
        const alone = call.index !== null && calls.filter(({ index }) => index === call.index).length === 1
        const id = `c${n}`
        return { call, id, left: [...piecesOf(call, id, alone)] }
      })
      const arrived: Array<Piece> = []
      const begun: Array<(typeof all)[number]> = []
      for (let n = 0; all.some(({ left }) => left.length > 0); n++) {
        const open = all.filter(({ left }) => left.length > 0)
        const next = open[(picks[n] ?? 0) % open.length]
        const piece = next?.left.shift()
        if (next === undefined || piece === undefined) break
        if (!begun.includes(next)) begun.push(next)
        arrived.push(piece)
      }
      const rank = ({ call }: (typeof all)[number]) => call.index ?? Number.POSITIVE_INFINITY
      const expected = begun
        .toSorted((a, b) => (rank(a) === rank(b) ? 0 : rank(a) - rank(b)))
        .map(({ call, id }) => ({ type: "tool-call", id, name: `tool_${id}`, params: { q: call.q } }))
      expect(callsIn(assembled(arrived.map((piece) => ({ tool_calls: [piece] }))))).toEqual(expected)
    },
    { arbitrary: { runs: 500, size: 30 } }
  )

  it.each<[string, ReadonlyArray<object>, ReadonlyArray<readonly [string, unknown]>]>([
    [
      "without ids, all under index 0, each named",
      [
        { index: 0, function: { name: "list", arguments: "{}" } },
        { index: 0, function: { name: "list", arguments: '{"q":' } },
        { index: 0, function: { arguments: "1}" } },
        { index: 0, id: "", function: { name: "read", arguments: "{}" } }
      ],
      [
        ["list", {}],
        ["list", { q: 1 }],
        ["read", {}]
      ]
    ],
    [
      "whose id comes later, and whose name comes again",
      [
        { index: 0, function: { name: "read", arguments: "" } },
        { index: 0, id: "a", function: { name: "read", arguments: '{"q":' } },
        { index: 0, id: "a", function: { name: "read", arguments: "1}" } },
        { index: 0, id: "a", function: { name: "read", arguments: "" } }
      ],
      [["read", { q: 1 }]]
    ],
    [
      "in pieces that each have another id, and with an empty name or none",
      [
        { index: 0, id: "a", function: { name: "read", arguments: "" } },
        { index: 0, id: "b", function: { name: "", arguments: '{"q":' } },
        { index: 0, id: "c", function: { arguments: "1}" } },
        { index: 0, id: "d", function: { name: null, arguments: null } }
      ],
      [["read", { q: 1 }]]
    ],
    [
      "in pieces that each have another id, and no index",
      [
        { id: "a", function: { name: "read", arguments: "" } },
        { id: "b", function: { name: "", arguments: '{"q":' } },
        { id: "c", function: { arguments: "1}" } },
        { id: "d", function: { name: "list", arguments: "" } },
        { id: "e", function: { arguments: "{}" } }
      ],
      [
        ["read", { q: 1 }],
        ["list", {}]
      ]
    ],
    ...[0, null].map((index): [string, ReadonlyArray<object>, ReadonlyArray<[string, unknown]>] => [
      `whose id comes first and whose name later, under index ${index}`,
      [
        { index, id: "a", function: { arguments: "" } },
        { index, function: { name: "read", arguments: '{"q":' } },
        { index, function: { arguments: "1}" } },
        { index, id: "b", function: { arguments: "" } },
        { index, function: { name: "list", arguments: "{}" } }
      ],
      [
        ["read", { q: 1 }],
        ["list", {}]
      ]
    ]),
    [
      "with one id under two indexes",
      [
        { index: 1, id: "a", function: { name: "read", arguments: "{}" } },
        { index: 0, id: "a", function: { name: "list", arguments: "{}" } }
      ],
      [
        ["list", {}],
        ["read", {}]
      ]
    ],
    [
      "with arguments that are no text",
      [{ index: 0, id: "a", function: { name: "read", arguments: { q: [1] } } }],
      [["read", { q: [1] }]]
    ],
    [
      "in the form that calls once had",
      [
        { content: null, function_call: { name: "read", arguments: "" } },
        { function_call: { arguments: '{"q":' } },
        { function_call: { arguments: "1}" } }
      ],
      [["read", { q: 1 }]]
    ]
  ])("that come %s", (_, given, expected) => {
    const parts = assembled(
      given.map((piece) => ("function_call" in piece ? piece : { tool_calls: [piece] }))
    )
    expect(parts.flatMap((part) => (part.type === "tool-call" ? [[part.name, part.params]] : []))).toEqual(
      expected
    )
    expect(parts.at(-1)).toMatchObject({ type: "finish", reason: "tool-calls" })
  })
})

describe("of several choices, the one with index 0 is the reply", () => {
  const deletes = [{ index: 0, id: "b", function: { name: "delete_all", arguments: "{}" } }]
  const usage = { prompt_tokens: 3, completion_tokens: 4 }

  const streamed = (...events: ReadonlyArray<object>) => {
    const assembler = new Completion.Assembler()
    const parts = events.flatMap((event) => assembler.push(chunkOf(event)))
    return { finished: assembler.finished, parts: [...parts, ...assembler.end()] }
  }
  const textIn = (parts: ReadonlyArray<object>) =>
    parts.flatMap((part) => ("delta" in part ? [part.delta] : [])).join("")

  it("in a stream, whatever is in the same event and whichever comes first", () => {
    const { parts } = streamed(
      { choices: [] },
      { choices: [{ index: 1, delta: { content: "No" } }] },
      {
        choices: [
          { index: 1, delta: { tool_calls: deletes } },
          { index: 0, delta: { content: "Yes" } }
        ]
      },
      { choices: [{ index: 1, delta: {}, finish_reason: "tool_calls" }] },
      { choices: [{ index: 0, delta: { content: "!" }, finish_reason: "length" }] },
      { choices: [], usage }
    )
    expect([textIn(parts), callsIn(parts)]).toEqual(["Yes!", []])
    expect(parts.at(-1)).toMatchObject({
      reason: "length",
      usage: { inputTokens: { total: 3 }, outputTokens: { total: 4 } }
    })
  })

  it("and a stream has not ended when another has", () => {
    const another = { choices: [{ index: 1, delta: {}, finish_reason: "stop" }] }
    expect(streamed({ choices: [{ index: 0, delta: { content: "Yes" } }] }, another).finished).toBe(false)
  })

  it("in a whole reply, and without any index the first", () => {
    const no = { message: { content: "No", tool_calls: deletes }, finish_reason: "tool_calls" }
    const yes = { message: { content: "Yes" }, finish_reason: "stop" }
    for (const choices of [
      [yes, no],
      [
        { ...no, index: 1 },
        { ...yes, index: 0 }
      ]
    ]) {
      const parts = Completion.parts(replyOf({ choices, usage }))
      expect(parts.filter(({ type }) => type === "text" || type === "tool-call")).toEqual([
        { type: "text", text: "Yes" }
      ])
      expect(parts.at(-1)).toMatchObject({ reason: "stop", usage: { outputTokens: { total: 4 } } })
    }
  })
})
