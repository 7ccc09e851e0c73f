import { describe, expect, it } from "@effect/vitest"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { TestClock } from "effect/testing"
import * as ChatCompletions from "../../src/provider/ChatCompletions.ts"
import { answering, bytes, callsOf, collect, finishOf, textOf, user } from "./support.ts"

const start = [user("U")]
const encode = (text: string) => new TextEncoder().encode(text)
const model = (body: ReadableStream<Uint8Array>, options: Partial<ChatCompletions.Options> = {}) =>
  ChatCompletions.layer({ baseUrl: "http://llm.test/v1", model: "m", ...options }).pipe(
    Layer.provide(answering(body, { headers: { "content-type": "text/event-stream" } }))
  )
const stream = (pieces: ReadonlyArray<Uint8Array>, breaks = false) =>
  Effect.provide(collect(start), model(bytes(pieces, breaks)))

const event = (data: unknown) => `data: ${typeof data === "string" ? data : JSON.stringify(data)}\n\n`
const delta = (delta: object, finish: string | null = null) =>
  event({ id: "r", model: "m-2", choices: [{ index: 0, delta, finish_reason: finish }] })
const call = (piece: object) => delta({ tool_calls: [piece] })
const usage = event({
  choices: [],
  usage: { prompt_tokens: 10, completion_tokens: 4, prompt_tokens_details: null }
})
const done = event("[DONE]")

const rich =
  "\ufeff: a comment\r\n\r\n" +
  "retry: 500\n\n" +
  delta({ role: "assistant", content: "" }) +
  delta({ reasoning_content: "Denk 😀 " }) +
  delta({ reasoning_content: "nach" }) +
  delta({ content: "Grüße, " }) +
  delta({ content: "世界 👩‍👩‍👧" }).replaceAll("\n", "\r\n") +
  call({ index: 0, id: "a", type: "function", function: { name: "read_file", arguments: "" } }) +
  call({ index: 1, id: "b", type: "function", function: { name: "read_file", arguments: '{"path":' } }) +
  call({ index: 0, function: { arguments: '{"path":"ä' } }) +
  call({ index: 1, function: { arguments: '"😀"}' } }) +
  call({ index: 0, function: { arguments: '.log"}' } }) +
  delta({}, "tool_calls") +
  usage +
  done

const check = ({ parts, error }: Effect.Success<ReturnType<typeof stream>>) => {
  expect(error).toBeUndefined()
  expect(textOf(parts)).toBe("Grüße, 世界 👩‍👩‍👧")
  expect(parts.map((part) => (part.type === "reasoning-delta" ? part.delta : "")).join("")).toBe(
    "Denk 😀 nach"
  )
  expect(callsOf(parts)).toEqual([
    { id: "a", name: "read_file", params: { path: "ä.log" } },
    { id: "b", name: "read_file", params: { path: "😀" } }
  ])
  expect(finishOf(parts)).toMatchObject({
    reason: "tool-calls",
    usage: { inputTokens: { total: 10 }, outputTokens: { total: 4 } }
  })
  expect(parts[0]).toMatchObject({ type: "response-metadata", id: "r", modelId: "m-2" })
}

describe("streams", () => {
  it.effect("read the same, cut in two at every byte", () =>
    Effect.gen(function* () {
      const whole = encode(rich)
      for (let at = 0; at <= whole.length; at++) {
        const pieces = [whole.slice(0, at), whole.slice(at)].filter((piece) => piece.length > 0)
        check(yield* stream(pieces))
      }
    })
  )

  it.effect("read the same, byte by byte", () =>
    Effect.gen(function* () {
      check(yield* stream([...encode(rich)].map((byte) => new Uint8Array([byte]))))
    })
  )

  it.effect.each<[string, string, ReadonlyArray<unknown>]>([
    [
      "without index, the id only first",
      call({ id: "a", function: { name: "list_files", arguments: "" } }) +
        call({ function: { arguments: "{" } }) +
        call({ function: { arguments: "}" } }) +
        call({ id: "b", function: { name: "read_file", arguments: '{"path":' } }) +
        call({ function: { arguments: '"x"}' } }),
      [
        { id: "a", name: "list_files", params: {} },
        { id: "b", name: "read_file", params: { path: "x" } }
      ]
    ],
    [
      "without index, the id in every piece",
      call({ id: "a", function: { name: "read_file", arguments: '{"path":' } }) +
        call({ id: "b", function: { name: "list_files", arguments: "{}" } }) +
        call({ id: "a", function: { arguments: '"x"}' } }),
      [
        { id: "a", name: "read_file", params: { path: "x" } },
        { id: "b", name: "list_files", params: {} }
      ]
    ],
    [
      "all with index 0, told apart by id",
      call({ index: 0, id: "a", function: { name: "list_files", arguments: "{}" } }) +
        call({ index: 0, id: "b", function: { name: "list_files", arguments: "{}" } }),
      [
        { id: "a", name: "list_files", params: {} },
        { id: "b", name: "list_files", params: {} }
      ]
    ],
    [
      "without any id",
      call({ index: 0, function: { name: "list_files", arguments: "" } }) +
        call({ index: 1, id: "", function: { name: "list_files", arguments: "" } }),
      [
        { id: "", name: "list_files", params: {} },
        { id: "", name: "list_files", params: {} }
      ]
    ],
    [
      "with neither index nor id",
      call({ function: { name: "list_files", arguments: "{}" } }) +
        call({ function: { name: "read_file", arguments: '{"path":"x"}' } }),
      [
        { id: "", name: "list_files", params: {} },
        { id: "", name: "read_file", params: { path: "x" } }
      ]
    ],
    [
      "with arguments that are no JSON",
      call({ index: 0, id: "a", function: { name: "read_file", arguments: '{"pa' } }),
      [{ id: "a", name: "read_file", params: '{"pa' }]
    ]
  ])("put calls together: %s", ([, text, expected]) =>
    Effect.gen(function* () {
      const { parts, error } = yield* stream([encode(text + delta({}, "tool_calls") + done)])
      expect(error).toBeUndefined()
      expect(callsOf(parts)).toEqual(expected)
    })
  )

  const read = { index: 0, id: "a", function: { name: "read_file", arguments: '{"path":"x"}' } }
  const x = [{ id: "a", name: "read_file", params: { path: "x" } }]
  it.effect.each<
    [string, string, { text?: string; calls?: ReadonlyArray<unknown>; finish: string; total?: number }]
  >([
    [
      "Azure: filter results before any choice, and beside one",
      event({ id: "", model: "", choices: [], prompt_filter_results: [{ prompt_index: 0 }] }) +
        event({
          choices: [{ index: 0, content_filter_results: {}, delta: { content: "Hi" } }],
          usage: null
        }) +
        delta({}, "stop") +
        usage +
        done,
      { text: "Hi", finish: "stop", total: 10 }
    ],
    [
      "vLLM: both names of reasoning, empty calls, and stop after a call",
      delta({ role: "assistant", content: "", tool_calls: [] }) +
        delta({ reasoning: "hm", reasoning_content: "", content: null }) +
        delta({ tool_calls: [read] }) +
        delta({ tool_calls: [{ index: 0, id: null, function: { name: null, arguments: null } }] }, "stop") +
        usage +
        done,
      { calls: x, finish: "tool-calls", total: 10 }
    ],
    [
      "Ollama: whole calls, all with index 0",
      call(read) +
        call({ ...read, id: "b", function: { name: "list_files", arguments: "{}" } }) +
        delta({ role: "assistant", content: "" }, "tool_calls") +
        done,
      { calls: [...x, { id: "b", name: "list_files", params: {} }], finish: "tool-calls" }
    ],
    [
      "Gemini: content in parts, no finish reason",
      delta({
        content: [{ type: "text", text: "H" }, "i", { type: "text", text: null }, { type: "image" }]
      }) + done,
      { text: "Hi", finish: "stop" }
    ],
    [
      "arguments as an object",
      delta(
        { tool_calls: [{ ...read, function: { name: "read_file", arguments: { path: "x" } } }] },
        "tool_calls"
      ) + done,
      { calls: x, finish: "tool-calls" }
    ],
    [
      "the finish reason of calls, and no call",
      delta({ content: "Hi", tool_calls: null }, "tool_calls") + done,
      { text: "Hi", finish: "other" }
    ],
    [
      "an empty finish reason in every event",
      delta({ content: "Hi" }, "") + delta({}, "") + done,
      { text: "Hi", finish: "stop" }
    ],
    [
      "the form that calls once had",
      delta({ function_call: { name: "read_file", arguments: '{"path":' } }) +
        delta({ function_call: { arguments: '"x"}' } }, "function_call") +
        done,
      { calls: [{ ...x[0], id: "" }], finish: "tool-calls" }
    ],
    [
      "keep-alives of every kind",
      `: PROCESSING\n\ndata:\n\ndata: \n\nevent: ping\ndata: {"type":"ping"}\n\n\n\n${delta({ content: "Hi" }, "stop")}:\n\n${done}`,
      { text: "Hi", finish: "stop" }
    ],
    [
      "lines that end in CR, and an event in several lines",
      `data: {"choices":\rdata:[{"delta":{"content":"Hi"},\rdata: "finish_reason":"stop"}]}\r\rdata: [DONE]\r\r`,
      { text: "Hi", finish: "stop" }
    ],
    [
      "usage in every event, and in another shape",
      event({ choices: [{ delta: { content: "Hi" } }], usage: { prompt_tokens: 10, completion_tokens: 0 } }) +
        event({ choices: [{ delta: {}, finish_reason: "stop" }], usage: { prompt_tokens: "10" } }) +
        event({ choices: [], usage: "unknown" }) +
        done,
      { text: "Hi", finish: "stop", total: 10 }
    ]
  ])("of strange endpoints are read: %s", ([, text, expected]) =>
    Effect.gen(function* () {
      const { parts, error } = yield* stream([encode(text)])
      expect(error).toBeUndefined()
      expect([textOf(parts), callsOf(parts)]).toEqual([expected.text ?? "", expected.calls ?? []])
      expect(finishOf(parts)?.reason).toBe(expected.finish)
      expect(finishOf(parts)?.usage.inputTokens.total).toBe(expected.total)
      if (text.includes("reasoning")) expect(parts).toContainEqual(expect.objectContaining({ delta: "hm" }))
    })
  )

  it.effect("end well without [DONE], without the last blank line, and without usage", () =>
    Effect.gen(function* () {
      for (const text of [delta({ content: "x" }, "stop"), delta({ content: "x" }, "stop").trimEnd()]) {
        const { parts, error } = yield* stream([encode(text)])
        expect(error).toBeUndefined()
        expect(textOf(parts)).toBe("x")
        expect(finishOf(parts)).toMatchObject({
          reason: "stop",
          usage: { inputTokens: { total: undefined } }
        })
      }
    })
  )

  it.effect("end well with [DONE] alone", () =>
    Effect.gen(function* () {
      const { parts, error } = yield* stream([encode(delta({ content: "x" }) + done)])
      expect(error).toBeUndefined()
      expect(finishOf(parts)?.reason).toBe("stop")
    })
  )

  const hello = delta({ content: "Hello" })
  it.effect.each<[string, ReadonlyArray<string>, boolean, string, boolean, string]>([
    ["breaks before anything", [], true, "", true, "after 0 events"],
    ["breaks after a part", [hello], true, "Hello", true, "after 1 events"],
    ["ends without finish", [hello], false, "Hello", true, "ended after 1 events"],
    ["ends in mid-event", [`${hello}data: {"choi`], false, "Hello", true, "ended after 1 events"],
    ["ends before anything", [], false, "", true, "with an empty body"],
    ["has only [DONE]", [done], false, "", true, "without a reply"],
    [
      "holds an error",
      [hello, event({ error: { message: "overloaded" } })],
      false,
      "Hello",
      true,
      "overloaded"
    ],
    [
      "holds an error and a part in one piece",
      [`${hello}${event({ error: "x y" })}`],
      false,
      "Hello",
      true,
      "x y"
    ],
    [
      "names an error event",
      [hello, 'event: error\ndata: {"message":"gone wrong"}\n\n'],
      false,
      "Hello",
      true,
      "gone wrong"
    ],
    ["holds a refusal", [event({ error: { message: "key", code: 401 } })], false, "", false, "key"],
    [
      "holds an error at the top, as vLLM did",
      [hello, event({ object: "error", message: "too many seqs", type: "BadRequestError", code: 400 })],
      false,
      "Hello",
      false,
      "too many seqs"
    ],
    [
      "holds an error named by its type",
      [event({ type: "error", message: "gone" })],
      false,
      "",
      true,
      "gone"
    ],
    [
      "holds an error whose status is a word beside a number, as of Gemini",
      [event({ error: { code: 400, message: "bad turn", status: "INVALID_ARGUMENT" } })],
      false,
      "",
      false,
      "bad turn"
    ],
    ["holds an error in a list", [event([{ error: { code: 403, message: "no" } }])], false, "", false, "no"],
    [
      "never has a choice",
      [event({ choices: [], prompt_filter_results: [] }), usage, done],
      false,
      "",
      true,
      "without a reply"
    ],
    [
      "has another choice than the first alone",
      [event({ choices: [{ index: 1, delta: { content: "No" }, finish_reason: "stop" }] }), done],
      false,
      "",
      true,
      "without a reply"
    ],
    ["holds damage", [hello, event("{]")], false, "Hello", true, "damaged event: {]"],
    ["holds another shape", [hello, event({ choices: 1 })], false, "Hello", false, "another shape"]
  ])("that %s", ([, pieces, breaks, text, retryable, words]) =>
    Effect.gen(function* () {
      const { parts, error } = yield* stream(pieces.map(encode), breaks)
      expect(textOf(parts)).toBe(text)
      expect(finishOf(parts)).toBeUndefined()
      expect(error?._tag).toBe("AiError")
      expect(error?.isRetryable).toBe(retryable)
      expect(error?.message).toContain(words)
    })
  )

  it.effect("that fall silent are given up", () =>
    Effect.gen(function* () {
      const arrived = yield* Deferred.make<void>()
      const silent = new ReadableStream<Uint8Array>({
        start: (controller) => controller.enqueue(encode(hello))
      })
      const fiber = yield* LanguageModel.streamText({ prompt: "U" }).pipe(
        Stream.runForEach((part) =>
          part.type === "text-delta" ? Deferred.succeed(arrived, undefined) : Effect.void
        ),
        Effect.flip,
        Effect.provide(model(silent, { timeout: "30 seconds" })),
        Effect.forkChild
      )
      yield* Deferred.await(arrived)
      yield* TestClock.adjust("30 seconds")
      const error = yield* Fiber.join(fiber)
      expect(error.message).toContain("after 1 events nothing came for 30s")
      expect(error.isRetryable).toBe(true)
    })
  )
})
