/** What a run is told when a host is asked to have it go on, and what of that is there when the host is not any more. */
import { describe, expect, it } from "@effect/vitest"
import * as Toolkit from "effect/ai/Toolkit"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as TestClock from "effect/testing/TestClock"
import { Agent, MemoryRunStore, RunHost, RunStore, ToolFailure } from "../../src/index.ts"
import * as Scripted from "../../src/provider/Scripted.ts"
import { describeStores } from "../store/stores.ts"
import { checkLaws } from "./laws.ts"
import { call, guarded, model, of, reader, settle, usage, withTime } from "./support.ts"

const tools = Toolkit.make(guarded("delete"), reader("look"), reader("block"))

/** Agents, what their model was asked, what their tools have done, and the gate that a blocker waits at. */
const workshop = Effect.gen(function* () {
  const gate = yield* Deferred.make<void>()
  const done: Array<string> = []
  let isLocked = true
  const work = (what: string) =>
    Effect.as(
      Effect.sync(() => void done.push(what)),
      "done"
    )
  const handlers = tools.toLayer({
    delete: ({ q }) =>
      q === "locked" && isLocked ? Effect.fail(ToolFailure.permanent("it is locked")) : work(`delete ${q}`),
    look: ({ q }) => work(`look ${q}`),
    block: () => Effect.as(Deferred.await(gate), "open")
  })
  const agentOf = (name: string, lines: ReadonlyArray<Scripted.Line>) => {
    const { layer, requests } = model(lines, name)
    const agent = Agent.make(name, { toolkit: tools, limits: { time: "1 hour" } }).pipe(
      Agent.provide(Layer.merge(handlers, layer))
    )
    return { agent, requests }
  }
  const cleaner = agentOf("cleaner", [call("delete", "c"), Scripted.text("done")])
  const looker = agentOf("looker", [call("look", "a"), call("look", "b", "y"), Scripted.text("done")])
  const blocker = agentOf("blocker", [call("block", "c"), Scripted.text("done")])
  const { layer } = model([
    Scripted.call("request_input", { question: "how many?" }, { id: "q" }),
    Scripted.call("submit_result", { n: 3 })
  ])
  const asker = Agent.make("asker", { output: Schema.Struct({ n: Schema.Int }) }).pipe(Agent.provide(layer))
  const ask = Agent.asTool(asker, { name: "ask", description: "Asks." })
  const leads = model([Scripted.call("ask", { task: "go" }, { id: "s" }), Scripted.text("done")])
  const lead = Agent.make("lead", { toolkit: Toolkit.make(ask.tool) }).pipe(
    Agent.provide(Layer.merge(ask.layer, leads.layer))
  )
  const block = Agent.asTool(blocker.agent, { name: "hold", description: "Holds." })
  const parents = model([Scripted.call("hold", { task: "go" }, { id: "s" }), Scripted.text("done")])
  const parent = Agent.make("parent", { toolkit: Toolkit.make(block.tool) }).pipe(
    Agent.provide(Layer.merge(block.layer, parents.layer))
  )
  const agents = [parent, cleaner.agent, looker.agent, blocker.agent, asker, lead]
  const unlock = () => {
    isLocked = false
  }
  return { agents, blocker, cleaner, done, gate, lead, looker, parent, unlock }
})
type Workshop = Effect.Success<typeof workshop>

/** A host of these agents whose scope is in the test's hands. */
const openedFor = Effect.fnUntraced(function* (
  agents: ReadonlyArray<Agent.Agent<unknown, never, RunStore.RunStore>>,
  options: RunHost.Options<never> = {}
) {
  const scope = yield* Scope.make()
  const context = yield* Layer.buildWithScope(Layer.fresh(RunHost.layer(agents, options)), scope)
  return { host: Context.get(context, RunHost.RunHost), close: Scope.close(scope, Exit.void) }
})
const opened = ({ agents }: Workshop, options?: RunHost.Options<never>) => openedFor(agents, options)

/** A host that has no place for any run, and is gone when it has been asked for this. */
const full = <A, E>(shop: Workshop, ask: (host: RunHost.RunHost["Service"]) => Effect.Effect<A, E>) =>
  Effect.gen(function* () {
    const { close, host } = yield* opened(shop, { concurrency: 1, shutdown: { running: "interrupt" } })
    yield* host.start("blocker", "go", { runId: "long" })
    yield* settle
    const asked = yield* ask(host)
    yield* close
    return asked
  })

/** Has a host take up whatever it finds, and says how this run has ended. */
const recovered = (shop: Workshop, runId: string) =>
  Effect.gen(function* () {
    yield* Deferred.succeed(shop.gate, undefined)
    const { close, host } = yield* opened(shop)
    expect(yield* host.recover).toContain(runId)
    const ended = yield* host.ended(runId)
    yield* close
    const store = yield* RunStore.RunStore
    checkLaws(yield* store.read(runId))
    return ended
  })

const said = (
  requests: ReadonlyArray<ReadonlyArray<{ readonly role: string; readonly content?: unknown }>>
) => requests.at(-1)?.flatMap(({ content, role }) => (role === "user" ? [content] : []))

describe("a run that a host was asked to have go on, and did not come to", () => {
  describeStores((layer, name) => {
    const test = (
      what: string,
      body: (
        shop: Workshop,
        store: RunStore.RunStore["Service"]
      ) => Effect.Effect<unknown, unknown, RunStore.RunStore>
    ) =>
      it.live(`${what} (${name})`, () =>
        Effect.provide(
          Effect.gen(function* () {
            return yield* body(yield* workshop, yield* RunStore.RunStore)
          }),
          layer
        )
      )

    test("goes on elsewhere, with every message and with its limits", (shop) =>
      Effect.gen(function* () {
        const { looker } = shop
        yield* Effect.exit(Agent.run(looker.agent, "go", { runId: "r", limits: { turns: 1 } }))
        const waits = yield* full(shop, (host) =>
          Effect.gen(function* () {
            yield* host.resume("r", { limits: { turns: 9 } })
            yield* host.resume("r", { message: "be quick" })
            yield* host.resume("r", { message: "and careful", limits: { toolCalls: 7 } })
            yield* host.resume("r")
            return yield* host.status("r")
          })
        )
        expect(waits).toMatchObject({ status: "running", turns: 1 })
        expect(waits.reason).toBeUndefined()
        expect(yield* recovered(shop, "r")).toMatchObject({ status: "completed", turns: 3 })
        expect(said(looker.requests)).toEqual(["go", "be quick", "and careful"])
        const { state } = yield* RunStore.load("r")
        expect(state.limits).toMatchObject({ turns: 9, toolCalls: 7 })
        expect(shop.done).toEqual(["look x", "look y"])
      }))

    test("is stopped by a Stop that comes while it waits, and by none from before", (shop, store) =>
      Effect.gen(function* () {
        const runs = ["stopped", "stopped twice", "stopped and resumed", "stopped again"]
        for (const runId of runs) yield* Agent.create(shop.looker.agent, "go", { runId })
        const standing = yield* full(shop, (host) =>
          Effect.gen(function* () {
            for (const runId of runs) yield* host.cancel(runId, "first")
            for (const runId of runs.slice(1)) yield* host.cancel(runId, "second")
            for (const runId of runs) yield* host.resume(runId)
            for (const runId of runs.slice(2)) yield* host.cancel(runId, "third")
            yield* host.resume("stopped and resumed")
            return yield* host.status("stopped again")
          })
        )
        expect(standing).toMatchObject({ reason: "cancelled", detail: "third" })
        const resumed = of(yield* store.read("stopped twice"), "run_resumed")
        // Whoever does not know which Stop counts no more does not read the run.
        expect(resumed.at(-1)).toMatchObject({ v: 3, queued: true, revoked: 1 })
        yield* Deferred.succeed(shop.gate, undefined)
        const { close, host } = yield* opened(shop)
        expect([...(yield* host.recover)].sort()).toEqual(["long", ...runs.slice(0, 3)].sort())
        for (const runId of runs.slice(0, 3))
          expect(yield* host.ended(runId)).toMatchObject({ status: "completed" })
        expect(yield* host.ended("stopped again")).toMatchObject({ reason: "cancelled", detail: "third" })
        yield* close
        for (const runId of runs) checkLaws(yield* store.read(runId))
      }))

    test("takes in then what people have decided, before and after that", (shop) =>
      Effect.gen(function* () {
        for (const runId of ["before", "after", "undecided"])
          yield* Effect.exit(Agent.run(shop.cleaner.agent, "go", { runId }))
        yield* full(shop, (host) =>
          Effect.gen(function* () {
            yield* host.decide({ runId: "before", callId: "c" }, Agent.approve())
            for (const runId of ["before", "after", "undecided"]) yield* host.resume(runId)
            const [waits] = (yield* host.status("after")).approvals
            yield* host.decide(waits!, Agent.approve({ args: { q: "y" } }), { by: "ann" })
          })
        )
        expect(yield* recovered(shop, "before")).toMatchObject({ status: "completed" })
        const store = yield* RunStore.RunStore
        expect(yield* store.summary("after")).toMatchObject({ status: "completed" })
        expect(yield* store.summary("undecided")).toMatchObject({ reason: "approval" })
        expect([...shop.done].sort()).toEqual(["delete x", "delete y"])
      }))

    test("has the answer to the question of its sub-agent", (shop, store) =>
      Effect.gen(function* () {
        yield* Effect.exit(Agent.run(shop.lead, "go", { runId: "r" }))
        expect(yield* store.summary("r")).toMatchObject({ reason: "input" })
        yield* full(shop, (host) => host.resume("r/s", { message: "three" }))
        expect(yield* recovered(shop, "r")).toMatchObject({ status: "completed" })
        expect(of(yield* store.read("r/s"), "input_given")).toMatchObject([{ answer: "three" }])
      }))

    test("has that answer also if something else was said to it before, and shows its question until then", (shop, store) =>
      Effect.gen(function* () {
        yield* Effect.exit(Agent.run(shop.lead, "go", { runId: "r" }))
        const shown = yield* full(shop, (host) =>
          Effect.gen(function* () {
            yield* host.resume("r", { limits: { turns: 30 } })
            const { question, status } = yield* host.status("r")
            yield* host.resume("r", { message: "three" })
            return { question, status }
          })
        )
        expect(shown).toMatchObject({ status: "running", question: { runId: "r/s", text: "how many?" } })
        expect(yield* recovered(shop, "r")).toMatchObject({ status: "completed" })
        expect(of(yield* store.read("r/s"), "input_given")).toMatchObject([{ answer: "three" }])
        const { state } = yield* RunStore.load("r")
        expect(JSON.stringify(state.messages)).not.toContain("three")
      }))

    test("has failed, and goes on only by force", (shop, store) =>
      Effect.gen(function* () {
        for (const runId of ["r", "left"])
          yield* Effect.exit(Agent.run(shop.cleaner.agent, "go", { runId })).pipe(
            Effect.andThen(Agent.decide({ runId, callId: "c" }, Agent.approve({ args: { q: "locked" } }))),
            Effect.andThen(Effect.exit(Agent.resume(shop.cleaner.agent, runId)))
          )
        yield* full(shop, (host) =>
          Effect.gen(function* () {
            yield* host.resume("left")
            yield* host.resume("r", { force: true, message: "it is unlocked" })
          })
        )
        shop.unlock()
        expect(yield* recovered(shop, "r")).toMatchObject({ status: "completed" })
        expect(yield* store.summary("left")).toMatchObject({ reason: "tool_permanent" })
        expect(said(shop.cleaner.requests)).toEqual(["go", "it is unlocked"])
      }))
  })
})

describe("a host that is asked to have a run go on", () => {
  /** A host that is held up once it has looked whether its run was sent a Stop. */
  const heldAtInbox = Effect.fnUntraced(function* (shop: Workshop, store: RunStore.RunStore["Service"]) {
    const reached = yield* Deferred.make<void>()
    const gate = yield* Deferred.make<void>()
    const hold = Effect.andThen(Deferred.succeed(reached, undefined), Deferred.await(gate))
    const inbox: typeof store.inbox = (runId, after) => Effect.tap(store.inbox(runId, after), () => hold)
    const slow = { ...store, inbox }
    const { host } = yield* Effect.provideService(opened(shop), RunStore.RunStore, slow)
    return { gate, host, reached }
  })

  const test = (
    what: string,
    body: (
      shop: Workshop,
      store: RunStore.RunStore["Service"]
    ) => Effect.Effect<unknown, unknown, RunStore.RunStore | Scope.Scope>
  ) =>
    it.effect(what, () =>
      Effect.gen(function* () {
        return yield* body(yield* workshop, yield* RunStore.RunStore)
      }).pipe(Effect.scoped, Effect.provide(MemoryRunStore.layer))
    )

  test("says so if somebody drives it and cannot be told anything, and lets it be if there is nothing to tell", (shop) =>
    Effect.gen(function* () {
      const { blocker, gate } = shop
      const driven = yield* Effect.forkChild(Agent.run(blocker.agent, "go", { runId: "r" }))
      yield* settle
      const { host } = yield* opened(shop)
      yield* host.resume("r")
      yield* host.resume("r", { limits: { time: "1 hour" } })
      for (const options of [{ message: "be quick" }, { limits: { turns: 3 } }])
        expect(yield* Effect.flip(host.resume("r", options))).toMatchObject({ _tag: "RunBusy", runId: "r" })
      yield* Deferred.succeed(gate, undefined)
      expect((yield* Fiber.join(driven)).run.turns).toBe(2)
    }))

  test("waits for whoever drives a run below it, and then has it driven", (shop, store) =>
    Effect.gen(function* () {
      const { gate } = shop
      const first = yield* opened(shop, { shutdown: { running: "interrupt" } })
      yield* first.host.start("parent", "go", { runId: "r" })
      yield* settle
      yield* first.close
      // As if that had been killed: the lease of the run below ends later.
      const scope = yield* Scope.make()
      yield* Scope.provide(store.lease("r/s"), scope)
      const { host } = yield* opened(shop)
      yield* host.resume("r", { message: "be quick" })
      yield* settle
      yield* TestClock.adjust("5 seconds")
      expect(yield* host.status("r")).toMatchObject({ status: "running" })
      yield* Scope.close(scope, Exit.void)
      yield* Deferred.succeed(gate, undefined)
      expect(yield* withTime(host.ended("r"))).toMatchObject({ status: "completed" })
    }))

  test("lets a run be that somebody else has go on at the same moment", (shop, store) =>
    Effect.gen(function* () {
      yield* Agent.create(shop.blocker.agent, "go", { runId: "r" })
      yield* Agent.cancel("r", "not yet")
      const reached = yield* Deferred.make<void>()
      const gate = yield* Deferred.make<void>()
      const slow: RunStore.RunStore["Service"] = {
        ...store,
        lease: (runId) =>
          Effect.andThen(
            Effect.andThen(Deferred.succeed(reached, undefined), Deferred.await(gate)),
            store.lease(runId)
          )
      }
      const { host } = yield* Effect.provideService(opened(shop), RunStore.RunStore, slow)
      const asking = yield* Effect.forkChild(host.resume("r"))
      yield* Deferred.await(reached)
      const { host: other } = yield* opened(shop)
      yield* other.resume("r")
      yield* settle
      yield* Deferred.succeed(gate, undefined)
      yield* Fiber.join(asking)
      yield* Deferred.succeed(shop.gate, undefined)
      expect(yield* withTime(other.ended("r"))).toMatchObject({ status: "completed" })
    }))

  test("has it driven also if whoever asked is gone when that is stored", (shop, store) =>
    Effect.gen(function* () {
      yield* Effect.exit(Agent.run(shop.cleaner.agent, "go", { runId: "r" }))
      yield* Agent.decide({ runId: "r", callId: "c" }, Agent.approve())
      const stored = yield* Deferred.make<void>()
      const gate = yield* Deferred.make<void>()
      const slow: RunStore.RunStore["Service"] = {
        ...store,
        append: (append) =>
          Effect.tap(store.append(append), () =>
            append.events.some((event) => event.type === "run_resumed" && event.queued === true)
              ? Effect.andThen(Deferred.succeed(stored, undefined), Deferred.await(gate))
              : Effect.void
          )
      }
      const { host } = yield* Effect.provideService(opened(shop), RunStore.RunStore, slow)
      const asking = yield* Effect.forkChild(host.resume("r"))
      yield* Deferred.await(stored)
      asking.interruptUnsafe()
      yield* Deferred.succeed(gate, undefined)
      yield* Fiber.await(asking)
      expect(yield* withTime(host.ended("r"))).toMatchObject({ status: "completed" })
    }))

  test("tells the next run of its id nothing", (shop, store) =>
    Effect.gen(function* () {
      yield* Effect.exit(Agent.run(shop.cleaner.agent, "go", { runId: "r" }))
      const { gate, host, reached } = yield* heldAtInbox(shop, store)
      const asking = yield* Effect.forkChild(Effect.flip(host.resume("r", { message: "secret" })))
      yield* Deferred.await(reached)
      yield* store.delete("r")
      yield* TestClock.adjust("1 second")
      yield* Agent.create(shop.cleaner.agent, "go", { runId: "r" })
      yield* Deferred.succeed(gate, undefined)
      expect(yield* Fiber.join(asking)).toMatchObject({ _tag: "RunNotFound" })
      expect(yield* store.summary("r")).toMatchObject({ seq: 1 })
    }))

  test("says so if a message to it reaches nobody", (shop, store) =>
    Effect.gen(function* () {
      const { host } = yield* opened(shop)
      yield* Agent.run(shop.looker.agent, "go", { runId: "completed" })
      yield* Effect.exit(Agent.run(shop.cleaner.agent, "go", { runId: "failed" }))
      yield* Agent.decide({ runId: "failed", callId: "c" }, Agent.approve({ args: { q: "locked" } }))
      yield* Effect.exit(Agent.resume(shop.cleaner.agent, "failed"))
      for (const runId of ["completed", "failed"] as const) {
        const stood = yield* store.read(runId)
        const refused = yield* Effect.flip(host.resume(runId, { message: "one more thing" }))
        expect(refused).toMatchObject({ _tag: "MessageRefused", runId, status: runId })
        expect(refused.message).toContain(runId === "completed" ? "`after`" : "`force`")
        // There is nothing that could be lost.
        yield* host.resume(runId)
        expect(yield* store.read(runId)).toEqual(stood)
      }
    }))

  test("says so if the run is stopped at the same moment, and a message with it", (shop, store) =>
    Effect.gen(function* () {
      yield* Effect.exit(Agent.run(shop.cleaner.agent, "go", { runId: "r" }))
      const { gate, host, reached } = yield* heldAtInbox(shop, store)
      const telling = yield* Effect.forkChild(Effect.flip(host.resume("r", { message: "go on" })))
      yield* Deferred.await(reached)
      yield* Agent.cancel("r", "stop")
      yield* Deferred.succeed(gate, undefined)
      expect(yield* Fiber.join(telling)).toMatchObject({ _tag: "MessageRefused", status: "interrupted" })
      expect(yield* store.summary("r")).toMatchObject({ reason: "cancelled", detail: "stop" })
    }))

  test("stores nothing of what is refused", (shop, store) =>
    Effect.gen(function* () {
      yield* Effect.exit(Agent.run(shop.cleaner.agent, "go", { runId: "r" }))
      const { seq } = yield* store.summary("r")
      const { host } = yield* opened(shop)
      expect(yield* Effect.flip(host.resume("r", { limits: { turns: -1 } }))).toMatchObject({
        _tag: "InvalidLimits"
      })
      // @ts-expect-error: a message is a text
      expect(yield* Effect.flip(host.resume("r", { message: 7 }))).toMatchObject({ kind: "invalid" })
      // @ts-expect-error: there is no such option
      expect(yield* Effect.flip(host.resume("r", { mesage: "x" }))).toMatchObject({ kind: "invalid" })
      expect(yield* Effect.flip(host.resume("none"))).toMatchObject({ _tag: "RunNotFound" })
      yield* settle
      expect(yield* store.summary("r")).toMatchObject({ seq, reason: "approval" })
    }))
})

describe("whatever is said to a run, and whenever its host dies", () => {
  const Step = Schema.Literals(["tell", "resume", "more", "stop", "approve", "crash", "recover", "wait"])

  it.effect.prop(
    "all of it is there at the end, once and in order, and the last word counts",
    { steps: Schema.Array(Step).check(Schema.isMaxLength(14)) },
    ({ steps }) =>
      Effect.gen(function* () {
        const store = yield* RunStore.RunStore
        const done: Array<string> = []
        const work = ({ q }: { readonly q: string }) =>
          Effect.as(
            Effect.sync(() => void done.push(q)),
            "done"
          )
        const handlers = tools.toLayer({ delete: work, look: work, block: work })
        // It asks for another deletion in each turn, and so it waits for somebody whenever it has stopped by itself.
        const asks = Scripted.make("keeper", (turn) => call("delete", `c${turn}`, `${turn}`))
        const keeper = Agent.make("keeper", { toolkit: tools, limits: { turns: 50, time: "1 hour" } }).pipe(
          Agent.provide(Layer.merge(handlers, Scripted.layer(asks, { usage })))
        )
        let { close, host } = yield* openedFor([keeper])
        yield* host.start("keeper", "go", { runId: "r" })
        const told: Array<string> = []
        let turns = 50
        let approved = 0
        let isStopped = false
        const wait = Effect.andThen(settle, host.ended("r"))
        yield* wait
        for (const [index, step] of steps.entries()) {
          if (step === "tell") told.push(`message ${index}`)
          if (step === "more") turns++
          if (step === "tell" || step === "resume" || step === "more") {
            const options = {
              tell: { message: `message ${index}` },
              more: { limits: { turns } },
              resume: {}
            }
            yield* host.resume("r", options[step])
            isStopped = false
          } else if (step === "stop") {
            yield* host.cancel("r", "stop")
            yield* settle
            isStopped = true
          } else if (step === "approve") {
            const [waiting] = (yield* host.status("r")).approvals
            if (waiting === undefined) continue
            const decided = yield* Effect.result(host.decide(waiting, Agent.approve()))
            if (decided._tag === "Success") approved++
          } else if (step === "crash") {
            yield* close
            ;({ close, host } = yield* openedFor([keeper]))
          } else if (step === "recover") yield* host.recover
          else yield* settle
        }
        yield* close
        ;({ close, host } = yield* openedFor([keeper]))
        yield* host.recover
        const ended = yield* host.ended("r")
        yield* close
        const { events, state } = yield* RunStore.load("r")
        checkLaws(events)
        expect(ended.status).toBe("interrupted")
        expect(ended.reason === "cancelled").toBe(isStopped)
        expect(state.limits.turns).toBe(turns)
        const all = [...state.messages, ...state.held]
        expect(all.flatMap((each) => (each.role === "user" ? [each.content] : []))).toEqual(["go", ...told])
        expect(new Set(done).size).toBe(done.length)
        expect(done.length).toBeLessThanOrEqual(approved)
        expect(yield* store.isDriven("r")).toBe(false)
      }).pipe(Effect.scoped, Effect.provide(Layer.fresh(MemoryRunStore.layer))),
    { arbitrary: { runs: 200, size: 14 } }
  )
})
