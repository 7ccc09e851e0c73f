import { describe, expect, it } from "@effect/vitest"
import type * as AiError from "effect/ai/AiError"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Model from "effect/ai/Model"
import * as Prompt from "effect/ai/Prompt"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import type * as HttpClient from "effect/http/HttpClient"
import * as HttpClientResponse from "effect/http/HttpClientResponse"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as Tracer from "effect/Tracer"
import { TestClock } from "effect/testing"
import * as ChatCompletions from "../../src/provider/ChatCompletions.ts"
import * as RequestParams from "../../src/provider/RequestParams.ts"
import * as ScriptedServer from "../../src/provider/ScriptedServer.ts"
import {
  answering,
  callsOf,
  collect,
  errorOf,
  Files,
  fakeHttp,
  finishOf,
  generate,
  textOf,
  user
} from "./support.ts"

const secret = "sk-verysecret-0123456789"
const options: ChatCompletions.Options = {
  baseUrl: "https://user:pass-word-1@llm.test/v1/?api-key=query-secret-1",
  model: "m",
  apiKey: Redacted.make(secret)
}
const model = (http: Layer.Layer<HttpClient.HttpClient>, more: Partial<ChatCompletions.Options> = {}) =>
  ChatCompletions.layer({ ...options, ...more }).pipe(Layer.provide(http))

const start = [Prompt.makeMessage("system", { content: "S" }), user("U")]
const reply = (message: object, rest: object = {}) =>
  JSON.stringify({ id: "r1", model: "m-2", choices: [{ index: 0, message, finish_reason: "stop" }], ...rest })

/** The body that was sent, and the request. */
const sent = (call: Effect.Effect<unknown, unknown, LanguageModel.LanguageModel>, more = {}) =>
  Effect.gen(function* () {
    const seen: Array<{ url: string; headers: Record<string, string>; body: unknown; text: string }> = []
    const http = fakeHttp((request, text) => {
      const url = new URL(request.url)
      for (const [name, value] of request.urlParams.params) url.searchParams.append(name, String(value))
      seen.push({ url: url.href, headers: { ...request.headers }, body: JSON.parse(text), text })
      return Effect.succeed(HttpClientResponse.fromWeb(request, new Response(reply({ content: '{"n":1}' }))))
    })
    yield* Effect.provide(call, model(http, more))
    return seen[0]!
  })

describe("requests", () => {
  it.effect("sends messages, tools and parameters", () =>
    Effect.gen(function* () {
      const request = yield* sent(
        generate(start).pipe(
          RequestParams.add({
            temperature: 0,
            topP: 0.5,
            maxOutputTokens: 100,
            stop: ["END"],
            seed: 1,
            reasoningEffort: "low",
            parallelToolCalls: false,
            extra: { user: "u" }
          })
        )
      )
      expect(request.url).toBe("https://llm.test/v1/chat/completions?api-key=query-secret-1")
      expect(request.headers.authorization).toBe(`Bearer ${secret}`)
      expect(request.body).toMatchObject({
        model: "m",
        messages: [
          { role: "system", content: "S" },
          { role: "user", content: "U" }
        ],
        parallel_tool_calls: false,
        temperature: 0,
        top_p: 0.5,
        max_tokens: 100,
        stop: ["END"],
        seed: 1,
        reasoning_effort: "low",
        user: "u"
      })
      expect(request.text).toContain(
        '"tools":[{"type":"function","function":{"name":"list_files","description":'
      )
      expect(request.body).not.toHaveProperty("stream")
    })
  )

  it.effect("asks OpenAI for the cap in its own field", () =>
    Effect.gen(function* () {
      const request = yield* sent(generate(start).pipe(RequestParams.add({ maxOutputTokens: 9 })), {
        baseUrl: "https://api.openai.com/v1"
      })
      expect(request.body).toMatchObject({ max_completion_tokens: 9 })
    })
  )

  it.effect.each([
    { choice: "auto" as const, expected: undefined, tools: 2 },
    { choice: "none" as const, expected: "none", tools: 2 },
    { choice: "required" as const, expected: "required", tools: 2 },
    {
      choice: { tool: "read_file" as const },
      expected: { type: "function", function: { name: "read_file" } },
      tools: 2
    },
    { choice: { oneOf: ["read_file" as const] }, expected: undefined, tools: 1 },
    { choice: { mode: "required" as const, oneOf: ["read_file" as const] }, expected: "required", tools: 1 }
  ])("tool choice $choice", ({ choice, expected, tools }) =>
    Effect.gen(function* () {
      const { body } = yield* sent(
        LanguageModel.generateText({
          prompt: "x",
          toolkit: Files,
          toolChoice: choice,
          disableToolCallResolution: true
        })
      )
      expect(body).toHaveProperty("tools.length", tools)
      expect(Object.entries(body as object).find(([name]) => name === "tool_choice")?.[1]).toEqual(expected)
    })
  )

  it.effect("asks for structured output and decodes it", () =>
    Effect.gen(function* () {
      const { body } = yield* sent(
        LanguageModel.generateObject({
          prompt: "x",
          objectName: "Count",
          schema: Schema.Struct({ n: Schema.Finite })
        })
      )
      expect(body).toMatchObject({
        response_format: {
          type: "json_schema",
          json_schema: { name: "Count", strict: true, schema: { type: "object" } }
        }
      })
      expect(body).not.toHaveProperty("tools")
      expect(body).not.toHaveProperty("tool_choice")
    })
  )

  it.effect("asks for usage in streams, unless told not to", () =>
    Effect.gen(function* () {
      const asked = yield* sent(collect(start))
      expect(asked.body).toMatchObject({ stream: true, stream_options: { include_usage: true } })
      const not = yield* sent(collect(start), { streamUsage: false })
      expect(not.body).not.toHaveProperty("stream_options")
    })
  )

  it.effect("reads LLM_BASE_URL, LLM_MODEL and LLM_API_KEY", () =>
    Effect.gen(function* () {
      let authorization: string | undefined
      const http = fakeHttp((request) => {
        authorization = request.headers.authorization
        return Effect.succeed(
          HttpClientResponse.fromWeb(request, new Response(reply({ content: request.url })))
        )
      })
      const layer = (env: Record<string, string>) =>
        ChatCompletions.layerConfig().pipe(
          Layer.provide(http),
          Layer.provide(ConfigProvider.layer(ConfigProvider.fromUnknown(env)))
        )
      const env = { LLM_BASE_URL: "http://h/v1", LLM_MODEL: "mm" }
      const { text, name, provider } = yield* Effect.all({
        text: Effect.map(generate(start), (response) => response.text),
        name: Model.ModelName,
        provider: Model.ProviderName
      }).pipe(Effect.provide(layer({ ...env, LLM_API_KEY: "k" })))
      expect([text, name, provider, authorization]).toEqual([
        "http://h/v1/chat/completions",
        "mm",
        "h",
        "Bearer k"
      ])
      yield* Effect.provide(generate(start), layer(env))
      expect(authorization).toBeUndefined()
      const missing = yield* Effect.flip(Effect.provide(generate(start), layer({ LLM_MODEL: "mm" })))
      expect(String(missing)).toContain("LLM_BASE_URL")
    })
  )
})

describe("replies", () => {
  it.effect("reads text, reasoning, calls and usage", () =>
    Effect.gen(function* () {
      const response = yield* generate(start)
      expect(response.text).toBe("Hi")
      expect(response.reasoningText).toBe("hm")
      expect(callsOf(response.content)).toEqual([
        { id: "a", name: "read_file", params: { path: "x" } },
        { id: "", name: "list_files", params: {} },
        { id: "", name: "read_file", params: '{"path' },
        { id: "d", name: "nowhere", params: { o: 1 } }
      ])
      expect(response.finishReason).toBe("tool-calls")
      expect(response.usage.inputTokens).toEqual({
        total: 100,
        cacheRead: 60,
        cacheWrite: undefined,
        uncached: 40
      })
      expect(response.usage.outputTokens).toEqual({ total: 20, reasoning: 5, text: 15 })
      expect(response.content.find((part) => part.type === "response-metadata")).toMatchObject({
        id: "r1",
        modelId: "m-2"
      })
    }).pipe(
      Effect.provide(
        model(
          answering(
            reply(
              {
                role: "assistant",
                content: "Hi",
                reasoning_content: "hm",
                unknown: { x: 1 },
                tool_calls: [
                  { id: "a", type: "function", function: { name: "read_file", arguments: '{"path":"x"}' } },
                  { type: "function", function: { name: "list_files", arguments: "" } },
                  { id: "", type: "function", function: { name: "read_file", arguments: '{"path' } },
                  { id: "d", type: "function", function: { name: "nowhere", arguments: { o: 1 } } }
                ]
              },
              {
                usage: {
                  prompt_tokens: 100,
                  completion_tokens: 20,
                  prompt_tokens_details: { cached_tokens: 60 },
                  completion_tokens_details: { reasoning_tokens: 5 }
                }
              }
            )
          )
        )
      )
    )
  )

  it.effect("leaves usage undefined that the endpoint leaves out, or tells in another shape", () =>
    Effect.gen(function* () {
      for (const rest of [
        {},
        { usage: null },
        { usage: [] },
        { usage: "free" },
        { usage: { prompt_tokens: "9" } }
      ]) {
        const response = yield* Effect.provide(
          generate(start),
          model(answering(reply({ content: "Hi" }, rest)))
        )
        expect(response.text).toBe("Hi")
        expect(response.usage.inputTokens.total).toBeUndefined()
        expect(response.usage.outputTokens.total).toBeUndefined()
      }
    })
  )

  it.effect("reads content in parts, and the form that calls once had", () =>
    Effect.gen(function* () {
      const message = {
        content: [{ type: "text", text: "H" }, "i", { type: "text", text: null }, { type: "image" }],
        function_call: { name: "list_files", arguments: "" }
      }
      const response = yield* Effect.provide(generate(start), model(answering(reply(message))))
      expect([response.text, response.finishReason]).toEqual(["Hi", "tool-calls"])
      expect(callsOf(response.content)).toEqual([{ id: "", name: "list_files", params: {} }])
    })
  )

  it.effect.each([
    ["length", "length"],
    ["content_filter", "content-filter"],
    ["stop", "stop"],
    ["weird", "other"],
    [null, "stop"]
  ] as const)("finish reason %s is %s", ([given, expected]) =>
    Effect.gen(function* () {
      const body = JSON.stringify({ choices: [{ message: { content: "x" }, finish_reason: given }] })
      const response = yield* Effect.provide(generate(start), model(answering(body)))
      expect(response.finishReason).toBe(expected)
    })
  )

  it.effect("replays what the endpoint marked, and reasoning if asked to", () =>
    Effect.gen(function* () {
      const message = {
        content: null,
        reasoning: "hm",
        reasoning_details: [{ type: "sealed", data: "xyz" }],
        tool_calls: [
          { id: "a", function: { name: "list_files", arguments: "{}" }, extra_content: { sig: 1 } }
        ]
      }
      const response = yield* Effect.provide(generate(start), model(answering(reply(message))))
      const next = yield* sent(generate([...start, ...Prompt.fromResponseParts(response.content).content]))
      expect(next.body).toHaveProperty("messages.2.reasoning_details.0.data", "xyz")
      expect(next.body).toHaveProperty("messages.2.tool_calls.0.extra_content.sig", 1)
      const plain = yield* Effect.provide(
        generate(start),
        model(answering(reply({ content: "A", reasoning_content: "hm" })), { replayReasoning: true })
      )
      const after = yield* sent(generate([...start, ...Prompt.fromResponseParts(plain.content).content]))
      expect(after.body).toHaveProperty("messages.2.reasoning_content", "hm")
    })
  )

  const events = `: go\n\ndata: ${reply({}).replace('"message":{}', '"delta":{"content":"Hi"}')}\n\ndata: [DONE]\n\n`
  const labels = ["application/json", "text/event-stream", "text/plain", ""]
  const answers = labels.flatMap((label) =>
    [reply({ content: "Hi" }), `\ufeff \n${reply({ content: "Hi" })}`, events].map((body) => ({
      label,
      body
    }))
  )

  it.effect.each(answers)(
    "are told from streams by what they are, not by their label: $label $body",
    ({ body, label }) =>
      Effect.gen(function* () {
        const { parts, error } = yield* collect(start)
        expect(error).toBeUndefined()
        expect(textOf(parts)).toBe("Hi")
        expect(finishOf(parts)?.reason).toBe("stop")
        const whole = yield* generate(start)
        expect([whole.text, whole.finishReason]).toEqual(["Hi", "stop"])
      }).pipe(Effect.provide(model(answering(body, { headers: { "content-type": label } }))))
  )

  it.effect.each(labels)("that are none fail in the same way, asked for as a stream or not: %s", (label) =>
    Effect.gen(function* () {
      for (const body of [
        "hello",
        "<!doctype html><title>Welcome</title>",
        "{}",
        '{"choices": [{"mess',
        "dat"
      ]) {
        const layer = model(answering(body, { headers: { "content-type": label } }))
        const error = yield* Effect.provide(errorOf(generate(start)), layer)
        const streamed = yield* Effect.provide(collect(start), layer)
        expect(streamed.error?.message.replace("streamText", "generateText")).toBe(error.message)
      }
    })
  )
})

const failing = (
  body: string,
  status: number,
  headers: Record<string, string> = {},
  more: Partial<ChatCompletions.Options> = {}
) => {
  const layer = model(answering(body, { status, headers }), more)
  return Effect.gen(function* () {
    const error = yield* Effect.provide(errorOf(generate(start)), layer)
    const streamed = yield* Effect.provide(collect(start), layer)
    expect(streamed.error?.message.replace("streamText", "generateText")).toBe(error.message)
    return error
  })
}

const errorBody = (error: object) => JSON.stringify({ error })

describe("errors", () => {
  it.effect.each<[number, string, AiError.AiErrorReason["_tag"], boolean, string]>([
    [400, errorBody({ message: "temperature is off" }), "InvalidRequestError", false, "temperature is off"],
    [401, errorBody({ message: "bad key" }), "AuthenticationError", false, "LLM_API_KEY"],
    [402, errorBody({ message: "pay" }), "QuotaExhaustedError", false, "Quota exhausted"],
    [403, errorBody({ message: "not yours" }), "AuthenticationError", false, "permissions"],
    [404, errorBody({ message: "no such model" }), "InvalidRequestError", false, "Check the base URL"],
    [404, "Not Found", "InvalidRequestError", false, 'serves model "m"'],
    [
      400,
      errorBody({ message: "x", code: "context_length_exceeded" }),
      "InvalidRequestError",
      false,
      "context window"
    ],
    [
      400,
      errorBody({ message: "This model's maximum context length is 8192 tokens." }),
      "InvalidRequestError",
      false,
      'The context window of model "m" is exceeded'
    ],
    [
      400,
      errorBody({ message: "the request exceeds the available context size" }),
      "InvalidRequestError",
      false,
      "is exceeded"
    ],
    [
      400,
      errorBody({ message: "prompt is too long: 300000 tokens" }),
      "InvalidRequestError",
      false,
      "is exceeded"
    ],
    [400, errorBody({ message: "blocked", code: "content_filter" }), "ContentPolicyError", false, "blocked"],
    [422, JSON.stringify({ detail: "bad field" }), "InvalidRequestError", false, "bad field"],
    [429, errorBody({ message: "slow down" }), "RateLimitError", true, "Rate limit"],
    [
      429,
      errorBody({ message: "no money", code: "insufficient_quota" }),
      "QuotaExhaustedError",
      false,
      "billing"
    ],
    [
      413,
      errorBody({ message: "Request too large", code: "rate_limit_exceeded" }),
      "RateLimitError",
      true,
      "Rate"
    ],
    [408, "", "InternalProviderError", true, "answered 408 without a word"],
    [500, errorBody({ message: "oops" }), "InternalProviderError", true, "answered 500: oops"],
    [
      502,
      "<html><head><title>502 Bad Gateway</title></head></html>",
      "InternalProviderError",
      true,
      'an HTML page titled "502 Bad Gateway"'
    ],
    [503, "", "InternalProviderError", true, "answered 503"],
    [302, "", "InvalidRequestError", false, "redirects"],
    [200, "", "InternalProviderError", true, "with an empty body"],
    [200, "  \n", "InternalProviderError", true, "with an empty body"],
    [200, "<!doctype html><title>Welcome</title>", "InvalidResponseError", false, "usually ends in /v1"],
    [200, "hello", "InvalidResponseError", false, "what is not JSON: hello"],
    [200, '{"choices": [{"mess', "InternalProviderError", true, "breaks off"],
    [200, "[]", "InvalidResponseError", false, "another shape"],
    [200, "{}", "InvalidResponseError", false, "without choices"],
    [200, '{"choices":"none"}', "InvalidResponseError", false, "another shape"],
    [200, '{"choices":[]}', "InternalProviderError", true, "without a choice"],
    [200, '{"choices":[{"message":null}]}', "InternalProviderError", true, "without a choice"],
    [200, errorBody({ message: "upstream failed" }), "InternalProviderError", true, "upstream failed"],
    [200, errorBody({ message: "slow down", code: 429 }), "RateLimitError", true, "Rate limit"],
    [200, errorBody({ message: "bad key", code: 401 }), "AuthenticationError", false, "bad key"],
    [200, JSON.stringify({ error: "just text" }), "InternalProviderError", true, "just text"],
    [
      200,
      JSON.stringify({ object: "error", message: "no such lora", type: "NotFoundError", code: 404 }),
      "InvalidRequestError",
      false,
      "no such lora"
    ],
    [
      200,
      errorBody({ message: "slow down", code: 429, status: "RESOURCE_EXHAUSTED" }),
      "RateLimitError",
      true,
      "Rate limit"
    ],
    [
      400,
      JSON.stringify([{ error: { code: 400, message: "bad turn", status: "INVALID_ARGUMENT" } }]),
      "InvalidRequestError",
      false,
      "answered 400: bad turn"
    ],
    [200, JSON.stringify([{ error: { code: 503, message: "busy" } }]), "InternalProviderError", true, "busy"],
    [
      200,
      '{"choices":[{"index":1,"message":{"content":"x"}}]}',
      "InternalProviderError",
      true,
      "without a choice"
    ]
  ])("%i %s is %s", ([status, body, tag, retryable, words]) =>
    Effect.gen(function* () {
      const error = yield* failing(body, status)
      expect(error.reason._tag).toBe(tag)
      expect(error.isRetryable).toBe(retryable)
      expect(error.message).toContain(words)
    })
  )

  it.effect("asks for a key where none was given", () =>
    Effect.gen(function* () {
      const error = yield* failing("", 401, {}, { baseUrl: "http://h/v1", apiKey: "" })
      expect(error.reason).toMatchObject({ kind: "MissingKey" })
    })
  )

  const retryInfo = (retryDelay: unknown) => ({
    error: {
      code: 429,
      message: "quota",
      status: "RESOURCE_EXHAUSTED",
      details: [
        { "@type": "type.googleapis.com/google.rpc.QuotaFailure", violations: [{ quotaId: "PerMinute" }] },
        null,
        { "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay }
      ]
    }
  })
  it.effect.each<[number, Record<string, string>, unknown, number | undefined]>([
    [429, { "retry-after": "7" }, {}, 7_000],
    [429, { "retry-after": "1.5" }, {}, 1_500],
    [429, { "retry-after": "Thu, 01 Jan 1970 00:02:00 GMT" }, {}, 60_000],
    [429, { "retry-after": "Thu, 01 Jan 1970 00:00:00 GMT" }, {}, 0],
    [429, { "retry-after": "soon" }, {}, undefined],
    [429, { "retry-after": "-1" }, {}, undefined],
    [429, { "retry-after-ms": "250", "retry-after": "1" }, {}, 250],
    [429, {}, {}, undefined],
    [503, { "retry-after": "3" }, {}, 3_000],
    // As Gemini says it, in the body alone, which it wraps in a list or not.
    [429, {}, retryInfo("34s"), 34_000],
    [429, {}, [retryInfo("34.074824224s")], 34_074.824224],
    [503, {}, [retryInfo("0.5s")], 500],
    [200, {}, [retryInfo("34s")], 34_000],
    [429, { "retry-after": "7" }, retryInfo("34s"), 7_000],
    [429, { "retry-after": "soon" }, retryInfo("34s"), 34_000],
    ...["-1s", "34", "soon", "", 34, null].map(
      (delay): [number, Record<string, string>, unknown, undefined] => [429, {}, retryInfo(delay), undefined]
    ),
    ...[null, "34s", {}, [[]], ["34s"]].map(
      (details): [number, Record<string, string>, unknown, undefined] => [
        429,
        {},
        { error: { details } },
        undefined
      ]
    )
  ])("%i with %j and %j waits %s ms", ([status, headers, body, millis]) =>
    Effect.gen(function* () {
      yield* TestClock.setTime(60_000)
      const error = yield* failing(JSON.stringify(body), status, headers)
      expect(error.isRetryable).toBe(true)
      expect(error.retryAfter && Duration.toMillis(error.retryAfter)).toBe(millis)
    })
  )

  it.effect("says where nobody listens", () =>
    Effect.gen(function* () {
      const { baseUrl } = yield* Effect.scoped(ScriptedServer.start({ scripts: [] }))
      const error = yield* errorOf(generate(start)).pipe(
        Effect.provide(model(FetchHttpClient.layer, { baseUrl }))
      )
      expect(error.reason._tag).toBe("NetworkError")
      expect(error.isRetryable).toBe(true)
      expect(error.message).toContain("ECONNREFUSED")
      expect(error.message).toContain(`${baseUrl}/chat/completions`)
    })
  )

  it.effect("says that an address is none", () =>
    Effect.gen(function* () {
      const error = yield* errorOf(generate(start))
      expect(error.reason._tag).toBe("InvalidRequestError")
      expect(error.message).toContain("check the base URL")
    }).pipe(Effect.provide(model(FetchHttpClient.layer, { baseUrl: "not an address" })))
  )

  it.effect("gives up on an endpoint that does not answer", () =>
    Effect.gen(function* () {
      const fiber = yield* Effect.forkChild(
        Effect.all([errorOf(generate(start)), collect(start)], { concurrency: 2 }),
        { startImmediately: true }
      )
      yield* TestClock.adjust("30 seconds")
      const [error, streamed] = yield* Fiber.join(fiber)
      expect(error.reason._tag).toBe("NetworkError")
      expect(error.message).toContain("no answer came for 30s")
      expect(streamed.error?.isRetryable).toBe(true)
    }).pipe(
      Effect.provide(
        model(
          fakeHttp(() => Effect.never),
          { timeout: "30 seconds" }
        )
      )
    )
  )

  it.effect("reports a body that breaks off", () =>
    Effect.gen(function* () {
      const broken = new ReadableStream<Uint8Array>({
        start(controller) {
          controller.enqueue(new TextEncoder().encode('{"cho'))
          controller.error(new Error("reset"))
        }
      })
      const error = yield* Effect.provide(errorOf(generate(start)), model(answering(broken)))
      expect(error.reason._tag).toBe("NetworkError")
      expect(error.message).toContain("the answer broke off")
    })
  )
})

describe("secrets", () => {
  it.effect.each([
    [401, `{"error":{"message":"Incorrect API key provided: ${secret}"}}`],
    [400, `{"error":{"message":"pass-word-1 and query-secret-1 and header-secret"}}`],
    [500, `${"x".repeat(290)}${secret}`],
    [200, `Authorization: Bearer ${secret}`],
    [200, `{"error":"${secret}"}`],
    [404, `<title>${secret}</title>`]
  ] as const)("are in no error and no span: %i %s", ([status, body]) =>
    Effect.gen(function* () {
      const spans: Array<Tracer.NativeSpan> = []
      const tracer = Tracer.make({
        span: (options) => {
          const span = new Tracer.NativeSpan(options)
          spans.push(span)
          return span
        }
      })
      const layer = model(answering(body, { status, headers: { "x-echo": secret } }), {
        headers: { "x-key": Redacted.make("header-secret") }
      })
      const error = yield* errorOf(generate(start)).pipe(Effect.provide(layer), Effect.withTracer(tracer))
      const shown = [
        error.message,
        String(error),
        error.stack,
        JSON.stringify(error),
        JSON.stringify(error.reason),
        ...spans.map((span) =>
          JSON.stringify([span.name, [...span.attributes], span.events, span.status._tag])
        )
      ].join("\n")
      expect(spans.length).toBeGreaterThan(0)
      for (const word of ["verysecret", "pass-word-1", "query-secret-1", "header-secret"]) {
        expect(shown).not.toContain(word)
      }
    })
  )
})
