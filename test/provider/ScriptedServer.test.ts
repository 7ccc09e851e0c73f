import { describe, expect, it } from "@effect/vitest"
import * as Prompt from "effect/ai/Prompt"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import * as Layer from "effect/Layer"
import OpenAI from "openai"
import * as ChatCompletions from "../../src/provider/ChatCompletions.ts"
import * as RequestParams from "../../src/provider/RequestParams.ts"
import * as Scripted from "../../src/provider/Scripted.ts"
import * as ScriptedServer from "../../src/provider/ScriptedServer.ts"
import { callsOf, collect, errorOf, finishOf, generate, textOf, toolResult, user } from "./support.ts"

const plan = Scripted.make("plan", [
  Scripted.call("list_files", {}, { id: "c1" }),
  Scripted.turn(
    Scripted.text("Reading two. "),
    Scripted.call("read_file", { path: "errors.log" }, { id: "c2" }),
    Scripted.call("read_file", { path: "naïve 😀.log" }, { id: "c3" })
  ),
  (transcript) => Scripted.text(`The last result was: ${transcript.lastToolResult}`)
])
const odd = Scripted.make("odd", (_, transcript) => {
  switch (transcript.task) {
    case "limit":
      return Scripted.fail(429, { retryAfter: 3 })
    case "hang up":
      return Scripted.disconnect()
    case "cut":
      return Scripted.text("One two three", { breakAfter: 2 })
    default:
      return undefined
  }
})
const scripts = [plan, odd]

const endpoint = (baseUrl: string, model: string) =>
  ChatCompletions.layer({ baseUrl, model }).pipe(Layer.provide(FetchHttpClient.layer))

const start = [
  Prompt.makeMessage("system", { content: "You read logs." }),
  user("Which log mentions a timeout?")
]

const converse = Effect.gen(function* () {
  const messages: Array<Prompt.Message> = [...start]
  const usage: Array<unknown> = []
  for (let turn = 0; turn < 3; turn++) {
    const response = yield* generate(messages)
    const streamed = yield* collect(messages)
    expect(streamed.error).toBeUndefined()
    expect(callsOf(streamed.parts)).toEqual(callsOf(response.content))
    expect(textOf(streamed.parts)).toBe(response.text)
    expect(finishOf(streamed.parts)?.usage).toEqual(response.usage)
    usage.push(response.usage.inputTokens.total, response.usage.outputTokens.total)
    messages.push(...Prompt.fromResponseParts(response.content).content)
    for (const call of response.toolCalls)
      messages.push(toolResult(call.id, call.name, ['a "b"', 'ü{"x":1}']))
  }
  return { usage, messages }
})

describe("ScriptedServer", () => {
  it.effect("counts and answers as in-process, to the token", () =>
    Effect.gen(function* () {
      const { baseUrl } = yield* ScriptedServer.start({ scripts })
      const http = yield* Effect.provide(converse, endpoint(baseUrl, "plan"))
      const inProcess = yield* Effect.provide(converse, Scripted.layer(plan))
      expect(http.usage).toEqual(inProcess.usage)
      expect(http.messages).toEqual(inProcess.messages)
    })
  )

  it.effect("takes the messages into which a client has divided one reply for one, as in-process", () =>
    Effect.gen(function* () {
      const { baseUrl } = yield* ScriptedServer.start({ scripts })
      const divided = Effect.gen(function* () {
        const { messages } = yield* converse
        const each = messages.flatMap(
          (message): ReadonlyArray<Prompt.Message> =>
            message.role === "assistant"
              ? message.content.map((part) => Prompt.makeMessage("assistant", { content: [part] }))
              : [message]
        )
        expect(each.length).toBeGreaterThan(messages.length)
        const asked = each.slice(
          0,
          each.findLastIndex(({ role }) => role === "assistant")
        )
        return [(yield* generate(asked)).text, textOf((yield* collect(asked)).parts)]
      })
      for (const layer of [endpoint(baseUrl, "plan"), Scripted.layer(plan)]) {
        const last = 'The last result was: ["a \\"b\\"","ü{\\"x\\":1}"]'
        expect(yield* Effect.provide(divided, layer)).toEqual([last, last])
      }
    })
  )

  it.effect("fails as in-process", () =>
    Effect.gen(function* () {
      const { baseUrl } = yield* ScriptedServer.start({ scripts })
      const both = <A, E>(effect: Effect.Effect<A, E, Layer.Success<ReturnType<typeof Scripted.layer>>>) =>
        Effect.all([
          Effect.provide(effect, endpoint(baseUrl, "odd")),
          Effect.provide(effect, Scripted.layer(odd))
        ])
      for (const task of ["limit", "hang up", "cut", "else"]) {
        const [a, b] = yield* both(errorOf(generate([user(task)])))
        expect([task, a.reason._tag, a.isRetryable, a.retryAfter]).toEqual([
          task,
          b.reason._tag,
          b.isRetryable,
          b.retryAfter
        ])
        const [c, d] = yield* both(collect([user(task)]))
        expect([task, textOf(c.parts), c.error?.reason._tag]).toEqual([
          task,
          textOf(d.parts),
          d.error?.reason._tag
        ])
      }
      const [cut] = yield* both(collect([user("cut")]))
      expect(textOf(cut.parts)).toBe("One two ")
    })
  )

  it.effect("honours the output cap and takes time on the server's Clock", () =>
    Effect.gen(function* () {
      const { baseUrl } = yield* ScriptedServer.start({
        scripts: [Scripted.make("t", [Scripted.text("a b c d e f")])]
      })
      const cut = yield* generate(start).pipe(
        RequestParams.add({ maxOutputTokens: 3 }),
        Effect.provide(endpoint(baseUrl, "t"))
      )
      expect(cut.finishReason).toBe("length")
      expect(cut.usage.outputTokens.total).toBe(3)
      expect(yield* Clock.currentTimeMillis).toBe(0)
    })
  )

  it.effect("answers wrong requests in OpenAI's error shape", () =>
    Effect.gen(function* () {
      const { baseUrl } = yield* ScriptedServer.start({ scripts })
      const post = (body: string) =>
        Effect.promise(async () => {
          const response = await fetch(`${baseUrl}/chat/completions`, { method: "POST", body })
          const json: unknown = await response.json()
          return [response.status, json] as const
        })
      expect(yield* post("{")).toMatchObject([400, { error: { type: "invalid_request_error" } }])
      expect(yield* post('{"model":"plan"}')).toMatchObject([
        400,
        { error: { message: expect.stringContaining("messages") } }
      ])
      expect(yield* post('{"model":"none","messages":[]}')).toMatchObject([
        404,
        { error: { code: "model_not_found", message: expect.stringContaining("plan, odd") } }
      ])
      const elsewhere = yield* Effect.promise(() => fetch(`${baseUrl}/embeddings`))
      expect(elsewhere.status).toBe(404)
    })
  )

  it.effect("serves the official client: a tool loop, in JSON and in streaming mode", () =>
    Effect.gen(function* () {
      const { baseUrl } = yield* ScriptedServer.start({ scripts })
      const client = new OpenAI({ baseURL: baseUrl, apiKey: "unused", maxRetries: 0 })
      const models = yield* Effect.promise(() => client.models.list())
      expect(models.data.map((model) => model.id)).toEqual(["plan", "odd"])

      const tools: Array<OpenAI.Chat.ChatCompletionTool> = ["list_files", "read_file"].map((name) => ({
        type: "function",
        function: { name, parameters: { type: "object", properties: {} } }
      }))
      const loop = async (
        ask: (messages: Array<OpenAI.Chat.ChatCompletionMessageParam>) => Promise<OpenAI.Chat.ChatCompletion>
      ) => {
        const messages: Array<OpenAI.Chat.ChatCompletionMessageParam> = [
          { role: "user", content: "Which log?" }
        ]
        const usage: Array<number | undefined> = []
        const seen: Array<string> = []
        for (let turn = 0; turn < 5; turn++) {
          const completion = await ask(messages)
          usage.push(completion.usage?.prompt_tokens, completion.usage?.completion_tokens)
          const { message, finish_reason } = completion.choices[0]!
          messages.push({
            role: "assistant",
            content: message.content,
            ...(message.tool_calls ? { tool_calls: message.tool_calls } : {})
          })
          if (finish_reason === "stop") return { answer: message.content, usage, seen }
          for (const call of message.tool_calls ?? []) {
            if (call.type !== "function") continue
            seen.push(`${call.id} ${call.function.name} ${call.function.arguments}`)
            messages.push({ role: "tool", tool_call_id: call.id, content: "ERROR timeout" })
          }
        }
        return { answer: null, usage, seen }
      }
      const json = yield* Effect.promise(() =>
        loop((messages) => client.chat.completions.create({ model: "plan", messages, tools }))
      )
      const streamed = yield* Effect.promise(() =>
        loop((messages) =>
          client.chat.completions
            .stream({ model: "plan", messages, tools, stream_options: { include_usage: true } })
            .finalChatCompletion()
        )
      )
      expect(json.answer).toBe("The last result was: ERROR timeout")
      expect(json.seen).toEqual([
        "c1 list_files {}",
        'c2 read_file {"path":"errors.log"}',
        'c3 read_file {"path":"naïve 😀.log"}'
      ])
      expect(json.usage.every((tokens) => tokens !== undefined && tokens > 0)).toBe(true)
      expect(streamed).toEqual(json)

      const limited = yield* Effect.promise(() =>
        client.chat.completions
          .create({ model: "odd", messages: [{ role: "user", content: "limit" }] })
          .catch((error: unknown) => error)
      )
      expect(limited).toBeInstanceOf(OpenAI.RateLimitError)
      const missing = yield* Effect.promise(() =>
        client.chat.completions.create({ model: "none", messages: [] }).catch((error: unknown) => error)
      )
      expect(missing).toBeInstanceOf(OpenAI.NotFoundError)
    })
  )

  it.effect("says which port cannot be listened on, and why", () =>
    Effect.gen(function* () {
      const { port } = yield* ScriptedServer.start({ scripts })
      const error = yield* Effect.flip(ScriptedServer.start({ scripts, port }))
      expect(error._tag).toBe("ServeError")
      expect(error.message).toMatch(
        new RegExp(`^the server cannot listen on port ${port}: listen EADDRINUSE: .*127\\.0\\.0\\.1:${port}$`)
      )
      const elsewhere = yield* Effect.flip(ScriptedServer.start({ scripts, host: "192.0.2.1" }))
      expect(elsewhere.message).toMatch(/^the server cannot listen on a free port: listen EADDRNOTAVAIL/)
    })
  )
})
