import { describe, expect, it } from "@effect/vitest"
import * as Prompt from "effect/ai/Prompt"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Tokens from "../../src/provider/Tokens.ts"
import type * as Wire from "../../src/provider/Wire.ts"
import { Files, toolResult, user } from "./support.ts"

const chars = [
  "a",
  "Z",
  "é",
  "e\u0301",
  "\u00a0",
  "\u00a0\u00a0",
  " ",
  "  ",
  "\n",
  "\t",
  '"',
  "'s",
  "{",
  "}",
  '{"',
  '"}',
  "[",
  "]",
  ",",
  ":",
  "\\",
  "/",
  "7",
  "1234",
  "😀",
  "中文",
  "don't",
  "ERROR",
  "<|endoftext|>",
  "\u0301",
  "—"
]
const Text = Schema.Array(Schema.Literals(chars)).pipe(Schema.check(Schema.isMaxLength(12)))
const Entry = Schema.Struct({
  role: Schema.Literals(["system", "user", "assistant", "calls", "tool"]),
  text: Text,
  id: Text
})

const toWire = ({ role, text, id }: typeof Entry.Type): Wire.Message => {
  const content = text.join("")
  switch (role) {
    case "system":
    case "user":
      return { role, content }
    case "assistant":
      return { role, content }
    case "calls":
      return {
        role: "assistant",
        content: null,
        tool_calls: [
          {
            id: id.join(""),
            type: "function",
            function: { name: "read", arguments: JSON.stringify({ path: content }) }
          }
        ]
      }
    case "tool":
      return { role, tool_call_id: id.join(""), name: "read", content }
  }
}

describe("Tokens", () => {
  it.effect.prop(
    "a growing transcript counts as its whole JSON text does",
    { entries: Schema.Array(Entry).pipe(Schema.check(Schema.isMaxLength(6))) },
    ({ entries }) =>
      Effect.gen(function* () {
        const all = entries.map(toWire)
        for (let length = 0; length <= all.length; length++) {
          const some = all.slice(0, length)
          const whole = yield* Tokens.countText(JSON.stringify(some))
          const noTools = yield* Tokens.countText("[]")
          expect(yield* Tokens.countWireRequest(some, [])).toBe(whole + noTools)
        }
      }),
    { arbitrary: { runs: 1_500 } }
  )

  it.effect("counts replies of the plan script as published", () =>
    Effect.gen(function* () {
      expect(yield* Tokens.countReply("", [{ id: "c1", name: "list_files", params: {} }])).toBe(23)
      expect(
        yield* Tokens.countReply("", [{ id: "c2", name: "read_file", params: { path: "errors.log" } }])
      ).toBe(29)
      expect(
        yield* Tokens.countReply("errors.log mentions a timeout: worker 7 timed out after 30000 ms.", [])
      ).toBe(18)
    })
  )

  it.effect("adds 65 tokens for the first call of the plan script and its result", () =>
    Effect.gen(function* () {
      const start = [user("Which log file mentions a timeout?")]
      const before = yield* Tokens.countRequest(start, Object.values(Files.tools))
      const after = yield* Tokens.countRequest(
        [
          ...start,
          Prompt.makeMessage("assistant", {
            content: [
              Prompt.makePart("tool-call", {
                id: "c1",
                name: "list_files",
                params: {},
                providerExecuted: false
              })
            ]
          }),
          toolResult("c1", "list_files", ["access.log", "errors.log", "notes.txt"])
        ],
        Object.values(Files.tools)
      )
      expect(after - before).toBe(65)
    })
  )

  it.effect("counts text that names special tokens as text", () =>
    Effect.gen(function* () {
      expect(yield* Tokens.countText("<|endoftext|>")).toBeGreaterThan(1)
    })
  )

  it.effect("takes an endless run of one letter in its stride", () =>
    Effect.gen(function* () {
      expect(yield* Tokens.countText("a".repeat(100_000))).toBe(12_500)
    })
  )

  it.live("lets other fibers go on while a long text without a word boundary is counted", () =>
    Effect.gen(function* () {
      yield* Tokens.load
      let beats = 0
      const pulse = Effect.forever(
        Effect.andThen(
          Effect.sleep("1 millis"),
          Effect.sync(() => beats++)
        )
      )
      const fiber = yield* Effect.forkChild(pulse, { startImmediately: true })
      yield* Tokens.countText("═".repeat(300_000))
      yield* Fiber.interrupt(fiber)
      expect(beats).toBeGreaterThan(5)
    })
  )

  it.live("a count that is no longer wanted ends at once", () =>
    Effect.gen(function* () {
      yield* Tokens.load
      const ended = yield* Effect.timeoutOption(Tokens.countText("═".repeat(20_000_000)), "20 millis")
      expect(Option.isNone(ended)).toBe(true)
    })
  )
})
