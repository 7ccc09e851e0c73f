import { assert, describe, it } from "@effect/vitest"
import * as AiError from "effect/ai/AiError"
import * as LanguageModel from "effect/ai/LanguageModel"
import type * as Prompt from "effect/ai/Prompt"
import type * as Response from "effect/ai/Response"
import * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/testing/TestClock"
import { Agent, type Message, type RunEvent } from "../../src/index.ts"
import { RequestParams } from "../../src/provider/RequestParams.ts"
import * as Tokens from "../../src/provider/Tokens.ts"
import { fold } from "../../src/run/Fold.ts"
import { load } from "../../src/store/RunStore.ts"
import * as Audit from "../../src/testing/Audit.ts"
import {
  awaited,
  call,
  checkEnding,
  disconnect,
  during,
  fail,
  forked,
  last,
  of,
  outcomeDuring,
  Tools,
  text,
  turn,
  types,
  until,
  world
} from "./modelSupport.ts"

const agent = Agent.make("analyst", { toolkit: Tools })
const run = Agent.run(agent, "go", { runId: "r" })
const minutes = 60_000

/** When each attempt began, in milliseconds of the TestClock. */
const attempts = (events: ReadonlyArray<RunEvent.RunEvent>): ReadonlyArray<number> =>
  of(events, "turn_started").map(({ at }) => Date.parse(at))

const gaps = (times: ReadonlyArray<number>): ReadonlyArray<number> =>
  times.slice(1).map((time, index) => time - (times[index] ?? 0))

/** A model made of effect/ai's own parts, for what no script can say. */
const rawModel = (
  reply: (request: LanguageModel.ProviderOptions, index: number) => Array<Response.PartEncoded>,
  stream?: (
    request: LanguageModel.ProviderOptions,
    index: number
  ) => Stream.Stream<Response.StreamPartEncoded, AiError.AiError>
) => {
  const requests: Array<LanguageModel.ProviderOptions> = []
  return {
    requests,
    layer: Layer.effect(
      LanguageModel.LanguageModel,
      LanguageModel.make({
        generateText: (request) => Effect.sync(() => reply(request, requests.push(request) - 1)),
        streamText: (request) =>
          Stream.suspend(() => stream?.(request, requests.push(request) - 1) ?? Stream.die("not streamed"))
      })
    )
  }
}

const finish = (reason: Response.FinishReason): Response.FinishPartEncoded =>
  ({
    type: "finish",
    reason,
    usage: { inputTokens: { total: 100 }, outputTokens: { total: 10 } },
    response: undefined
  }) as unknown as Response.FinishPartEncoded

describe("a failed attempt that was paid for", () => {
  it.effect(
    "is not tried again when it has used up the money: the limit is passed by one attempt at most",
    () =>
      Effect.gen(function* () {
        const w = yield* world([])
        const reason = new AiError.InvalidOutputError({
          description: "no JSON",
          usage: { promptTokens: 100, completionTokens: 10, totalTokens: 110 }
        })
        const failing = Effect.fail(AiError.make({ module: "m", method: "generateText", reason }))
        const model = Effect.map(
          LanguageModel.LanguageModel,
          (real): LanguageModel.LanguageModel => ({
            ...real,
            generateText: () => failing
          })
        )
        const limited = Agent.make("analyst", { toolkit: Tools, limits: { usd: 0.15 } })
        const run = Effect.flatMap(model, (service) =>
          Effect.provideService(
            Agent.run(limited, "go", { runId: "r" }),
            LanguageModel.LanguageModel,
            service
          )
        )
        const ending = yield* outcomeDuring(minutes, w.in(run))
        const events = yield* w.journal()
        const state = checkEnding(ending, events, "budget_exceeded", "max_budget")
        assert.lengthOf(of(events, "turn_failed"), 2)
        assert.strictEqual(state.costUsd, 0.2)
      })
  )
})

describe("retries", () => {
  it.effect("500: three more attempts, with growing waits, each written down, none of them a turn", () =>
    Effect.gen(function* () {
      const w = yield* world([fail(500), fail(500), fail(500), text("done")])
      const done = yield* outcomeDuring(minutes, w.in(run))
      assert(done._tag === "Completed")
      const journal = yield* w.journal()
      const state = checkEnding(done, journal, "completed", "answered")
      assert.strictEqual(state.turns, 1)
      assert.strictEqual(state.costUsd, 0.1)
      assert.deepStrictEqual(types(journal), [
        "run_started",
        ...["turn_started", "turn_failed", "turn_started", "turn_failed", "turn_started", "turn_failed"],
        "turn_started",
        "turn",
        "run_stopped"
      ])
      assert.deepStrictEqual(
        of(journal, "turn_started").map(({ attempt, turn }) => [turn, attempt]),
        [
          [1, 1],
          [1, 2],
          [1, 3],
          [1, 4]
        ]
      )
      const failures = of(journal, "turn_failed")
      assert.deepStrictEqual(
        failures.map(({ attempt, turn }) => [turn, attempt]),
        [
          [1, 1],
          [1, 2],
          [1, 3]
        ]
      )
      for (const { costUsd, detail, reason } of failures) {
        assert.strictEqual(costUsd, 0)
        assert.isNotEmpty(detail)
        assert.isNotEmpty(reason)
      }
      // Jittered exponential from 500 ms, and the event says how long.
      const waits = gaps(attempts(journal))
      waits.forEach((wait, index) => {
        assert.isAtLeast(wait, 500 * 2 ** index * 0.5, `wait ${index}`)
        assert.isAtMost(wait, 500 * 2 ** index * 1.5, `wait ${index}`)
        assert.approximately(failures[index]?.retryInMs ?? Number.NaN, wait, 1)
      })
    })
  )

  it.effect("the first attempt of the next turn is the first again", () =>
    Effect.gen(function* () {
      const w = yield* world([fail(500), call("list_files"), fail(500), text("done")])
      yield* outcomeDuring(minutes, w.in(run))
      assert.deepStrictEqual(
        of(yield* w.journal(), "turn_started").map(({ attempt, turn }) => [turn, attempt]),
        [
          [1, 1],
          [1, 2],
          [2, 1],
          [2, 2]
        ]
      )
    })
  )

  it.effect("429: not before the seconds that Retry-After says", () =>
    Effect.gen(function* () {
      const w = yield* world([fail(429, { retryAfter: 7 }), text("done")])
      const done = yield* outcomeDuring(minutes, w.in(run))
      assert.strictEqual(done._tag, "Completed")
      const [wait = 0] = gaps(attempts(yield* w.journal()))
      assert.isAtLeast(wait, 7000)
      assert.isAtMost(wait, 8000)
    })
  )

  it.effect("429 without Retry-After: as any other failure that may pass", () =>
    Effect.gen(function* () {
      const w = yield* world([fail(429), text("done")])
      const done = yield* outcomeDuring(minutes, w.in(run))
      assert.strictEqual(done._tag, "Completed")
      const [wait = 0] = gaps(attempts(yield* w.journal()))
      assert.isAtLeast(wait, 250)
      assert.isAtMost(wait, 1000)
    })
  )

  for (const [name, reply] of [
    ["a lost connection", disconnect()],
    ["503", fail(503)],
    ["529", fail(529)],
    ["408", fail(408)]
  ] as const) {
    it.effect(`${name} is tried again`, () =>
      Effect.gen(function* () {
        const w = yield* world([reply, text("done")])
        const done = yield* outcomeDuring(minutes, w.in(run))
        assert.strictEqual(done._tag, "Completed")
        yield* w.journal()
      })
    )
  }

  it.effect("a quota that is used up is not tried again, and ends as the provider's unavailability", () =>
    Effect.gen(function* () {
      const w = yield* world([
        call("list_files"),
        fail(429, {
          code: "insufficient_quota",
          message: "You exceeded your current quota."
        }),
        text("done")
      ])
      const exit = yield* outcomeDuring(minutes, w.in(run))
      assert.strictEqual(exit._tag, "ProviderUnavailable")
      assert.strictEqual(w.requests.length, 2)
      yield* w.journal()
    })
  )

  it.effect("exhausted: ProviderUnavailable, with the reason in words; nothing is lost, and it resumes", () =>
    Effect.gen(function* () {
      const w = yield* world([
        call("write_file", { path: "a" }),
        fail(500, { message: "the disk is on fire" }),
        fail(500, { message: "the disk is on fire" }),
        fail(500, { message: "the disk is on fire" }),
        fail(500, { message: "the disk is on fire" }),
        text("done")
      ])
      const exit = yield* outcomeDuring(minutes, w.in(run))
      assert(exit._tag === "ProviderUnavailable")
      const state = checkEnding(exit, yield* w.journal(), "interrupted", "provider")
      assert.include(state.detail ?? "", "the disk is on fire")
      assert.strictEqual(state.turns, 1)
      assert.strictEqual(w.requests.length, 5)
      const done = yield* outcomeDuring(minutes, w.in(Agent.resume(agent, "r")))
      assert.strictEqual(done._tag, "Completed")
      assert.deepStrictEqual(w.work.started, ["write_file a"])
      assert.strictEqual(w.requests.length, 6)
      checkEnding(done, yield* w.journal(), "completed", "answered")
    })
  )

  it.effect("as many as the policy says", () =>
    Effect.gen(function* () {
      const none = Agent.make("analyst", { policy: { modelRetries: 0 } })
      const w = yield* world([fail(500), text("done")])
      const exit = yield* outcomeDuring(minutes, w.in(Agent.run(none, "go", { runId: "r" })))
      assert.strictEqual(exit._tag, "ProviderUnavailable")
      assert.strictEqual(w.requests.length, 1)
      yield* w.journal()
    })
  )

  it.effect("a wait that would pass the deadline is not begun", () =>
    Effect.gen(function* () {
      const w = yield* world([call("list_files"), fail(429, { retryAfter: 30 }), text("done")])
      const started = yield* forked(
        w.in(
          Agent.outcome(
            Agent.run(agent, "go", {
              runId: "r",
              limits: { time: "10 seconds" }
            })
          )
        )
      )
      // Without any time going by.
      yield* until(() => started.pollUnsafe() !== undefined)
      const exit = yield* Effect.flatten(awaited(started))
      assert.include(["ProviderUnavailable", "BudgetExceeded"], exit._tag)
      const journal = yield* w.journal()
      assert.strictEqual(last(journal, "run_stopped").elapsedMs, 0)
      assert.strictEqual(w.requests.length, 2)
      const done = yield* outcomeDuring(minutes, w.in(Agent.resume(agent, "r")))
      assert.strictEqual(done._tag, "Completed")
      yield* w.journal()
    })
  )
})

describe("refusals", () => {
  for (const status of [401, 403]) {
    it.effect(`${status} before any turn: failed, provider_refused`, () =>
      Effect.gen(function* () {
        const w = yield* world([fail(status, { message: "bad key" }), text("done")])
        const exit = yield* outcomeDuring(minutes, w.in(run))
        assert(exit._tag === "RunFailed")
        assert.strictEqual(exit.reason, "provider_refused")
        assert.strictEqual(w.requests.length, 1)
        checkEnding(exit, yield* w.journal(), "failed", "provider_refused")
      })
    )

    it.effect(`${status} after a turn: a rotated key does not destroy the run`, () =>
      Effect.gen(function* () {
        const w = yield* world([call("write_file", { path: "a" }), fail(status), text("done")])
        const exit = yield* outcomeDuring(minutes, w.in(run))
        assert(exit._tag === "ProviderUnavailable")
        assert.strictEqual(w.requests.length, 2)
        checkEnding(exit, yield* w.journal(), "interrupted", "provider")
        const done = yield* outcomeDuring(minutes, w.in(Agent.resume(agent, "r")))
        assert.strictEqual(done._tag, "Completed")
        assert.deepStrictEqual(w.work.started, ["write_file a"])
        yield* w.journal()
      })
    )
  }

  it.effect("401 after a turn that was lost in a Stop is still before any turn", () =>
    Effect.gen(function* () {
      const w = yield* world([text("late"), fail(401)], { latency: "1 minute" })
      const fiber = yield* forked(w.in(run))
      yield* TestClock.adjust("10 seconds")
      yield* Fiber.interrupt(fiber)
      const exit = yield* outcomeDuring(minutes, w.in(Agent.resume(agent, "r")))
      assert.strictEqual(exit.run.turns, 1)
      checkEnding(exit, yield* w.journal(), "failed", "provider_refused")
    })
  )

  it.effect("401 after an empty reply is after a turn", () =>
    Effect.gen(function* () {
      const w = yield* world([text(""), fail(401)])
      const exit = yield* outcomeDuring(minutes, w.in(run))
      checkEnding(exit, yield* w.journal(), "interrupted", "provider")
    })
  )

  it.effect("401 after a failed attempt that was no turn is still before any turn", () =>
    Effect.gen(function* () {
      const w = yield* world([fail(500), fail(401)])
      const exit = yield* outcomeDuring(minutes, w.in(run))
      assert.strictEqual(exit._tag, "RunFailed")
      yield* w.journal()
    })
  )

  for (const [name, reply] of [
    ["400", fail(400, { message: "unknown field" })],
    [
      "400 for a context that overflows",
      fail(400, {
        code: "context_length_exceeded",
        message: "maximum context"
      })
    ],
    ["413", fail(413)],
    ["404", fail(404, { message: "no such model" })]
  ] as const) {
    it.effect(`${name}: failed at once, also after a turn`, () =>
      Effect.gen(function* () {
        const w = yield* world([call("list_files"), reply, text("done")])
        const exit = yield* outcomeDuring(minutes, w.in(run))
        assert(exit._tag === "RunFailed", exit._tag)
        assert.strictEqual(exit.reason, "provider_refused")
        assert.strictEqual(w.requests.length, 2)
        const state = checkEnding(exit, yield* w.journal(), "failed", "provider_refused")
        assert.strictEqual(state.turns, 1)
        assert.strictEqual(state.costUsd, 0.1, "case 8: what was paid is told")
      })
    )
  }
})

describe("a reply that is cut off", () => {
  it.effect("by length: its calls do not run, its cost counts, and the model is told", () =>
    Effect.gen(function* () {
      const w = yield* world([
        turn(
          text("Let me"),
          call("write_file", { path: "a" }, { id: "c1", finish: "length" }),
          call("read_file", '{"path": "b', { id: "c2", finish: "length" })
        ),
        text("done")
      ])
      const done = yield* outcomeDuring(minutes, w.in(run))
      assert(done._tag === "Completed")
      assert.deepStrictEqual(w.work.started, [])
      const journal = yield* w.journal()
      const [cut] = of(journal, "turn")
      assert.strictEqual(cut?.finish, "length")
      assert.isFalse(cut?.answers)
      assert.strictEqual(done.run.turns, 2)
      assert.strictEqual(done.run.costUsd, 0.2)
      // The transcript is valid for any provider (checked by journal()), keeps the text, and says what happened.
      const sent = w.requests[1]?.messages ?? []
      assert.include(JSON.stringify(sent), "Let me")
      assert.notStrictEqual(sent.at(-1)?.role, "assistant")
      assert.match(JSON.stringify(sent.slice(2)), /cut|length|incomplete|limit/i)
      checkEnding(done, journal, "completed", "answered")
    })
  )

  it.effect("by length, text only: no completion, and the answer is the text of both", () =>
    Effect.gen(function* () {
      const w = yield* world([text("The answer is", { finish: "length" }), text(" 42.")])
      const done = yield* outcomeDuring(minutes, w.in(run))
      assert(done._tag === "Completed")
      assert.strictEqual(done.run.turns, 2)
      assert.strictEqual(done.output, "The answer is 42.")
      const told = w.requests[1]?.messages.at(-1)
      assert.strictEqual(told?.role, "user")
      assert.match(JSON.stringify(told), /exactly where it ended, without repeating/)
      yield* w.journal()
    })
  )

  it.effect("by length, with nothing at all in it", () =>
    Effect.gen(function* () {
      const w = yield* world([text("", { finish: "length" }), text("done")])
      const done = yield* outcomeDuring(minutes, w.in(run))
      assert.strictEqual(done._tag, "Completed")
      assert.strictEqual(done.run.turns, 2)
      yield* w.journal()
    })
  )

  it.effect("by length for ever ends at the turn limit", () =>
    Effect.gen(function* () {
      const w = yield* world(Array.from({ length: 20 }, () => text("and then", { finish: "length" })))
      const exit = yield* outcomeDuring(minutes, w.in(run))
      assert.strictEqual(exit._tag, "MaxTurnsExceeded")
      yield* w.journal()
    })
  )

  it.effect("by the content filter: no answer, no calls", () =>
    Effect.gen(function* () {
      const w = yield* world([
        turn(text("I will"), call("write_file", { path: "a" }, { finish: "content_filter" })),
        text("done")
      ])
      const done = yield* outcomeDuring(minutes, w.in(run))
      assert.strictEqual(done._tag, "Completed")
      assert.deepStrictEqual(w.work.started, [])
      assert.strictEqual(done.run.turns, 2)
      assert.strictEqual(done.run.costUsd, 0.2)
      yield* w.journal()
    })
  )

  it.effect(
    "by the content filter: its calls do not run later either, not even when the run is forced on",
    () =>
      Effect.gen(function* () {
        const w = yield* world([
          turn(text("I will"), call("write_file", { path: "a" }, { finish: "content_filter" })),
          text("done")
        ])
        const exit = yield* outcomeDuring(minutes, w.in(run))
        assert.strictEqual(exit.run.costUsd >= 0.1, true)
        yield* outcomeDuring(minutes, w.in(Agent.resume(agent, "r", { force: true })))
        assert.deepStrictEqual(w.work.started, [])
        yield* w.journal()
      })
  )

  it.effect("a submission that is cut off does not complete the run", () =>
    Effect.gen(function* () {
      const contract = Agent.make("contract", {
        output: Schema.Struct({ n: Schema.Int })
      })
      const w = yield* world([
        call("submit_result", { n: 1 }, { id: "s", finish: "length" }),
        call("submit_result", { n: 2 }, { id: "s" })
      ])
      const done = yield* outcomeDuring(minutes, w.in(Agent.run(contract, "go", { runId: "r" })))
      assert(done._tag === "Completed")
      assert.deepStrictEqual(done.output, { n: 2 })
      yield* w.journal()
    })
  )

  it.effect("finish `error` of a reply that came whole: the same", () =>
    Effect.gen(function* () {
      const w = yield* world([])
      const model = rawModel((_, index) =>
        index === 0
          ? [
              { type: "text", text: "I write it. " },
              {
                type: "tool-call",
                id: "c1",
                name: "write_file",
                params: { path: "a" }
              },
              finish("error")
            ]
          : [{ type: "text", text: "I did not." }, finish("stop")]
      )
      const done = yield* outcomeDuring(minutes, w.in(Effect.provide(run, model.layer)))
      assert(done._tag === "Completed")
      assert.strictEqual(done.output, "I did not.")
      assert.deepStrictEqual(w.work.started, [])
      assert.strictEqual(model.requests.length, 2)
      yield* w.journal()
    })
  )

  const streamed = Stream.runCollect(Agent.stream(agent, "go", { runId: "r" }))

  it.effect(
    "a stream that breaks after some text: its text is kept, its cost counts, and the run goes on",
    () =>
      Effect.gen(function* () {
        yield* Tokens.load // what a broken stream has used is counted
        const w = yield* world([text("one two three four", { breakAfter: 2 }), text("three four")])
        const seen = yield* forked(w.in(streamed)).pipe(
          Effect.flatMap((fiber) => awaited(fiber, minutes)),
          Effect.flatten
        )
        assert.strictEqual(seen.at(-1)?.type, "run_stopped")
        const journal = yield* w.journal()
        const stopped = last(journal, "run_stopped")
        assert.strictEqual(stopped.status, "completed")
        const { state } = yield* w.in(load("r"))
        assert.strictEqual(state.result, "one two three four")
        const failedOrCut = [
          ...of(journal, "turn_failed"),
          ...of(journal, "turn").filter(({ answers }) => !answers)
        ]
        assert.strictEqual(failedOrCut.length, 1)
        assert.isAbove(failedOrCut[0]?.costUsd ?? 0, 0, "what was written had to be paid")
      })
  )

  it.effect("a stream that breaks inside a call: the call is not run", () =>
    Effect.gen(function* () {
      yield* Tokens.load // what a broken stream has used is counted
      const w = yield* world([
        turn(
          text("Wait. "),
          call("write_file", { path: "a very long path indeed" }, { id: "c", breakAfter: 3 })
        ),
        call("write_file", { path: "b" }, { id: "c" }),
        text("done")
      ])
      const seen = yield* forked(w.in(streamed)).pipe(
        Effect.flatMap((fiber) => awaited(fiber, minutes)),
        Effect.flatten
      )
      assert.strictEqual(seen.at(-1)?.type, "run_stopped")
      assert.deepStrictEqual(w.work.started, ["write_file b"])
      yield* w.journal()
    })
  )

  it.effect("a stream that breaks after a whole call: the call is not run", () =>
    Effect.gen(function* () {
      yield* Tokens.load // what a broken stream has used is counted
      const w = yield* world([])
      const model = rawModel(
        () => [],
        (_, index) =>
          index === 0
            ? Stream.concat(
                Stream.make({
                  type: "tool-call",
                  id: "c1",
                  name: "write_file",
                  params: { path: "a" }
                } as const),
                Stream.fail(
                  AiError.make({
                    module: "test",
                    method: "streamText",
                    reason: new AiError.InternalProviderError({
                      description: "gone"
                    })
                  })
                )
              )
            : Stream.make<ReadonlyArray<Response.StreamPartEncoded>>(
                { type: "text-start", id: "t" },
                { type: "text-delta", id: "t", delta: "done" },
                { type: "text-end", id: "t" },
                finish("stop")
              )
      )
      const seen = yield* forked(w.in(Effect.provide(streamed, model.layer))).pipe(
        Effect.flatMap((fiber) => awaited(fiber, minutes)),
        Effect.flatten
      )
      assert.strictEqual(seen.at(-1)?.type, "run_stopped")
      assert.deepStrictEqual(w.work.started, [])
      assert.strictEqual(model.requests.length, 2)
      yield* w.journal()
    })
  )

  it.effect("a stream with an error part in it: an incomplete turn, not a whole one", () =>
    Effect.gen(function* () {
      yield* Tokens.load // what a broken stream has used is counted
      const w = yield* world([])
      const model = rawModel(
        () => [],
        (_, index) =>
          index === 0
            ? Stream.make<ReadonlyArray<Response.StreamPartEncoded>>(
                { type: "text-start", id: "t" },
                { type: "text-delta", id: "t", delta: "Some" },
                {
                  type: "tool-call",
                  id: "c1",
                  name: "write_file",
                  params: { path: "a" }
                },
                { type: "error", error: "overloaded" },
                finish("stop")
              )
            : Stream.make<ReadonlyArray<Response.StreamPartEncoded>>(
                { type: "text-start", id: "t" },
                { type: "text-delta", id: "t", delta: "done" },
                { type: "text-end", id: "t" },
                finish("stop")
              )
      )
      const seen = yield* forked(w.in(Effect.provide(streamed, model.layer))).pipe(
        Effect.flatMap((fiber) => awaited(fiber, minutes)),
        Effect.flatten
      )
      assert.strictEqual(seen.at(-1)?.type, "run_stopped")
      assert.deepStrictEqual(w.work.started, [])
      assert.strictEqual(model.requests.length, 2)
      yield* w.journal()
    })
  )

  it.effect("a stream that breaks every time: ProviderUnavailable in the end, with what it cost", () =>
    Effect.gen(function* () {
      yield* Tokens.load // what a broken stream has used is counted
      const w = yield* world(Array.from({ length: 30 }, () => text("one two three", { breakAfter: 1 })))
      const fiber = yield* forked(w.in(Effect.exit(streamed)))
      yield* Effect.flatten(awaited(fiber, 30 * minutes))
      const stopped = last(yield* w.journal(), "run_stopped")
      assert.include(["provider", "max_turns"], stopped.reason)
      assert.isAbove(stopped.costUsd, 0)
    })
  )
})

describe("an error in the middle of a reply", () => {
  const textOf = (text: string): ReadonlyArray<Response.StreamPartEncoded> => [
    { type: "text-start", id: "t" },
    { type: "text-delta", id: "t", delta: text }
  ]
  const thought: ReadonlyArray<Response.StreamPartEncoded> = [
    { type: "reasoning-start", id: "r" },
    { type: "reasoning-delta", id: "r", delta: "Hm." }
  ]
  const whole: ReadonlyArray<Response.StreamPartEncoded> = [
    ...textOf("end."),
    { type: "text-end", id: "t" },
    finish("stop")
  ]
  const failing = (reason: AiError.AiErrorReason) =>
    Stream.fail(AiError.make({ module: "test", method: "streamText", reason }))
  const busy = (seconds?: number) =>
    new AiError.RateLimitError(seconds === undefined ? {} : { retryAfter: Duration.seconds(seconds) })
  const quota = new AiError.QuotaExhaustedError({})
  const broke = new AiError.NetworkError({ reason: "TransportError", method: "POST", url: "u" })

  /** A run whose first replies break so, each after the same parts. */
  const breaking = (
    errors: ReadonlyArray<AiError.AiErrorReason>,
    before: ReadonlyArray<Response.StreamPartEncoded> = textOf("half "),
    bot = agent
  ) =>
    Effect.gen(function* () {
      yield* Tokens.load // what a broken stream has used is counted
      const w = yield* world([])
      const model = rawModel(
        () => [],
        (_, index) => {
          const error = errors[index]
          return error === undefined
            ? Stream.fromIterable(whole)
            : Stream.concat(Stream.fromIterable(before), failing(error))
        }
      )
      const streamed = Stream.runDrain(Agent.stream(bot, "go", { runId: "r" }))
      yield* during(10 * minutes, w.in(Effect.provide(streamed, model.layer)))
      const events = yield* w.journal()
      const { findings } = yield* w.in(Audit.run("r"))
      assert.deepStrictEqual(findings, [])
      return {
        events,
        gaps: gaps(attempts(events)),
        stopped: last(events, "run_stopped"),
        state: fold(events)
      }
    })

  const final: ReadonlyArray<readonly [string, AiError.AiErrorReason, string]> = [
    ["a quota", quota, "provider"],
    ["a key", new AiError.AuthenticationError({ kind: "InvalidKey", description: "no" }), "provider"],
    ["a request", new AiError.InvalidRequestError({ description: "no" }), "provider_refused"]
  ]
  for (const [name, reason, ending] of final) {
    it.effect(
      `${name} that the provider turns away ends the run at once, and the reply is kept and paid`,
      () =>
        Effect.gen(function* () {
          const { events, stopped } = yield* breaking(Array.from({ length: 9 }, () => reason))
          assert.strictEqual(stopped.reason, ending)
          const turns = of(events, "turn")
          assert.strictEqual(turns.length, 1)
          assert.strictEqual(turns[0]?.error?.reason, reason._tag)
          assert.strictEqual(turns[0]?.error?.detail, stopped.detail)
          assert.deepStrictEqual(turns[0]?.message.content, [{ type: "text", text: "half " }])
          assert.isAbove(stopped.costUsd, 0)
        })
    )
  }

  it.effect("429: not before the seconds that Retry-After says, and the answer goes on", () =>
    Effect.gen(function* () {
      const { gaps, state } = yield* breaking([busy(30)])
      assert.strictEqual(gaps.length, 1)
      assert.isAtLeast(gaps[0] ?? 0, 30_000)
      assert.strictEqual(state?.result, "half end.")
    })
  )

  it.effect("longer than anybody waits: the run stops, and may be resumed", () =>
    Effect.gen(function* () {
      const { events, stopped } = yield* breaking([busy(7200)])
      assert.strictEqual(stopped.reason, "provider")
      assert.strictEqual(of(events, "turn").length, 1)
    })
  )

  it.effect("as many in a row as the policy says, with growing waits", () =>
    Effect.gen(function* () {
      const { gaps, stopped } = yield* breaking(Array.from({ length: 9 }, () => busy()))
      assert.strictEqual(stopped.reason, "provider")
      assert.strictEqual(gaps.length, 3)
      for (const [index, gap] of gaps.entries()) assert.isAtLeast(gap, 400 * 2 ** index)
      const none = yield* breaking(
        [busy()],
        undefined,
        Agent.make("a", { toolkit: Tools, policy: { modelRetries: 0 } })
      )
      assert.deepStrictEqual([none.stopped.reason, none.gaps], ["provider", []])
    })
  )

  it.effect("no wait is begun for which the limits leave nothing", () =>
    Effect.gen(function* () {
      const bot = Agent.make("a", { toolkit: Tools, limits: { turns: 1 } })
      const { events, stopped } = yield* breaking([busy(30)], undefined, bot)
      assert.strictEqual(stopped.reason, "max_turns")
      assert.strictEqual(Date.parse(stopped.at), attempts(events)[0])
    })
  )

  it.effect("a connection that breaks in the middle of an answer is no reason to wait, however often", () =>
    Effect.gen(function* () {
      const { gaps, state } = yield* breaking(Array.from({ length: 6 }, () => broke))
      assert.deepStrictEqual(gaps, [0, 0, 0, 0, 0, 0])
      assert.strictEqual(state?.result, `${"half ".repeat(6)}end.`)
    })
  )

  it.effect("a connection that breaks before there is anything to go on with is", () =>
    Effect.gen(function* () {
      const { events, gaps, stopped } = yield* breaking(
        Array.from({ length: 9 }, () => broke),
        thought
      )
      assert.strictEqual(stopped.reason, "provider")
      assert.isAtMost(of(events, "turn").length, 4)
      for (const gap of gaps) assert.isAbove(gap, 0)
    })
  )

  const cyclic: { self?: unknown } = {}
  cyclic.self = cyclic
  const odd: Record<string, readonly [unknown, string]> = {
    "a cycle": [cyclic, "no JSON"],
    "a bigint": [{ code: 5n }, "no JSON"],
    "an Error": [new TypeError("the socket is gone"), "the socket is gone"],
    "an object": [{ type: "overloaded_error" }, "overloaded_error"],
    nothing: [undefined, "null"],
    "a function": [() => 1, "null"]
  }
  for (const [name, [error, words]] of Object.entries(odd)) {
    it.effect(`that is ${name} is one of the provider, in words`, () =>
      Effect.gen(function* () {
        const w = yield* world([])
        const model = rawModel(
          () => [],
          () => Stream.make<ReadonlyArray<Response.StreamPartEncoded>>({ type: "error", error })
        )
        const done = yield* outcomeDuring(
          minutes,
          w.in(
            Effect.provide(
              Effect.andThen(Stream.runDrain(Agent.stream(agent, "go", { runId: "r" })), run),
              model.layer
            )
          )
        )
        assert(done._tag === "ProviderUnavailable", done._tag)
        assert.include(done.message, words)
        yield* w.journal()
      })
    )
  }
})

describe("a model that fails with what is no error of a model", () => {
  const odd: Record<string, unknown> = {
    "a text": "gone",
    nothing: undefined,
    "an object": { message: "gone" }
  }
  for (const [name, error] of Object.entries(odd)) {
    for (const before of [[], ["half "]]) {
      it.effect(`${name}, after ${before.length} parts: is unavailable, and has no bug`, () =>
        Effect.gen(function* () {
          yield* Tokens.load // what a broken stream has used is counted
          const w = yield* world([])
          const failure = Effect.fail(error) as Effect.Effect<never>
          const parts = before.map((delta) => ({ type: "text-delta", id: "t", delta }) as const)
          const start = before.map(() => ({ type: "text-start", id: "t" }) as const)
          const stream = Stream.concat(
            Stream.fromIterable([...start, ...parts]),
            Stream.fromEffectDrain(failure)
          )
          const model = Layer.effect(
            LanguageModel.LanguageModel,
            LanguageModel.make({ generateText: () => failure, streamText: () => stream })
          )
          const streamed = Effect.andThen(Stream.runDrain(Agent.stream(agent, "go", { runId: "r" })), run)
          const done = yield* outcomeDuring(minutes, w.in(Effect.provide(streamed, model)))
          checkEnding(done, yield* w.journal(), "interrupted", "provider")
          const whole = yield* outcomeDuring(
            minutes,
            w.in(Effect.provide(Agent.run(agent, "go", { runId: "w" }), model))
          )
          assert.strictEqual(whole._tag, "ProviderUnavailable")
        })
      )
    }
  }
})

describe("text beside a call that was cut off", () => {
  const cutCall: ReadonlyArray<Response.StreamPartEncoded> = [
    { type: "tool-params-start", id: "c", name: "read_file" },
    { type: "tool-params-delta", id: "c", delta: '{"path": "a' }
  ]
  const says = (id: string, text: string): ReadonlyArray<Response.StreamPartEncoded> => [
    { type: "text-start", id },
    { type: "text-delta", id, delta: text },
    { type: "text-end", id }
  ]
  it.effect("is said on the way to it, and no part of the answer", () =>
    Effect.gen(function* () {
      yield* Tokens.load // what was cut off is counted
      const w = yield* world([])
      const replies = [
        [...says("1", "half "), finish("length")],
        [...says("2", "I look. "), ...cutCall, finish("length")],
        [...says("3", "end"), finish("stop")]
      ]
      const model = rawModel(
        () => [],
        (_, index) => Stream.fromIterable(replies[index] ?? [])
      )
      const streamed = Stream.runDrain(Agent.stream(agent, "go", { runId: "r" }))
      yield* during(minutes, w.in(Effect.provide(streamed, model.layer)))
      assert.strictEqual(fold(yield* w.journal())?.result, "end")
    })
  )
})

describe("an odd reply", () => {
  it.effect("an empty one is no answer; the model is told, and the transcript has no empty message", () =>
    Effect.gen(function* () {
      const w = yield* world([text(""), text("done")])
      const done = yield* outcomeDuring(minutes, w.in(run))
      assert(done._tag === "Completed")
      assert.strictEqual(done.output, "done")
      assert.strictEqual(done.run.turns, 2)
      const sent = w.requests[1]?.messages ?? []
      assert.strictEqual(sent.at(-1)?.role, "user")
      assert.isTrue(sent.every((message) => message.role !== "assistant"))
      yield* w.journal()
    })
  )

  const filtered = text("I can", { finish: "content_filter" })
  const nothing = {
    reason: "provider",
    tag: "ProviderUnavailable",
    says: /3 replies .*neither text nor a call/
  }
  for (const [name, replies, { reason, says, tag }] of [
    ["empty ones", [text(""), text(""), text("")], nothing],
    ["ones of reasoning alone", Array.from({ length: 3 }, () => text("", { reasoning: "Hm." })), nothing],
    [
      "ones that are cut off before any text",
      Array.from({ length: 3 }, () => text("", { finish: "length" })),
      nothing
    ],
    ["ones that the content filter has stopped, and empty ones", [filtered, text(""), filtered], nothing],
    [
      "ones that the content filter has stopped",
      [filtered, text("", { finish: "content_filter" }), filtered],
      { reason: "provider_refused", tag: "RunFailed", says: /content filter stopped 3 replies/ }
    ]
  ] as const) {
    it.effect(`three in a row end the run as ${reason}: ${name}; it can be taken up, and counts anew`, () =>
      Effect.gen(function* () {
        const [first, second] = replies
        const w = yield* world([...replies, first, second, text("done")])
        const exit = yield* outcomeDuring(minutes, w.in(run))
        assert.strictEqual(exit._tag, tag)
        assert.strictEqual(w.requests.length, 3)
        const stopped = last(yield* w.journal(), "run_stopped")
        assert.strictEqual(stopped.reason, reason)
        assert.match(stopped.detail, says)
        const done = yield* outcomeDuring(minutes, w.in(Agent.resume(agent, "r", { force: true })))
        assert(done._tag === "Completed")
        assert.strictEqual(done.output, "done")
        assert.strictEqual(done.run.turns, 6)
        yield* w.journal()
      })
    )
  }

  it.effect("two in a row, and two again after a call, are borne with", () =>
    Effect.gen(function* () {
      const w = yield* world([
        text(""),
        filtered,
        call("read_file", { path: "a" }),
        filtered,
        text(""),
        text("done")
      ])
      const done = yield* outcomeDuring(minutes, w.in(run))
      assert(done._tag === "Completed")
      assert.strictEqual(done.output, "done")
      assert.strictEqual(done.run.turns, 6)
      yield* w.journal()
    })
  )

  it.effect(
    "one that the content filter has stopped: the model is told so, and its answer is the next one alone",
    () =>
      Effect.gen(function* () {
        const w = yield* world([text("One, ", { finish: "length" }), filtered, text("Both.")])
        const done = yield* outcomeDuring(minutes, w.in(run))
        assert(done._tag === "Completed")
        assert.strictEqual(done.output, "Both.")
        assert.match(
          JSON.stringify(w.requests[2]?.messages.at(-1)),
          /content filter. Answer anew, as a whole/
        )
        yield* w.journal()
      })
  )

  it.effect("reasoning alone is no answer, and no empty message is sent for it", () =>
    Effect.gen(function* () {
      const w = yield* world([text("", { reasoning: "Hm." }), text("done", { reasoning: "Ah." })])
      const done = yield* outcomeDuring(minutes, w.in(run))
      assert(done._tag === "Completed")
      assert.strictEqual(done.output, "done")
      assert.strictEqual(done.run.turns, 2)
      assert.notInclude(JSON.stringify(w.requests[1]?.messages), "assistant")
      assert.include(JSON.stringify(done.run.messages), "Hm.")
      yield* w.journal()
    })
  )

  it.effect("usage that is left out is counted, priced and marked", () =>
    Effect.gen(function* () {
      const replies = [call("read_file", { path: "a.log" }, { id: "c" }), text("It is a.log.")]
      const counted = yield* world(replies, { usage: "counted" })
      const omitted = yield* world(replies, { usage: "omitted" })
      const one = yield* outcomeDuring(minutes, counted.in(run))
      const two = yield* outcomeDuring(minutes, omitted.in(run))
      assert(one._tag === "Completed" && two._tag === "Completed")
      assert.deepStrictEqual(two.run.usage, one.run.usage)
      assert.isAbove(two.run.usage.promptTokens, 0)
      assert.strictEqual(two.run.costUsd, one.run.costUsd)
      assert.deepStrictEqual(
        of(yield* omitted.journal(), "turn").map(({ counted }) => counted),
        [true, true]
      )
      assert.deepStrictEqual(
        of(yield* counted.journal(), "turn").map(({ counted }) => counted),
        [undefined, undefined]
      )
    })
  )

  it.effect("usage of cached tokens is kept", () =>
    Effect.gen(function* () {
      const w = yield* world([
        text("done", {
          usage: { promptTokens: 100, completionTokens: 10, cachedTokens: 60 }
        })
      ])
      const done = yield* outcomeDuring(minutes, w.in(run))
      assert(done._tag === "Completed")
      assert.strictEqual(done.run.usage.cachedTokens, 60)
      yield* w.journal()
    })
  )

  it.effect("what the provider executed itself is never pending", () =>
    Effect.gen(function* () {
      const w = yield* world([])
      const model = rawModel(() => [
        {
          type: "tool-call",
          id: "p1",
          name: "list_files",
          params: {},
          providerExecuted: true
        },
        {
          type: "tool-result",
          id: "p1",
          name: "list_files",
          isFailure: false,
          result: ["x.log"],
          providerExecuted: true
        },
        { type: "text", text: "x.log" },
        finish("stop")
      ])
      const done = yield* outcomeDuring(minutes, w.in(Effect.provide(run, model.layer)))
      assert(done._tag === "Completed", done._tag)
      assert.strictEqual(done.output, "x.log")
      assert.deepStrictEqual(w.work.started, [])
      assert.strictEqual(done.run.toolCalls, 0)
      yield* w.journal()
    })
  )

  const search = (pause: boolean): Array<Response.PartEncoded> => [
    { type: "tool-call", id: "p1", name: "list_files", params: {}, providerExecuted: true },
    ...(pause
      ? []
      : [
          {
            type: "tool-result" as const,
            id: "p1",
            name: "list_files",
            isFailure: false,
            result: ["x.log"],
            providerExecuted: true
          }
        ])
  ]
  const pauses: ReadonlyArray<readonly [string, ReadonlyArray<Array<Response.PartEncoded>>, string]> = [
    [
      "in the middle of an answer: the answer is the text of both",
      [[{ type: "text", text: "First half, " }, finish("pause")]],
      "First half, second half."
    ],
    [
      "beside what the provider runs: what was said on the way to it is no part of the answer",
      [[{ type: "text", text: "I search." }, ...search(false), finish("pause")]],
      "second half."
    ],
    [
      "more than once",
      [
        [{ type: "text", text: "First, " }, finish("pause")],
        [{ type: "reasoning", text: "Hm." }, { type: "text", text: "then " }, finish("pause")]
      ],
      "First, then second half."
    ]
  ]
  for (const [name, before, output] of pauses) {
    it.effect(`a pause is no answer, and the model goes on: ${name}`, () =>
      Effect.gen(function* () {
        const w = yield* world([])
        const model = rawModel(
          (_, index) => before[index] ?? [{ type: "text", text: "second half." }, finish("stop")]
        )
        const done = yield* outcomeDuring(minutes, w.in(Effect.provide(run, model.layer)))
        assert(done._tag === "Completed", done._tag)
        assert.strictEqual(done.output, output)
        assert.strictEqual(done.run.turns, before.length + 1)
        yield* w.journal()
      })
    )
  }

  const emptyPauses: Record<string, Array<Response.PartEncoded>> = {
    "with nothing in it": [finish("pause")],
    "with blanks": [{ type: "text", text: " " }, finish("pause")],
    "with reasoning": [{ type: "reasoning", text: "Hm." }, finish("pause")]
  }
  for (const [name, parts] of Object.entries(emptyPauses)) {
    it.effect(`a pause ${name} brings nothing, and three of them end the run`, () =>
      Effect.gen(function* () {
        const w = yield* world([])
        const model = rawModel(() => parts)
        const done = yield* outcomeDuring(minutes, w.in(Effect.provide(run, model.layer)))
        const { turns } = checkEnding(done, yield* w.journal(), "interrupted", "provider")
        assert.strictEqual(turns, 3)
      })
    )
  }

  it.effect("a pause in the middle of what the provider runs is borne with", () =>
    Effect.gen(function* () {
      const w = yield* world([])
      const model = rawModel((_, index) =>
        index < 5 ? [...search(true), finish("pause")] : [{ type: "text", text: "Found." }, finish("stop")]
      )
      const done = yield* outcomeDuring(minutes, w.in(Effect.provide(run, model.layer)))
      assert(done._tag === "Completed", done._tag)
      assert.strictEqual(done.run.turns, 6)
      yield* w.journal()
    })
  )

  it.effect("a bug in the provider's adapter is a defect of the run; the call counts as lost", () =>
    Effect.gen(function* () {
      const w = yield* world([call("list_files")])
      yield* outcomeDuring(minutes, w.in(Agent.run(agent, "go", { runId: "r", limits: { turns: 1 } })))
      const model = rawModel(() => {
        throw new Error("undefined is not a function")
      })
      const resumed = Agent.resume(agent, "r", { limits: { turns: 9 } })
      const exit = yield* outcomeDuring(minutes, w.in(Effect.provide(resumed, model.layer)))
      assert(exit._tag === "RunFailed", exit._tag)
      assert.strictEqual(exit.reason, "defect")
      assert.strictEqual(exit.run.turns, 2)
      assert.isAbove(exit.run.costUsd, 0.1)
      checkEnding(exit, yield* w.journal(), "failed", "defect")
    })
  )
})

describe("a model that interrupts itself", () => {
  const said: Array<Response.StreamPartEncoded> = [
    { type: "text-start", id: "t" },
    { type: "text-delta", id: "t", delta: "half a" }
  ]
  /** One whose first calls end by themselves, and whose others answer. */
  const model = (calls: number, end: Effect.Effect<never>, before: typeof said = []) => {
    let called = 0
    const ends = Effect.suspend(() => (++called > calls ? Effect.void : end))
    const answer: Array<Response.PartEncoded> = [{ type: "text", text: "done" }, finish("stop")]
    const answered: Array<Response.StreamPartEncoded> = [
      { type: "text-start", id: "t" },
      { type: "text-delta", id: "t", delta: "done" },
      { type: "text-end", id: "t" },
      finish("stop")
    ]
    return Layer.effect(
      LanguageModel.LanguageModel,
      LanguageModel.make({
        generateText: () => Effect.as(ends, answer),
        streamText: () =>
          Stream.suspend(() =>
            called < calls
              ? Stream.concat(Stream.fromIterable(before), Stream.fromEffectDrain(ends))
              : Stream.fromIterable(answered)
          )
      })
    )
  }
  const ways = {
    whole: run,
    streamed: Effect.andThen(
      Stream.runDrain(Agent.stream(agent, "go", { runId: "r" })),
      // It has completed, and says so once more.
      Agent.resume(agent, "r")
    )
  }
  for (const [way, asked] of Object.entries(ways)) {
    it.effect(`${way}: is asked again`, () =>
      Effect.gen(function* () {
        const w = yield* world([])
        const done = yield* outcomeDuring(minutes, w.in(Effect.provide(asked, model(2, Effect.interrupt))))
        const journal = yield* w.journal()
        checkEnding(done, journal, "completed", "answered")
        assert.deepStrictEqual(
          of(journal, "turn_failed").map(({ reason }) => reason),
          ["InternalProviderError", "InternalProviderError"]
        )
      })
    )

    it.effect(`${way}: and does so for ever, is unavailable; nobody has stopped the run`, () =>
      Effect.gen(function* () {
        const w = yield* world([])
        const done = yield* outcomeDuring(minutes, w.in(Effect.provide(asked, model(99, Effect.interrupt))))
        assert(done._tag === "ProviderUnavailable", done._tag)
        assert.include(done.message, "the model call was interrupted from inside")
        checkEnding(done, yield* w.journal(), "interrupted", "provider")
      })
    )

    it.effect(`${way}: and dies while it does, has a bug; nobody has stopped the run`, () =>
      Effect.gen(function* () {
        const w = yield* world([])
        const both = Effect.failCause(Cause.combine(Cause.interrupt(), Cause.die(new Error("a bug"))))
        const done = yield* outcomeDuring(minutes, w.in(Effect.provide(asked, model(99, both))))
        assert(done._tag === "RunFailed", done._tag)
        assert.strictEqual(done.detail, "Error: a bug")
        checkEnding(done, yield* w.journal(), "failed", "defect")
      })
    )
  }

  it.effect("streamed: what has arrived before is a turn that was cut off", () =>
    Effect.gen(function* () {
      const w = yield* world([])
      const cut = model(1, Effect.interrupt, said)
      const done = yield* outcomeDuring(minutes, w.in(Effect.provide(ways.streamed, cut)))
      const journal = yield* w.journal()
      checkEnding(done, journal, "completed", "answered")
      assert.deepStrictEqual(
        of(journal, "turn").map(({ answers, message }) => [answers, message.content]),
        [
          [false, [{ type: "text", text: "half a" }]],
          [true, [{ type: "text", text: "done" }]]
        ]
      )
    })
  )
})

describe("the request", () => {
  it.effect("request parameters in force reach the provider", () =>
    Effect.gen(function* () {
      const seen: Array<unknown> = []
      const layer = Layer.effect(
        LanguageModel.LanguageModel,
        LanguageModel.make({
          generateText: () =>
            Effect.map(RequestParams, (params) => {
              seen.push(params)
              return [{ type: "text", text: "done" }, finish("stop")] as Array<Response.PartEncoded>
            }),
          streamText: () => Stream.empty
        })
      )
      const w = yield* world([])
      const params = { temperature: 0.2, maxOutputTokens: 500, stop: ["END"] }
      yield* w.in(run.pipe(Effect.provideService(RequestParams, params), Effect.provide(layer)))
      assert.deepStrictEqual(seen, [params])
      const own = agent.pipe(Agent.provide(Layer.succeed(RequestParams, { seed: 7 })))
      yield* w.in(
        Agent.run(own, "go").pipe(Effect.provideService(RequestParams, params), Effect.provide(layer))
      )
      assert.deepStrictEqual(seen[1], { seed: 7 })
    })
  )

  it.effect("an output cap that is reached is a cut-off turn", () =>
    Effect.gen(function* () {
      const w = yield* world([call("write_file", { path: "a" }), text("a"), text("b")], { usage: "counted" })
      const exit = yield* outcomeDuring(
        minutes,
        w.in(
          Agent.run(agent, "go", { runId: "r", limits: { turns: 1 } }).pipe(
            Effect.provideService(RequestParams, { maxOutputTokens: 3 })
          )
        )
      )
      assert.strictEqual(exit._tag, "MaxTurnsExceeded")
      assert.deepStrictEqual(exit.run.pending, [])
      const [cut] = of(yield* w.journal(), "turn")
      assert.strictEqual(cut?.finish, "length")
      assert.strictEqual(cut?.usage.completionTokens, 3)
    })
  )

  it.effect("the instructions come first, then the task; the tools are offered", () =>
    Effect.gen(function* () {
      const w = yield* world([text("done")])
      const told = Agent.make("told", {
        instructions: "Be brief.",
        toolkit: Tools
      })
      yield* w.in(Agent.run(told, "What?", { runId: "r" }))
      assert.deepStrictEqual(w.requests[0]?.messages, [
        { role: "system", content: "Be brief." },
        { role: "user", content: "What?" }
      ])
      assert.deepStrictEqual([...(w.requests[0]?.tools ?? [])].sort(), Object.keys(Tools.tools).sort())
    })
  )

  it.effect(
    "an id that is empty or was used before becomes turn.index, and that is what goes on the wire",
    () =>
      Effect.gen(function* () {
        const w = yield* world([
          turn(
            call("read_file", { path: "a" }, { id: "" }),
            call("read_file", { path: "b" }, { id: "mine" }),
            call("read_file", { path: "c" }, { id: "mine" })
          ),
          call("read_file", { path: "d" }, { id: "mine" }),
          text("done")
        ])
        const done = yield* outcomeDuring(minutes, w.in(run))
        assert(done._tag === "Completed")
        const journal = yield* w.journal()
        const ids = of(journal, "turn").map(({ calls }) => calls.map(({ callId }) => callId))
        assert.deepStrictEqual(ids, [["1.0", "mine", "1.2"], ["2.0"], []])
        const wire = w.requests[2]?.messages.flatMap((message) =>
          message.role === "assistant" ? (message.tool_calls ?? []).map(({ id }) => id) : []
        )
        assert.deepStrictEqual(wire, ["1.0", "mine", "1.2", "2.0"])
        assert.strictEqual(w.work.started.length, 4)
      })
  )

  it.effect("a prompt never has approval parts, before, during and after an approval", () =>
    Effect.gen(function* () {
      const w = yield* world([])
      const model = rawModel((_, index) =>
        index === 0
          ? [
              {
                type: "tool-call",
                id: "d1",
                name: "delete_file",
                params: { path: "a" }
              },
              {
                type: "tool-call",
                id: "d2",
                name: "delete_file",
                params: { path: "b" }
              },
              finish("tool-calls")
            ]
          : [{ type: "text", text: "done" }, finish("stop")]
      )
      const provided = <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.provide(effect, model.layer)
      const exit = yield* w.in(provided(Agent.outcome(run)))
      assert(exit._tag === "ApprovalRequired")
      yield* w.in(Agent.decide({ runId: "r", callId: "d1" }, Agent.approve()))
      yield* w.in(Agent.decide({ runId: "r", callId: "d2" }, Agent.reject("no")))
      yield* w.in(provided(Agent.resume(agent, "r")))
      assert.deepStrictEqual(w.work.started, ["delete_file a"])
      const parts = model.requests.flatMap(({ prompt }) =>
        prompt.content.flatMap(
          (message): ReadonlyArray<Prompt.Part> =>
            typeof message.content === "string" ? [] : message.content
        )
      )
      assert.isTrue(parts.some(({ type }) => type === "tool-result"))
      assert.isFalse(parts.some(({ type }) => type.includes("approval")))
      yield* w.journal()
    })
  )

  it.effect("provider options of a reply are replayed to the provider", () =>
    Effect.gen(function* () {
      const w = yield* world([])
      const model = rawModel((_, index) =>
        index === 0
          ? [
              {
                type: "reasoning",
                text: "Hm.",
                metadata: { fake: { signature: "sig-1" } }
              },
              {
                type: "tool-call",
                id: "c1",
                name: "list_files",
                params: {},
                metadata: { fake: { item: "i-1" } }
              },
              finish("tool-calls")
            ]
          : [{ type: "text", text: "done" }, finish("stop")]
      )
      yield* w.in(Effect.provide(run, model.layer))
      const assistant = model.requests[1]?.prompt.content.find(({ role }) => role === "assistant")
      assert(assistant?.role === "assistant")
      const options = assistant.content.map((part) => (part as { readonly options?: unknown }).options)
      assert.deepInclude(options, { fake: { signature: "sig-1" } })
      assert.deepInclude(options, { fake: { item: "i-1" } })
      yield* w.journal()
    })
  )

  it.effect("files in the input reach the provider", () =>
    Effect.gen(function* () {
      const w = yield* world([])
      const model = rawModel(() => [{ type: "text", text: "A cat." }, finish("stop")])
      const input: ReadonlyArray<Message.Message> = [
        {
          role: "user",
          content: [
            { type: "text", text: "What is this?" },
            {
              type: "file",
              mediaType: "image/png",
              data: "https://example.com/cat.png"
            }
          ]
        }
      ]
      yield* w.in(Effect.provide(Agent.run(agent, input, { runId: "r" }), model.layer))
      const [message] = model.requests[0]?.prompt.content ?? []
      assert(message?.role === "user")
      const file = message.content.find(({ type }) => type === "file")
      assert(file?.type === "file")
      assert.strictEqual(file.mediaType, "image/png")
      assert.strictEqual(String(file.data), "https://example.com/cat.png")
      yield* w.journal()
    })
  )
})

describe("a model call that never came back (law 1)", () => {
  it.effect("a Stop in mid-call counts it as a turn and at its estimate", () =>
    Effect.gen(function* () {
      const w = yield* world([call("list_files"), text("done", { latency: "5 seconds" }), text("done")])
      const fiber = yield* forked(w.in(run))
      yield* until(() => w.requests.length === 2)
      yield* Fiber.interrupt(fiber)
      const journal = yield* w.journal()
      const stopped = last(journal, "run_stopped")
      assert.strictEqual(stopped.turns, 2)
      const estimate = of(journal, "turn_started").at(-1)?.estimate
      // The last known prompt size: 100 tokens at $500 per million.
      assert.isAtLeast(estimate?.usage.promptTokens ?? 0, 100)
      assert.isAtLeast(estimate?.costUsd ?? 0, 0.05)
      assert.isAbove(stopped.costUsd, 0.1)
      const done = yield* w.in(Agent.resume(agent, "r"))
      assert.strictEqual(done.run.turns, 3)
      checkEnding(done, yield* w.journal(), "completed", "answered")
    })
  )

  it.effect("a crash in mid-call does too, when the run is taken up again", () =>
    Effect.gen(function* () {
      const w = yield* world([call("list_files"), text("done"), text("done")])
      yield* w.in(run)
      // The process died right after the second turn_started.
      const events = yield* w.journal()
      const index = events.findLastIndex(({ type }) => type === "turn_started")
      const crashed = yield* world([text("after the crash")])
      const summary = yield* w.store.summary("r")
      const [first] = events
      assert.isDefined(first)
      yield* crashed.store.append({
        runId: "r",
        expected: 0,
        events: events.slice(0, index + 1),
        summary: { ...summary, status: "running", seq: index + 1 },
        durability: "process"
      })
      const done = yield* crashed.in(Agent.resume(agent, "r"))
      assert.strictEqual(done.output, "after the crash")
      assert.strictEqual(done.run.turns, 3)
      assert.isAbove(done.run.costUsd, 0.2)
      checkEnding(done, yield* crashed.journal(), "completed", "answered")
      assert.deepStrictEqual(crashed.work.started, [])
    })
  )

  it.effect("lost calls use up the turn limit: a loop of crashes ends", () =>
    Effect.gen(function* () {
      const w = yield* world(Array.from({ length: 9 }, () => text("late", { latency: "1 hour" })))
      for (let i = 0; i < 3; i++) {
        const limited =
          i === 0 ? Agent.run(agent, "go", { runId: "r", limits: { turns: 3 } }) : Agent.resume(agent, "r")
        const fiber = yield* forked(w.in(limited))
        yield* until(() => w.requests.length === i + 1)
        yield* Fiber.interrupt(fiber)
      }
      const exit = yield* w.in(Agent.outcome(Agent.resume(agent, "r")))
      assert.strictEqual(exit._tag, "MaxTurnsExceeded")
      assert.strictEqual(w.requests.length, 3)
      yield* w.journal()
    })
  )

  it.effect(
    "an interruption while waiting for a retry loses no call: the failed attempt is written already",
    () =>
      Effect.gen(function* () {
        const w = yield* world([fail(429, { retryAfter: 100 }), text("done")])
        const fiber = yield* forked(w.in(run))
        yield* until(() => w.requests.length === 1)
        yield* until(() => w.trace.events.some(({ type }) => type === "turn_failed"))
        yield* Fiber.interrupt(fiber)
        const stopped = last(yield* w.journal(), "run_stopped")
        assert.strictEqual(stopped.turns, 0)
        assert.strictEqual(stopped.costUsd, 0)
        const done = yield* w.in(Agent.resume(agent, "r"))
        assert.strictEqual(done.run.turns, 1)
        yield* w.journal()
      })
  )
})
