/** What is given as a text, by somebody whom no compiler holds, and is none. */
import { expect, it } from "@effect/vitest"
import * as Toolkit from "effect/ai/Toolkit"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { Agent, RunHost, RunStore } from "../../src/index.ts"
import * as Scripted from "../../src/provider/Scripted.ts"
import { describeStores } from "../store/stores.ts"
import { checkLaws } from "./laws.ts"
import { call, guarded, model, reader } from "./support.ts"

const noTexts: ReadonlyArray<unknown> = [null, 7, true, {}, ["because"], { toJSON: () => "because" }]

/** As a caller without types gives it. */
const untyped = (given: unknown) => given as string

const tools = Toolkit.make(reader("wait"), guarded("delete"))

/** Agents that wait for ever, or for a person, and a host that drives them. */
const scene = Effect.gen(function* () {
  const waiting = yield* Deferred.make<void>()
  const handlers = tools.toLayer({
    wait: () => Effect.andThen(Deferred.succeed(waiting, undefined), Effect.never),
    delete: () => Effect.succeed("deleted")
  })
  const agentOf = (name: string, tool: string) =>
    Agent.make(name, { toolkit: tools, limits: { time: "1 hour" } }).pipe(
      Agent.provide(handlers),
      Agent.provide(model([call(tool, "c"), Scripted.text("done")], name).layer)
    )
  const agents = { waiter: agentOf("waiter", "wait"), cleaner: agentOf("cleaner", "delete") }
  return { ...agents, waiting, host: RunHost.layer(Object.values(agents)) }
})

describeStores((layer, name) => {
  const test = (what: string, body: () => Effect.Effect<unknown, unknown, RunStore.RunStore>) =>
    it.live(`${what} (${name})`, () => Effect.provide(body(), layer))

  test("a Stop whose reason is no text is refused, and harms no run", () =>
    Effect.gen(function* () {
      const store = yield* RunStore.RunStore
      const { cleaner, host, waiter, waiting } = yield* scene
      yield* Effect.exit(Agent.run(cleaner, "go", { runId: "waits" }))
      const driven = yield* Effect.forkChild(Agent.run(waiter, "go", { runId: "driven" }))
      yield* Deferred.await(waiting)
      const refused = { _tag: "RunStoreError", kind: "invalid" }
      for (const runId of ["waits", "driven"]) {
        for (const reason of [undefined, ...noTexts].map(untyped)) {
          expect(yield* Effect.flip(Agent.cancel(runId, reason))).toMatchObject({ ...refused, runId })
          const cancelled = RunHost.RunHost.use(({ cancel }) => cancel(runId, reason))
          expect(yield* Effect.flip(Effect.provide(cancelled, host))).toMatchObject(refused)
        }
        expect(yield* store.inbox(runId, 0)).toEqual([])
        yield* Agent.cancel(runId, "")
      }
      yield* Fiber.await(driven)
      for (const runId of ["waits", "driven"])
        expect(yield* store.summary(runId)).toMatchObject({ reason: "cancelled", detail: "" })
    }))

  test("a run is resumed with no message that is no text, and waits on", () =>
    Effect.gen(function* () {
      const store = yield* RunStore.RunStore
      const { cleaner, host } = yield* scene
      yield* Effect.exit(Agent.run(cleaner, "go", { runId: "r" }))
      const { seq } = yield* store.summary("r")
      for (const message of noTexts.map(untyped)) {
        const refused = { _tag: "RunStoreError", runId: "r", kind: "invalid" }
        expect(yield* Effect.flip(Agent.resume(cleaner, "r", { message }))).toMatchObject(refused)
        const resumed = RunHost.RunHost.use(({ resume }) => resume("r", { message }))
        expect(yield* Effect.flip(Effect.provide(resumed, host))).toMatchObject(refused)
      }
      expect(yield* store.summary("r")).toMatchObject({ reason: "approval", seq })
    }))

  test("an interruption whose reason is no text is one without a reason", () =>
    Effect.gen(function* () {
      const store = yield* RunStore.RunStore
      const { waiter, waiting } = yield* scene
      const fiber = yield* Effect.forkChild(Agent.run(waiter, "go", { runId: "r" }))
      yield* Deferred.await(waiting)
      const reason = Context.make(Agent.CancelReason, untyped({ because: "of this" }))
      yield* Fiber.interruptAs(fiber, undefined, reason)
      checkLaws(yield* store.read("r"))
      expect(yield* store.summary("r")).toMatchObject({ detail: "the run was interrupted" })
    }))
})
