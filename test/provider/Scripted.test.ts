import { describe, expect, it } from "@effect/vitest"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Model from "effect/ai/Model"
import * as Prompt from "effect/ai/Prompt"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import { TestClock } from "effect/testing"
import { Agent, MemoryRunStore } from "../../src/index.ts"
import * as RequestParams from "../../src/provider/RequestParams.ts"
import * as Scripted from "../../src/provider/Scripted.ts"
import { callsOf, collect, errorOf, Files, finishOf, generate, textOf, toolResult, user } from "./support.ts"

const start = [user("Which log file mentions a timeout?")]

/** A small loop: answers every call with the given result until the model answers in words. */
const converse = (result: unknown, turns = 10) =>
  Effect.gen(function* () {
    const messages: Array<Prompt.Message> = [...start]
    const usage: Array<readonly [number | undefined, number | undefined]> = []
    for (let turn = 0; turn < turns; turn++) {
      const response = yield* generate(messages)
      usage.push([response.usage.inputTokens.total, response.usage.outputTokens.total])
      messages.push(...Prompt.fromResponseParts(response.content).content)
      if (response.toolCalls.length === 0) return { text: response.text, usage, messages }
      for (const call of response.toolCalls) messages.push(toolResult(call.id, call.name, result))
    }
    return { text: "", usage, messages }
  })

describe("Scripted", () => {
  const plan = Scripted.make("plan", [
    Scripted.call("list_files", {}, { id: "c1" }),
    Scripted.call("read_file", { path: "errors.log" }, { id: "c2" }),
    (transcript) => Scripted.text(transcript.saw("timeout") ? "There was a timeout." : "Nothing.")
  ])

  it.effect("answers by the turn and what the tools said", () =>
    Effect.gen(function* () {
      const found = yield* converse("ERROR timeout")
      expect(found.text).toBe("There was a timeout.")
      expect(found.usage.map(([, output]) => output)).toEqual([23, 29, 6])
      expect((yield* converse("all is well")).text).toBe("Nothing.")
      expect(yield* Model.ModelName).toBe("plan")
      expect(yield* Model.ProviderName).toBe("scripted")
    }).pipe(Effect.provide(Scripted.layer(plan)))
  )

  it("counts replies: assistant messages that follow one another are one", () => {
    const roles = (text: string) => text.split(" ").map((role) => ({ role }))
    expect(Scripted.turnOf([])).toBe(0)
    expect(Scripted.turnOf(roles("system user"))).toBe(0)
    expect(Scripted.turnOf(roles("assistant"))).toBe(1)
    expect(
      Scripted.turnOf(roles("system user assistant assistant tool tool assistant assistant assistant"))
    ).toBe(2)
    expect(Scripted.turnOf(roles("user assistant user assistant system assistant tool"))).toBe(3)
  })

  it.effect("goes on line by line through replies that an agent has something to say about", () =>
    Effect.gen(function* () {
      const script = Scripted.make("lines", [
        Scripted.text("Let me", { finish: "length" }),
        Scripted.text("I cannot", { finish: "content_filter" }),
        Scripted.text("It is 1."),
        Scripted.turn(Scripted.text("I submit. "), Scripted.call("submit_result", { n: "one" })),
        Scripted.turn(Scripted.text("Again. "), Scripted.call("submit_result", { n: 1 }))
      ])
      const agent = Agent.make("a", {
        output: Schema.Struct({ n: Schema.Finite }),
        limits: { time: "1 minute" }
      })
      const done = yield* Effect.provide(Agent.run(agent, "go"), [
        Scripted.layer(script),
        MemoryRunStore.layer
      ])
      expect(done.output).toEqual({ n: 1 })
      expect(done.run.turns).toBe(5)
    })
  )

  it.effect("shows the transcript to a script", () =>
    Effect.gen(function* () {
      let seen: Scripted.Transcript | undefined
      const spy = Scripted.make("spy", (turn, transcript) => {
        seen = transcript
        return turn < 2 ? Scripted.call("list_files") : Scripted.text("done")
      })
      yield* converse(["a"]).pipe(Effect.provide(Scripted.layer(spy)))
      expect(seen?.turn).toBe(2)
      expect(seen?.task).toBe("Which log file mentions a timeout?")
      expect(seen?.tools).toEqual(["list_files", "read_file"])
      expect(seen?.toolResults).toEqual(['["a"]', '["a"]'])
      expect(seen?.lastToolResult).toBe('["a"]')
      expect(seen?.saw("nowhere")).toBe(false)
    })
  )

  it.effect("makes one turn of text and several calls", () =>
    Effect.gen(function* () {
      const reply = Scripted.turn(
        Scripted.text("Both."),
        Scripted.call("list_files"),
        Scripted.call("read_file", { path: "a" }, { id: "" })
      )
      const layer = Scripted.layer(Scripted.make("both", [reply]))
      const response = yield* Effect.provide(generate(start), layer)
      expect(response.text).toBe("Both.")
      expect(callsOf(response.content)).toEqual([
        { id: "call_0_0", name: "list_files", params: {} },
        { id: "", name: "read_file", params: { path: "a" } }
      ])
      expect(response.finishReason).toBe("tool-calls")
      const streamed = yield* Effect.provide(collect(start), layer)
      expect(callsOf(streamed.parts)).toEqual(callsOf(response.content))
      expect(textOf(streamed.parts)).toBe("Both.")
      expect(finishOf(streamed.parts)?.usage).toEqual(response.usage)
    })
  )

  it.effect("streams text word by word", () =>
    Effect.gen(function* () {
      const { parts } = yield* collect(start)
      const deltas = parts.flatMap((part) => (part.type === "text-delta" ? [part.delta] : []))
      expect(deltas).toEqual(["One ", "two  ", "three"])
    }).pipe(Effect.provide(Scripted.layer(Scripted.make("s", [Scripted.text("One two  three")]))))
  )

  it.effect("passes on arguments that are not JSON as they are", () =>
    Effect.gen(function* () {
      const response = yield* generate(start)
      expect(callsOf(response.content)[0]?.params).toBe('{"path": ')
    }).pipe(Effect.provide(Scripted.layer(Scripted.make("raw", [Scripted.call("read_file", '{"path": ')]))))
  )

  it.effect("names script and turn when it has run out", () =>
    Effect.gen(function* () {
      const error = yield* errorOf(generate([...start, Prompt.makeMessage("assistant", { content: [] })]))
      expect(error.reason._tag).toBe("InvalidRequestError")
      expect(error.message).toContain('script "short" has no reply for turn 1')
      expect(error.isRetryable).toBe(false)
    }).pipe(Effect.provide(Scripted.layer(Scripted.make("short", [Scripted.text("only this")]))))
  )

  it.effect("says what a script threw", () =>
    Effect.gen(function* () {
      const error = yield* errorOf(generate(start))
      expect(error.message).toContain('script "bad" threw at turn 0: oops')
    }).pipe(
      Effect.provide(
        Scripted.layer(
          Scripted.make("bad", () => {
            throw new Error("oops")
          })
        )
      )
    )
  )

  it.effect("takes its time on the Clock", () =>
    Effect.gen(function* () {
      const fiber = yield* Effect.forkChild(generate(start), { startImmediately: true })
      yield* TestClock.adjust("1999 millis")
      expect(fiber.pollUnsafe()).toBeUndefined()
      yield* TestClock.adjust("1 millis")
      expect((yield* Fiber.join(fiber)).text).toBe("late")
    }).pipe(
      Effect.provide(Scripted.layer(Scripted.make("slow", [Scripted.text("late")]), { latency: "2 seconds" }))
    )
  )

  it.effect("fails with the statuses of a real endpoint", () =>
    Effect.gen(function* () {
      const at = (reply: Scripted.Reply) =>
        errorOf(generate(start)).pipe(Effect.provide(Scripted.layer(Scripted.make("f", [reply]))))
      const limited = yield* at(Scripted.fail(429, { retryAfter: 7 }))
      expect(limited.reason._tag).toBe("RateLimitError")
      expect(limited.retryAfter).toEqual(Duration.seconds(7))
      expect((yield* at(Scripted.fail(500))).reason._tag).toBe("InternalProviderError")
      expect((yield* at(Scripted.fail(401))).reason._tag).toBe("AuthenticationError")
      expect((yield* at(Scripted.fail(400, { code: "context_length_exceeded" }))).message).toContain(
        "context window"
      )
      const lost = yield* at(Scripted.disconnect())
      expect(lost.reason._tag).toBe("NetworkError")
      expect(lost.isRetryable).toBe(true)
    })
  )

  it.effect("fails the first requests as told, then answers", () =>
    Effect.gen(function* () {
      expect((yield* errorOf(generate(start))).reason._tag).toBe("RateLimitError")
      expect((yield* errorOf(generate(start))).reason._tag).toBe("NetworkError")
      expect((yield* generate(start)).text).toBe("at last")
    }).pipe(
      Effect.provide(
        Scripted.layer(Scripted.make("flaky", [Scripted.text("at last")]), {
          failures: [Scripted.fail(429), Scripted.disconnect()]
        })
      )
    )
  )

  it.effect("breaks in mid-stream after what came", () =>
    Effect.gen(function* () {
      const { parts, error } = yield* collect(start)
      expect(textOf(parts)).toBe("One two ")
      expect(finishOf(parts)).toBeUndefined()
      expect(error?.isRetryable).toBe(true)
      expect(error?.message).toContain("after 2 events")
      expect((yield* errorOf(generate(start))).isRetryable).toBe(true)
    }).pipe(
      Effect.provide(
        Scripted.layer(Scripted.make("cut", [Scripted.text("One two three", { breakAfter: 2 })]))
      )
    )
  )

  it.effect("reports given usage, or none", () =>
    Effect.gen(function* () {
      const usage = { promptTokens: 100, completionTokens: 10, cachedTokens: 60 }
      const given = yield* Effect.provide(
        generate(start),
        Scripted.layer(Scripted.make("u", [Scripted.text("x")]), { usage })
      )
      expect(given.usage.inputTokens).toEqual({ total: 100, cacheRead: 60, cacheWrite: 0, uncached: 40 })
      expect(given.usage.outputTokens.total).toBe(10)
      const omitted = yield* Effect.provide(
        generate(start),
        Scripted.layer(Scripted.make("u", [Scripted.text("x", { usage: "omitted" })]), { usage })
      )
      expect(omitted.usage.inputTokens.total).toBeUndefined()
      expect(omitted.usage.outputTokens.total).toBeUndefined()
    })
  )

  it.effect("keeps to the output cap", () =>
    Effect.gen(function* () {
      const text = "one two three four five six seven eight nine ten"
      const capped = <A, E, R>(effect: Effect.Effect<A, E, R>, reply: Scripted.Reply) =>
        effect.pipe(
          RequestParams.add({ maxOutputTokens: 5 }),
          Effect.provide(Scripted.layer(Scripted.make("long", [reply])))
        )
      const cut = yield* capped(generate(start), Scripted.text(text))
      expect(cut.finishReason).toBe("length")
      expect(text.startsWith(cut.text)).toBe(true)
      expect(cut.text.length).toBeLessThan(text.length)
      expect(cut.usage.outputTokens.total).toBe(5)
      const call = yield* capped(
        generate(start),
        Scripted.call("read_file", { path: "a/long/path/to/a.log" })
      )
      expect(call.finishReason).toBe("length")
      expect(typeof call.toolCalls[0]?.params).toBe("string")
      expect((yield* capped(generate(start), Scripted.text("one"))).finishReason).toBe("stop")
    })
  )

  it.effect("calls nothing when told not to", () =>
    Effect.gen(function* () {
      const response = yield* LanguageModel.generateText({
        prompt: Prompt.fromMessages(start),
        toolkit: Files,
        toolChoice: "none",
        disableToolCallResolution: true
      })
      expect(response.toolCalls).toEqual([])
      expect(response.finishReason).toBe("stop")
    }).pipe(Effect.provide(Scripted.layer(Scripted.make("c", [Scripted.call("list_files")]))))
  )

  it.effect("gives objects as structured output", () =>
    Effect.gen(function* () {
      const response = yield* LanguageModel.generateObject({
        prompt: "x",
        schema: Schema.Struct({ n: Schema.Finite })
      })
      expect(response.value).toEqual({ n: 1 })
    }).pipe(Effect.provide(Scripted.layer(Scripted.make("o", [Scripted.text('{"n":1}')]))))
  )
})
