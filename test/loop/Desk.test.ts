/**
 * What a driver keeps beside the state for its calls is gone with each call: a run of a thousand calls has no more of it
 * than the calls of one turn.
 */
import { describe, expect } from "@effect/vitest"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { vi } from "vitest"
import { Agent, CurrentCall, RunStore, ToolFailure } from "../../src/index.ts"
import type * as Desk from "../../src/loop/Desk.ts"
import * as Scripted from "../../src/provider/Scripted.ts"
import { call, check, finish, reader, usage, withTime, writer } from "./support.ts"

const desks = vi.hoisted(() => [] as unknown[])

vi.mock("../../src/loop/Desk.ts", async (original) => {
  const desk = await original<typeof Desk>()
  const make: typeof Desk.make = (...of) => {
    const made = desk.make(...of)
    desks.push(made)
    return made
  }
  return { ...desk, make }
})

/** How much is kept of calls, by driver; results that may be reused are the run's, and not a call's. */
const kept = () =>
  desks.map((desk) => {
    const { reusable: _, ...ofCalls } = desk as Desk.Desk
    return Object.values(ofCalls).reduce((sum, of) => sum + (of instanceof Map ? of.size : 0), 0)
  })

const tools = Toolkit.make(reader("read"), writer("write"))
const stubborn = Effect.uninterruptible(Effect.never)

describe("a call that is settled", () => {
  check("leaves nothing on the desk, whatever came of it", function* () {
    const store = yield* RunStore.RunStore
    const child = Agent.make("child").pipe(
      Agent.provide(Scripted.layer(Scripted.make("child", [Scripted.text("found")]), { usage }))
    )
    const ask = Agent.asTool(child, { name: "ask", description: "Asks." })
    const all = Toolkit.merge(tools, Toolkit.make(ask.tool))
    const handlers = tools.toLayer({
      read: ({ q }) =>
        q === "stubborn"
          ? stubborn
          : Effect.flatMap(CurrentCall.CurrentCall, (current) =>
              Effect.as(current.evidence({ kind: "file", name: q, digest: q }), q)
            ),
      write: ({ q }) => (q === "fails" ? ToolFailure.recoverable("no") : Effect.succeed(q))
    })
    const before: Array<ReadonlyArray<number>> = []
    const lines = [
      Scripted.turn(call("read", "r1"), call("read", "r2"), call("write", "w1")),
      Scripted.turn(call("write", "w2", "fails"), call("read", "r3", "stubborn")),
      Scripted.call("ask", { task: "look" }, { id: "a1" }),
      Scripted.text("done")
    ]
    const script = Scripted.make("model", (turn) => {
      before.push(kept())
      return lines[turn]
    })
    const agent = Agent.make("lead", { toolkit: all, policy: { toolTimeout: "1 second" } }).pipe(
      Agent.provide(
        Layer.mergeAll(
          handlers,
          ask.layer,
          Scripted.layer(script, { usage }),
          Layer.succeed(RunStore.RunStore, store)
        )
      )
    )
    yield* withTime(finish(Agent.run(agent, "go", { runId: "r" })))
    expect(before.map(([lead]) => lead)).toEqual([0, 0, 0, 0])
  })
})
