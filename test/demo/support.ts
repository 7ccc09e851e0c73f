/** What the tests of the demo share. */
import { it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { TestClock } from "effect/testing"
import type * as Catalogue from "../../src/demo/Catalogue.ts"
import * as Demo from "../../src/demo/Demo.ts"
import * as Tokens from "../../src/provider/Tokens.ts"
import * as MemoryRunStore from "../../src/store/MemoryRunStore.ts"
import type { RunStore } from "../../src/store/RunStore.ts"

/** The two ways to the same script, and the clock that a test of each runs on. */
export const providers = [
  { provider: "in-process", test: it.effect },
  { provider: "http", test: it.live }
] as const

/** Runs a scenario in a store of its own. */
export const inMemory = <A, E>(effect: Effect.Effect<A, E, RunStore>) =>
  Effect.provide(effect, MemoryRunStore.layer)

/** Runs a scenario as a row of figures.md does. */
export const run = (name: Catalogue.Name, options?: Demo.Options) => inMemory(Demo.run(name, options))

/** Lets everything happen that needs no time. */
const settled = Effect.promise(async () => {
  for (let i = 0; i < 20; i++) await new Promise((resolve) => setImmediate(resolve))
})

/** Runs an effect on the TestClock, which moves on whenever nothing else can happen. */
export const onTestClock = <A, E, R>(effect: Effect.Effect<A, E, R>, step: number) =>
  Effect.gen(function* () {
    yield* Tokens.load
    const fiber = yield* Effect.forkChild(effect)
    yield* settled
    while (fiber.pollUnsafe() === undefined) {
      yield* TestClock.adjust(step)
      yield* settled
    }
    return yield* Fiber.join(fiber)
  })
