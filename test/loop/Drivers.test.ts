/** Who has a run driven and who stops it, in every order, and those who have a run and do not drive it. */
import { describe, expect, it } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as TestClock from "effect/testing/TestClock"
import { Agent, CurrentCall, MemoryRunStore, RunHost, RunStore } from "../../src/index.ts"
import * as Scripted from "../../src/provider/Scripted.ts"
import { describeStores } from "../store/stores.ts"
import { checkLaws } from "./laws.ts"
import { call, guarded, of, reader, settle, usage, withTime } from "./support.ts"

type Host = RunHost.RunHost["Service"]
type Store = RunStore.RunStore["Service"]

const tools = Toolkit.make(reader("look"), guarded("delete").annotate(Tool.Readonly, true), reader("block"))

/** Agents that do one thing each, the runs in which it was done, and the gates that the blockers wait at. */
const workshop = Effect.fnUntraced(function* (latency: Duration.Input = 0) {
  const gates = { a: yield* Deferred.make<void>(), b: yield* Deferred.make<void>() }
  const done: Array<string> = []
  const work = Effect.gen(function* () {
    yield* Effect.sleep(latency)
    const { runId } = yield* CurrentCall.CurrentCall
    done.push(runId)
    return "done"
  })
  const agentOf = (name: string, tool: string, gate: Deferred.Deferred<void>) => {
    const block = () => Effect.as(Deferred.await(gate), "open")
    const handlers = tools.toLayer({ look: () => work, delete: () => work, block })
    return Agent.make(name, { toolkit: tools, limits: { time: "1 hour" } }).pipe(
      Agent.provide(
        Layer.merge(
          handlers,
          Scripted.layer(Scripted.make(name, [call(tool, "c"), Scripted.text("done")]), { usage, latency })
        )
      )
    )
  }
  const looker = agentOf("looker", "look", gates.a)
  const cleaner = agentOf("cleaner", "delete", gates.a)
  const blocker = agentOf("a", "block", gates.a)
  const agents = [looker, cleaner, blocker, agentOf("b", "block", gates.b)]
  return { gates, done, looker, cleaner, blocker, agents }
})
type Workshop = Effect.Success<ReturnType<typeof workshop>>

/** How a run stands before anything is asked of it. */
const standings = {
  running: ({ looker }: Workshop, runId: string) => Agent.create(looker, "go", { runId }),
  cancelled: ({ looker }: Workshop, runId: string) =>
    Effect.andThen(Agent.create(looker, "go", { runId }), Agent.cancel(runId, "before")),
  approved: ({ cleaner }: Workshop, runId: string) =>
    Effect.exit(Agent.run(cleaner, "go", { runId })).pipe(
      Effect.andThen(Agent.decide({ runId, callId: "c" }, Agent.approve()))
    ),
  limited: ({ looker }: Workshop, runId: string) =>
    Effect.exit(Agent.run(looker, "go", { runId, limits: { turns: 1 } }))
}
type Standing = keyof typeof standings

const stand = (
  standing: Standing,
  shop: Workshop,
  runId: string
): Effect.Effect<unknown, unknown, RunStore.RunStore> => standings[standing](shop, runId)

const asks = ["resume A", "resume B", "start B", "recover A", "stop"] as const
type Ask = (typeof asks)[number]

const ask = (kind: Ask, { a, b }: { readonly a: Host; readonly b: Host }, agent: string, runId: string) => {
  const on = kind.endsWith("A") ? a : b
  if (kind === "stop") return Agent.cancel(runId, "stop")
  if (kind.startsWith("resume")) return on.resume(runId, { limits: { turns: 5 } })
  return kind.startsWith("start") ? on.start(agent, "go", { runId }) : on.recover
}

/** Whether somebody has a run go on that was never stopped, without saying so to that run. */
const takesUp = (kind: Ask, standing: Standing): boolean =>
  kind !== "stop" && (standing === "running" || (standing === "approved" && kind === "recover A"))

/** Whether a run goes on: whoever was the last to stop it or to have it go on counts. */
const goesOn = (standing: Standing, order: ReadonlyArray<Ask>): boolean => {
  const last = order.lastIndexOf("stop")
  return order.some(
    (kind, index) => index > last && (kind.startsWith("resume") || (last < 0 && takesUp(kind, standing)))
  )
}

const ordersOf = (kinds: ReadonlyArray<Ask>, length: number): ReadonlyArray<ReadonlyArray<Ask>> =>
  length === 0 ? [[]] : ordersOf(kinds, length - 1).flatMap((order) => kinds.map((kind) => [...order, kind]))

const hostOf = ({ agents }: Workshop, options: RunHost.Options<never> = {}) =>
  Effect.map(Layer.build(Layer.fresh(RunHost.layer(agents, options))), Context.get(RunHost.RunHost))

interface Case {
  readonly standing: Standing
  readonly order: ReadonlyArray<Ask>
}

/** Asks for all this while neither host has a place, and gives them one then: to A first, or to both at once. */
const check = (cases: ReadonlyArray<Case>, first: "A" | "both") =>
  Effect.gen(function* () {
    const store = yield* RunStore.RunStore
    const shop = yield* workshop()
    const a = yield* hostOf(shop, { concurrency: 1 })
    const b = yield* hostOf(shop, { concurrency: 1 })
    yield* a.start("a", "go", { runId: "a" })
    yield* b.start("b", "go", { runId: "b" })
    for (const runId of ["a", "b"]) {
      const isBlocked = Effect.map(store.summary(runId), ({ turns }) => turns === 1)
      yield* Effect.repeat(Effect.delay(isBlocked, "1 millis"), { until: (is) => is })
    }
    const runs = cases.map((each, index) => ({ ...each, runId: `run ${index}` }))
    for (const { standing, runId } of runs) yield* stand(standing, shop, runId)
    for (const { order, runId, standing } of runs) {
      const agent = standing === "approved" ? "cleaner" : "looker"
      for (const kind of order) yield* ask(kind, { a, b }, agent, runId)
    }
    expect(shop.done).toEqual([])
    const release = (host: Host, which: "a" | "b") =>
      Effect.gen(function* () {
        yield* Deferred.succeed(shop.gates[which], undefined)
        for (const runId of [which, ...runs.map((run) => run.runId)]) yield* host.ended(runId)
      })
    yield* Effect.all([release(a, "a"), release(b, "b")], {
      concurrency: first === "both" ? "unbounded" : 1
    })
    for (const { order, runId, standing } of runs) {
      const went = shop.done.filter((each) => each === runId).length
      const { reason, status } = yield* store.summary(runId)
      checkLaws(yield* store.read(runId))
      const isResumed = order.slice(0, order.lastIndexOf("stop")).some((kind) => kind.startsWith("resume"))
      const isOver = standing === "limited" && !isResumed
      const stopped = isOver ? "max_turns" : order.includes("stop") ? "cancelled" : reason
      expect({ standing, order, went, reason }).toEqual(
        goesOn(standing, order)
          ? { standing, order, went: 1, reason: "answered" }
          : { standing, order, went: 0, reason: stopped }
      )
      expect(status === "running").toBe(reason === undefined)
    }
  }).pipe(Effect.scoped)

const casesOf = (orders: ReadonlyArray<ReadonlyArray<Ask>>): ReadonlyArray<Case> =>
  (Object.keys(standings) as ReadonlyArray<Standing>).flatMap((standing) =>
    orders.map((order) => ({ standing, order }))
  )

describe("on two hosts without a place, whoever was the last to stop a run or to have it go on counts", () => {
  // Whoever recovers takes up all runs that there are, so those need a store of their own.
  const shared = asks.filter((kind) => kind !== "recover A")
  describeStores((layer, name) => {
    const orders =
      name === "memory"
        ? [1, 2, 3].flatMap((length) => ordersOf(shared, length))
        : [...ordersOf(shared, 2), ...ordersOf(["resume A", "resume B", "stop"], 3)]
    for (const first of ["A", "both"] as const)
      it.live(`(${name}, place for ${first} first)`, () =>
        Effect.provide(check(casesOf(orders), first), layer)
      )
  })

  it.live("also if one recovers what the other is told to resume", () =>
    Effect.gen(function* () {
      const orders = [1, 2, 3].flatMap((length) => ordersOf(asks, length))
      for (const each of casesOf(orders.filter((order) => order.includes("recover A"))))
        yield* Effect.provide(check([each], "A"), Layer.fresh(MemoryRunStore.layer))
    })
  )
})

describe("a resume that is slower to be asked for than a Stop and the next resume", () => {
  it.effect("does not take that one back", () =>
    Effect.gen(function* () {
      const store = yield* RunStore.RunStore
      const shop = yield* workshop()
      yield* standings.cancelled(shop, "r")
      const gate = yield* Deferred.make<void>()
      let looks = 0
      const slow: Store = {
        ...store,
        inbox: (runId, after) =>
          Effect.tap(store.inbox(runId, after), () =>
            runId === "r" && ++looks === 1 ? Deferred.await(gate) : Effect.void
          )
      }
      const host = yield* Effect.provideService(hostOf(shop, { concurrency: 1 }), RunStore.RunStore, slow)
      yield* host.start("a", "go", { runId: "a" })
      yield* settle
      const first = yield* Effect.forkChild(host.resume("r"), { startImmediately: true })
      yield* host.cancel("r", "stop")
      yield* host.resume("r")
      yield* Deferred.succeed(gate, undefined)
      yield* Fiber.join(first)
      yield* Deferred.succeed(shop.gates.a, undefined)
      expect(yield* host.ended("r")).toMatchObject({ status: "completed" })
    }).pipe(Effect.scoped, Effect.provide(MemoryRunStore.layer))
  )
})

describe("a resume that is stored while its host looks whether anything is left to do", () => {
  for (const kind of ["cancelled", "answered"] as const)
    it.effect(`is driven, whatever that look finds (${kind})`, () =>
      Effect.gen(function* () {
        const store = yield* RunStore.RunStore
        const shop = yield* workshop()
        const gate = yield* Deferred.make<void>()
        const reached = yield* Deferred.make<void>()
        let isNext = false
        const slow: Store = {
          ...store,
          summary: (runId) =>
            Effect.tap(store.summary(runId), () => {
              if (runId !== "r" || !isNext) return Effect.void
              isNext = false
              return Effect.andThen(Deferred.succeed(reached, undefined), Deferred.await(gate))
            })
        }
        const host = yield* Effect.provideService(hostOf(shop, { concurrency: 1 }), RunStore.RunStore, slow)
        yield* host.start("a", "go", { runId: "a" })
        yield* settle
        if (kind === "answered") {
          yield* stand("approved", shop, "r")
          yield* host.recover
        } else yield* host.start("looker", "go", { runId: "r" })
        yield* settle
        yield* Agent.cancel("r", "stop")
        isNext = true
        yield* Deferred.succeed(shop.gates.a, undefined)
        yield* Deferred.await(reached)
        yield* host.resume("r")
        yield* Deferred.succeed(gate, undefined)
        expect(yield* host.ended("r")).toMatchObject({ status: "completed" })
        expect(shop.done).toEqual(["r"])
      }).pipe(Effect.scoped, Effect.provide(MemoryRunStore.layer))
    )
})

describe("a run whose budget a host asks for", () => {
  it.effect("has the options that it was started with, wherever an object has them", () =>
    Effect.gen(function* () {
      const shop = yield* workshop()
      const host = yield* hostOf(shop, { budget: () => Effect.undefined })
      class Written {
        tags = ["x"]
        get limits() {
          return { turns: 0 }
        }
      }
      const runId = yield* host.start("looker", "go", new Written())
      expect(yield* host.ended(runId)).toMatchObject({ status: "max_turns_exceeded", tags: ["x"] })
    }).pipe(Effect.scoped, Effect.provide(MemoryRunStore.layer))
  )

  for (const standing of ["cancelled", "approved", "limited"] as const)
    for (const [who, before] of [
      ["whoever resumes it", 0],
      ["its driver", 1]
    ] as const)
      it.effect(`(${standing}, by ${who}) is not driven if it is stopped meanwhile`, () =>
        Effect.gen(function* () {
          const shop = yield* workshop()
          yield* stand(standing, shop, "r")
          const reached = yield* Deferred.make<void>()
          const gate = yield* Deferred.make<void>()
          let asked = 0
          const budget = () =>
            asked++ < before
              ? Effect.undefined
              : Effect.andThen(
                  Deferred.succeed(reached, undefined),
                  Effect.as(Deferred.await(gate), undefined)
                )
          const host = yield* hostOf(shop, { budget })
          const resuming = yield* Effect.forkChild(host.resume("r", { limits: { turns: 5 } }))
          yield* Deferred.await(reached)
          yield* Agent.cancel("r", "stop")
          yield* Deferred.succeed(gate, undefined)
          yield* Fiber.join(resuming)
          const ended = yield* host.ended("r")
          // A Stop of what has stopped leaves it as it is, for whoever was asked before to have it go on.
          if (who === "its driver" || standing === "approved")
            expect(ended).toMatchObject({ reason: "cancelled", detail: "stop" })
          expect(ended.status).not.toBe("running")
          expect(shop.done).toEqual([])
        }).pipe(Effect.scoped, Effect.provide(MemoryRunStore.layer))
      )
})

describe("a run that a host has just taken up", () => {
  /** A store that is held up where a driver looks into the inbox, before or after it has read that. */
  const holding = (where: "before" | "after") =>
    Effect.gen(function* () {
      const store = yield* RunStore.RunStore
      const reached = yield* Deferred.make<void>()
      const gate = yield* Deferred.make<void>()
      const hold = Effect.andThen(Deferred.succeed(reached, undefined), Deferred.await(gate))
      let isNext = false
      const slow: Store = {
        ...store,
        lease: (runId) => {
          isNext = true
          return store.lease(runId)
        },
        inbox: (runId, after) =>
          Effect.suspend(() => {
            const inbox = store.inbox(runId, after)
            if (!isNext) return inbox
            isNext = false
            return where === "before" ? Effect.andThen(hold, inbox) : Effect.tap(inbox, () => hold)
          })
      }
      return { reached, gate, slow }
    })

  const orders = [["resume"], ["stop"], ["stop", "resume"], ["stop", "resume", "stop"]] as const

  for (const where of ["before", "after"] as const) {
    for (const standing of ["cancelled", "approved", "limited"] as const) {
      for (const order of orders) {
        // Whoever has the run is told to stop it, and a resume that comes before it is done with that undoes nothing.
        const went = order.some((each) => each === "stop") ? 0 : 1
        it.effect(`(${standing}, ${where} it looks into the inbox) and then: ${order.join(", ")}`, () =>
          Effect.gen(function* () {
            const shop = yield* workshop("5 seconds")
            yield* withTime(stand(standing, shop, "r"))
            const { gate, reached, slow } = yield* holding(where)
            const host = yield* Effect.provideService(hostOf(shop), RunStore.RunStore, slow)
            const resumed = host.resume("r", { limits: { turns: 5 } })
            yield* resumed
            yield* Deferred.await(reached)
            for (const each of order) yield* each === "stop" ? Agent.cancel("r", "stop") : resumed
            yield* Deferred.succeed(gate, undefined)
            yield* settle
            const { reason } = yield* withTime(host.ended("r"))
            expect(shop.done).toHaveLength(went)
            expect(reason).toBe(went === 1 ? "answered" : "cancelled")
            const store = yield* RunStore.RunStore
            checkLaws(yield* store.read("r"))
            // Whoever resumes it when that is over has it go on.
            yield* resumed
            expect(yield* withTime(host.ended("r"))).toMatchObject({ reason: "answered" })
            expect(shop.done).toEqual(["r"])
          }).pipe(Effect.scoped, Effect.provide(MemoryRunStore.layer))
        )
      }
    }
  }
})

describe("somebody who has a run and does not drive it", () => {
  const asked = {
    started: (host: Host) => host.start("looker", "go", { runId: "r" }),
    resumed: (host: Host) => host.resume("r")
  }

  describeStores((layer, name) => {
    for (const [how, haveDriven] of Object.entries(asked))
      it.live(`is waited for, once the run is ${how} (${name})`, () =>
        Effect.gen(function* () {
          const store = yield* RunStore.RunStore
          const shop = yield* workshop()
          const host = yield* hostOf(shop)
          const creator = yield* Scope.make()
          yield* Agent.create(shop.looker, "go", { runId: "r" })
          yield* Scope.provide(store.lease("r"), creator)
          for (let i = 0; i < 3; i++) yield* haveDriven(host)
          yield* Effect.sleep("50 millis")
          expect(yield* host.status("r")).toMatchObject({ status: "running", seq: 1 })
          yield* Scope.close(creator, Exit.void)
          expect(yield* host.ended("r")).toMatchObject({ status: "completed" })
          expect(shop.done).toEqual(["r"])
          expect(of(yield* store.read("r"), "run_resumed")).toHaveLength(1)
        }).pipe(Effect.scoped, Effect.provide(layer))
      )
  })

  const test = (
    name: string,
    body: (shop: Workshop, store: Store) => Effect.Effect<unknown, unknown, RunStore.RunStore | Scope.Scope>
  ) =>
    it.effect(name, () =>
      Effect.gen(function* () {
        const shop = yield* workshop()
        yield* Agent.create(shop.looker, "go", { runId: "r" })
        return yield* body(shop, yield* RunStore.RunStore)
      }).pipe(Effect.scoped, Effect.provide(MemoryRunStore.layer))
    )

  test("is waited for no longer than half a minute, which takes no place: then `recover` has it driven", (shop, store) =>
    Effect.gen(function* () {
      const host = yield* hostOf(shop, { concurrency: 1 })
      const holder = yield* Scope.make()
      yield* Scope.provide(store.lease("r"), holder)
      yield* host.start("looker", "go", { runId: "r" })
      yield* settle
      yield* host.start("looker", "go", { runId: "other" })
      expect(yield* host.ended("other")).toMatchObject({ status: "completed" })
      yield* TestClock.adjust("30 seconds")
      yield* Scope.close(holder, Exit.void)
      yield* TestClock.adjust("1 minute")
      expect(yield* host.ended("r")).toMatchObject({ status: "running", seq: 1 })
      expect(yield* host.recover).toEqual(["r"])
      expect(yield* host.ended("r")).toMatchObject({ status: "completed" })
    }))

  test("is not waited for any more when it goes on with the run", (shop, store) =>
    Effect.gen(function* () {
      const host = yield* hostOf(shop)
      const other = yield* hostOf(shop)
      const { blocker } = shop
      const driven = yield* Effect.forkChild(Agent.run(blocker, "go", { runId: "driven" }))
      yield* settle
      for (const at of [host, other]) yield* at.start("a", "go", { runId: "driven" })
      yield* settle
      yield* Deferred.succeed(shop.gates.a, undefined)
      yield* Fiber.join(driven)
      expect(yield* host.ended("driven")).toMatchObject({ status: "completed", turns: 2 })
      expect(of(yield* store.read("driven"), "run_resumed")).toEqual([])
    }))

  test("is waited for once, whatever a store says of it", (shop, store) =>
    Effect.gen(function* () {
      let leases = 0
      const odd: Store = {
        ...store,
        isDriven: () => Effect.succeed(false),
        lease: (runId) =>
          Effect.suspend(() => (++leases > 0 ? new RunStore.RunBusy({ runId }) : store.lease(runId)))
      }
      const host = yield* Effect.provideService(hostOf(shop), RunStore.RunStore, odd)
      yield* host.resume("r")
      yield* settle
      yield* TestClock.adjust("1 minute")
      expect(yield* host.ended("r")).toMatchObject({ status: "running" })
      expect(leases).toBe(2)
    }))

  test("holds up no host that is closed", (shop, store) =>
    Effect.gen(function* () {
      const scope = yield* Scope.make()
      const host = yield* Scope.provide(hostOf(shop), scope)
      yield* store.lease("r")
      yield* host.start("looker", "go", { runId: "r" })
      yield* settle
      yield* Scope.close(scope, Exit.void)
      expect(yield* store.summary("r")).toMatchObject({ status: "running", seq: 1 })
    }))

  test("and then stops it has stopped it: whoever was told to start it has nothing to do", (shop, store) =>
    Effect.gen(function* () {
      const host = yield* hostOf(shop)
      const holder = yield* Scope.make()
      yield* Scope.provide(store.lease("r"), holder)
      yield* host.start("looker", "go", { runId: "r" })
      yield* settle
      yield* host.cancel("r", "stop")
      yield* Scope.close(holder, Exit.void)
      yield* TestClock.adjust("30 seconds")
      expect(yield* host.ended("r")).toMatchObject({ reason: "cancelled", detail: "stop" })
      expect(shop.done).toEqual([])
    }))
})
