import { assert, it } from "@effect/vitest"
import { Agent, MemoryRunStore, PriceBook } from "checkrein"
import { Scripted } from "checkrein/provider"
import { Effect, Fiber, Layer } from "effect"
import { TestClock } from "effect/testing"
import { analyst, LogToolsLive } from "./analyst.ts"

const script = Scripted.make("careful", [
  Scripted.call("read_file", { path: "errors.log" }),
  (transcript) => Scripted.text(transcript.saw("timeout") ? "errors.log mentions a timeout." : "Nothing.")
])

const TestLayer = Layer.mergeAll(
  LogToolsLive,
  Scripted.layer(script, { model: "test-model" }),
  PriceBook.layer({ "test-model": { input: 2, output: 12 } }),
  MemoryRunStore.layer
)

it.effect("reads the file before it answers", () =>
  Effect.gen(function* () {
    const fiber = yield* Effect.forkChild(Agent.run(analyst, "Which file mentions a timeout?"))
    yield* TestClock.adjust("2 seconds")
    const { output, run } = yield* Fiber.join(fiber)
    assert.strictEqual(output, "errors.log mentions a timeout.")
    assert.strictEqual(run.turns, 2)
    assert.strictEqual(run.elapsedMs, 2_000)
  }).pipe(Effect.provide(TestLayer))
)
