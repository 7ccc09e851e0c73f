/** A driver that loses the right to drive: it stops what runs, starts nothing more, and leaves the run to be taken over. */
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { Agent, RunStore } from "../../src/index.ts"
import {
  awaited,
  call,
  during,
  forked,
  last,
  Tools,
  text,
  turn,
  types,
  until,
  world
} from "./modelSupport.ts"

type Store = RunStore.RunStore["Service"]

const agent = Agent.make("analyst", { toolkit: Tools })
const busy = new RunStore.RunBusy({ runId: "r" })

/** A store whose leases are lost when told, for this reason. */
const losing = Effect.gen(function* () {
  const loss = yield* Deferred.make<never, RunStore.RunBusy | RunStore.RunStoreError>()
  const held = { leases: 0, checks: 0, valid: true }
  const lease: RunStore.Lease = {
    check: Effect.suspend(() => {
      held.checks++
      return held.valid ? Effect.void : Effect.fail(busy)
    }),
    lost: Deferred.await(loss)
  }
  const wrap = (store: Store): Store => ({
    ...store,
    // The first is lost; whoever comes then keeps what he gets.
    lease: (runId) => Effect.map(store.lease(runId), (own) => (held.leases++ === 0 ? lease : own))
  })
  return { held, loss, wrap }
})

describe("a run that somebody else drives", () => {
  it("is said to come free by what the store is set to, and not by a time that it may not have", () => {
    assert.include(busy.message, "LeaseTime")
    assert.notMatch(busy.message, /within \d+ seconds/)
  })
})

describe("a driver that loses its lease", () => {
  const reasons = {
    RunBusy: busy,
    RunStoreError: new RunStore.RunStoreError({ runId: "r", kind: "timed_out", problem: "not renewed" })
  }
  for (const [tag, reason] of Object.entries(reasons)) {
    it.effect(`stops its tools and ends as ${tag}, and the run can be taken over`, () =>
      Effect.gen(function* () {
        const { loss, wrap } = yield* losing
        const w = yield* world([turn(call("slow_read", { path: "a" }, { id: "a" })), text("done")], {
          store: wrap
        })
        const driver = yield* forked(Effect.flip(w.in(Agent.run(agent, "go", { runId: "r" }))))
        yield* until(() => w.work.started.length === 1)
        yield* Deferred.fail(loss, reason)
        const exit = yield* awaited(driver, 0)
        assert.deepStrictEqual(exit._tag === "Success" ? exit.value : undefined, reason)
        assert.deepStrictEqual(w.work.interrupted, ["slow_read a"])
        // Whoever has the run now writes what became of it.
        assert.deepStrictEqual(types(yield* w.journal()), [
          "run_started",
          "turn_started",
          "turn",
          "tool_start"
        ])
        const again = yield* during(60_000, w.in(Agent.resume(agent, "r")))
        assert.isTrue(Exit.isSuccess(again))
        assert.strictEqual(last(yield* w.journal(), "run_stopped").status, "completed")
      })
    )
  }

  it.effect("starts no tool that it has already claimed", () =>
    Effect.gen(function* () {
      const { held, wrap } = yield* losing
      const w = yield* world([turn(call("write_file", { path: "a" }, { id: "a" })), text("done")], {
        store: (store) => ({
          ...wrap(store),
          append: (append) =>
            Effect.tap(store.append(append), () =>
              Effect.sync(() => {
                if (append.events.some(({ type }) => type === "tool_start")) held.valid = false
              })
            )
        })
      })
      const failure = yield* Effect.flip(w.in(Agent.run(agent, "go", { runId: "r" })))
      assert.strictEqual(failure, busy)
      assert.deepStrictEqual(w.work.started, [])
      assert.strictEqual(types(yield* w.journal()).at(-1), "tool_start")
    })
  )

  it.effect("claims no tool any more", () =>
    Effect.gen(function* () {
      const { held, wrap } = yield* losing
      const w = yield* world([turn(call("write_file", { path: "a" }, { id: "a" })), text("done")], {
        store: wrap,
        onRequest: () => {
          held.valid = false
        }
      })
      const failure = yield* Effect.flip(w.in(Agent.run(agent, "go", { runId: "r" })))
      assert.strictEqual(failure, busy)
      assert.isAbove(held.checks, 0)
      assert.notInclude(types(yield* w.journal()), "tool_start")
    })
  )
})
