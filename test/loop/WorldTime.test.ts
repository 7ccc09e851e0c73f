/** A database answers as fast as it does, however fast a test has time pass meanwhile. */
import { expect, it } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as TestClock from "effect/testing/TestClock"
import { Agent } from "../../src/index.ts"
import * as Scripted from "../../src/provider/Scripted.ts"
import { RunStore } from "../../src/store/RunStore.ts"
import { describeStores } from "../store/stores.ts"

const tools = Toolkit.make(Tool.make("wait"))
const lines = [...Array.from({ length: 5 }, () => Scripted.call("wait", {})), Scripted.text("done")]
const agent = Agent.make("a", {
  toolkit: tools,
  limits: { time: "1000 days" },
  policy: { repetition: "off" }
}).pipe(
  Agent.provide(
    Layer.merge(
      tools.toLayer({ wait: () => Effect.sleep("2 hours") }),
      Scripted.layer(Scripted.make("a", lines), { usage: "omitted" })
    )
  )
)

describeStores((layer) =>
  it.effect("a run whose time is let pass by hours goes on", () =>
    Effect.gen(function* () {
      // As slow as a database that is far away.
      const store = yield* RunStore
      const slow: RunStore["Service"] = {
        ...store,
        append: (append) =>
          Effect.andThen(TestClock.withLive(Effect.sleep("20 millis")), store.append(append))
      }
      const running = Effect.provideService(Agent.run(agent, "go", { runId: "r" }), RunStore, slow)
      const fiber = yield* Effect.forkChild(running)
      while (fiber.pollUnsafe() === undefined) {
        yield* TestClock.adjust("1 hour")
        yield* TestClock.withLive(Effect.sleep("1 millis"))
      }
      expect((yield* Fiber.join(fiber)).output).toBe("done")
    }).pipe(Effect.provide(layer))
  )
)
