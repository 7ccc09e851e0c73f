/** What is taken up without being asked for: not what still waits, not twice, and not for ever. */
import { describe, expect, it } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as SqlClient from "effect/sql/SqlClient"
import { Agent, MemoryRunStore, RunHost, RunStore, ToolPolicy } from "../../src/index.ts"
import * as Scripted from "../../src/provider/Scripted.ts"
import * as NodeSqlite from "../../src/store/NodeSqlite.ts"
import * as SqlRunStore from "../../src/store/SqlRunStore.ts"
import * as Audit from "../../src/testing/Audit.ts"
import { describeStores } from "../store/stores.ts"
import { call, guarded, journal, of, reader, usage, writer } from "./support.ts"

const tools = Toolkit.make(
  guarded("delete"),
  reader("block"),
  writer("pay").annotate(ToolPolicy.Timeout, "10 millis"),
  writer("fail")
)

/** The handlers, what they did, and a gate that `block` waits at; `pay` never comes back. */
const workshop = Effect.gen(function* () {
  const done: Array<string> = []
  const gate = yield* Deferred.make<void>()
  const handlers = tools.toLayer({
    delete: ({ q }) =>
      Effect.as(
        Effect.sync(() => done.push(q)),
        "deleted"
      ),
    block: () => Effect.as(Deferred.await(gate), "open"),
    pay: () => Effect.never,
    fail: () => Effect.die(new Error("broken"))
  })
  const agentOf = (name: string, ...lines: ReadonlyArray<Scripted.Line>) =>
    Agent.make(name, { toolkit: tools, limits: { time: "1 hour" } }).pipe(
      Agent.provide(Layer.merge(handlers, Scripted.layer(Scripted.make(name, lines), { usage })))
    )
  return { agentOf, done, gate, handlers }
})

type AnAgent = Agent.Agent<unknown, never, never>

const hostOf = (agents: ReadonlyArray<AnAgent>, options: RunHost.Options<never> = {}) =>
  Effect.map(Layer.build(Layer.fresh(RunHost.layer(agents, options))), Context.get(RunHost.RunHost))

/** Says yes to whatever a run waits for, of these sorts. */
const say = Effect.fnUntraced(function* (runId: string, sorts: ReadonlyArray<"approvals" | "unknown">) {
  const summary = yield* RunStore.RunStore.use((store) => store.summary(runId))
  for (const sort of sorts) {
    for (const waiting of summary[sort]) {
      yield* sort === "approvals"
        ? Agent.decide(waiting, Agent.approve())
        : Agent.resolve(waiting, Agent.didNotHappen)
    }
  }
})

/** Recovers a few times, and yields what was taken up each time. */
const recovers = Effect.fnUntraced(function* (host: RunHost.RunHost["Service"], times = 4) {
  const taken: Array<ReadonlyArray<string>> = []
  for (let i = 0; i < times; i++) {
    const runIds = yield* host.recover
    for (const runId of runIds) yield* host.ended(runId)
    taken.push(runIds)
  }
  return taken
})

const resumes = (runId: string) => Effect.map(journal(runId), (events) => of(events, "run_resumed").length)

const check = (name: string, body: () => Effect.Effect<void, unknown, RunStore.RunStore>) =>
  it.live(name, () => Effect.provide(body(), MemoryRunStore.layer))

describe("a run that was answered and not resumed", () => {
  describeStores((layer, name) => {
    for (const [ending, lines] of [
      ["waits again", [call("delete", "a"), call("delete", "b"), Scripted.text("done")]],
      ["fails", [call("delete", "a"), Scripted.fail(400)]],
      ["finds its provider away", [call("delete", "a"), Scripted.fail(401)]]
    ] as const) {
      it.live(`(${name}) is driven once by hosts that all recover it, and ${ending}`, () =>
        Effect.gen(function* () {
          const { agentOf, done, gate } = yield* workshop
          const agent = agentOf("cleaner", ...lines)
          const blocker = agentOf("blocker", call("block", "c"), Scripted.text("done"))
          yield* Agent.outcome(Agent.run(agent, "go", { runId: "r" }))
          yield* say("r", ["approvals"])
          const hosts = yield* Effect.forEach([1, 2, 3], () => hostOf([agent, blocker], { concurrency: 1 }))
          // None has a place yet, so that all of them see it as it was left.
          for (const [index, host] of hosts.entries())
            yield* host.start("blocker", "go", { runId: `b${index}` })
          for (const index of hosts.keys()) {
            const isBlocked = Effect.map(
              journal(`b${index}`),
              (events) => of(events, "tool_start").length > 0
            )
            yield* Effect.repeat(Effect.delay(isBlocked, "1 millis"), { until: (is) => is })
          }
          for (const host of hosts) expect(yield* host.recover).toEqual(["r"])
          yield* Deferred.succeed(gate, undefined)
          yield* Effect.forEach(hosts, (host) => host.ended("r"), { concurrency: "unbounded" })
          expect(yield* resumes("r")).toBe(1)
          expect(done).toEqual(["x"])
          expect(yield* recovers(hosts[0]!, 2)).toEqual([[], []])
        }).pipe(Effect.scoped, Effect.provide(layer))
      )
    }
  })

  check("and was stopped, or is another one of its id meanwhile, is left as it is", () =>
    Effect.gen(function* () {
      const { agentOf, done, gate } = yield* workshop
      const agent = agentOf("cleaner", call("delete", "a"), Scripted.text("done"))
      const blocker = agentOf("blocker", call("block", "c"), Scripted.text("done"))
      const store = yield* RunStore.RunStore
      for (const runId of ["stopped", "reused"]) {
        yield* Agent.outcome(Agent.run(agent, "go", { runId }))
        yield* say(runId, ["approvals"])
      }
      const host = yield* hostOf([agent, blocker], { concurrency: 1 })
      yield* host.start("blocker", "go", { runId: "b" })
      expect([...(yield* host.recover)].sort()).toEqual(["reused", "stopped"])
      yield* host.cancel("stopped", "enough")
      yield* store.delete("reused")
      yield* Agent.outcome(Agent.run(agent, "go", { runId: "reused" }))
      yield* Deferred.succeed(gate, undefined)
      expect(yield* host.ended("reused")).toMatchObject({ reason: "approval" })
      expect(yield* resumes("reused")).toBe(0)
      expect(yield* host.ended("stopped")).toMatchObject({ reason: "cancelled" })
      // The Stop itself was written down as if it had been resumed for that.
      expect(yield* resumes("stopped")).toBe(1)
      expect(done).toEqual([])
    }).pipe(Effect.scoped)
  )

  check("is taken up when all is said that it waits for, and not before", () =>
    Effect.gen(function* () {
      const { agentOf, done } = yield* workshop
      const both = Scripted.turn(call("delete", "a", "a"), call("delete", "b", "b"))
      const agent = agentOf("cleaner", both, Scripted.text("done"))
      yield* Agent.outcome(Agent.run(agent, "go", { runId: "r" }))
      const host = yield* hostOf([agent])
      yield* host.decide({ runId: "r", callId: "b" }, Agent.reject("no"))
      expect(yield* recovers(host)).toEqual([[], [], [], []])
      expect(yield* resumes("r")).toBe(0)
      yield* host.decide({ runId: "r", callId: "a" }, Agent.approve())
      expect(yield* recovers(host)).toEqual([["r"], [], [], []])
      expect(yield* host.status("r")).toMatchObject({ status: "completed" })
      expect(done).toEqual(["a"])
    }).pipe(Effect.scoped)
  )
})

describe("a run whose approval has expired", () => {
  check("still waits, and is left alone", () =>
    Effect.gen(function* () {
      const { agentOf } = yield* workshop
      const agent = agentOf("cleaner", call("delete", "a"), Scripted.text("done"))
      yield* Agent.outcome(Agent.run(agent, "go", { runId: "r" }))
      const host = yield* hostOf([agent])
      yield* host.decide({ runId: "r", callId: "a" }, Agent.approve({ expires: "1 millis" }))
      yield* Effect.sleep("5 millis")
      expect(yield* recovers(host)).toEqual([[], [], [], []])
      expect(yield* resumes("r")).toBe(0)
      yield* host.decide({ runId: "r", callId: "a" }, Agent.approve())
      expect(yield* recovers(host, 2)).toEqual([["r"], []])
      expect(yield* host.status("r")).toMatchObject({ status: "completed" })
    }).pipe(Effect.scoped)
  )
})

describe("a run with a sub-agent's", () => {
  const family = Effect.gen(function* () {
    const { agentOf, done, handlers } = yield* workshop
    const helper = agentOf("helper", call("delete", "x", "below"), Scripted.text("helped"))
    const ask = Agent.asTool(helper, { name: "ask", description: "Asks." })
    const asking = ask.tool.annotate(Tool.Readonly, true)
    const store = yield* RunStore.RunStore
    const limits = { time: "1 hour" } as const
    const leadOf = (withHelper: boolean, ...lines: ReadonlyArray<Scripted.Line>): AnAgent => {
      const model = Scripted.layer(Scripted.make("lead", lines), { usage })
      const around = Layer.mergeAll(handlers, ask.layer, model, Layer.succeed(RunStore.RunStore, store))
      return withHelper
        ? Agent.make("lead", { toolkit: Toolkit.merge(tools, Toolkit.make(asking)), limits }).pipe(
            Agent.provide(around)
          )
        : Agent.make("lead", { toolkit: tools, limits }).pipe(Agent.provide(around))
    }
    return { done, leadOf }
  })
  const asks = Scripted.call("ask", { task: "t" }, { id: "k" })

  check("that waits stays quiet while somebody else has to speak first, whoever that is", () =>
    Effect.gen(function* () {
      const { done, leadOf } = yield* family
      const lead = leadOf(true, Scripted.turn(asks, call("pay", "p")), Scripted.text("done"))
      yield* Agent.outcome(Agent.run(lead, "go", { runId: "r" }))
      expect(yield* RunStore.RunStore.use((store) => store.summary("r"))).toMatchObject({
        reason: "unknown_outcome"
      })
      const host = yield* hostOf([lead])
      yield* say("r", ["approvals"])
      expect(yield* recovers(host)).toEqual([[], [], [], []])
      expect([yield* resumes("r"), yield* resumes("r/k")]).toEqual([0, 0])
      yield* say("r", ["unknown"])
      expect(yield* recovers(host)).toEqual([["r"], [], [], []])
      expect(yield* host.status("r")).toMatchObject({ status: "completed" })
      expect(done).toEqual(["below"])
      expect((yield* Audit.run("r")).findings).toEqual([])
    }).pipe(Effect.scoped)
  )

  for (const [what, lines, speak, reason] of [
    [
      "that was cancelled by itself is taken up when the other is answered",
      [Scripted.turn(asks, Scripted.call("ask", { task: "t" }, { id: "l" }))],
      (store: RunStore.RunStore["Service"]) =>
        Effect.gen(function* () {
          yield* Agent.cancel("r/k", "not this one")
          const [waiting] = (yield* store.summary("r/l")).approvals
          yield* Agent.decide(waiting!, Agent.approve())
        }),
      "approval"
    ],
    [
      "that was deleted is taken up when the other is answered",
      [Scripted.turn(asks, Scripted.call("ask", { task: "t" }, { id: "l" }))],
      (store: RunStore.RunStore["Service"]) =>
        Effect.gen(function* () {
          yield* store.delete("r/k")
          const [waiting] = (yield* store.summary("r/l")).approvals
          yield* Agent.decide(waiting!, Agent.approve())
        }),
      "approval"
    ]
  ] as const) {
    check(what, () =>
      Effect.gen(function* () {
        const { done, leadOf } = yield* family
        const lead = leadOf(true, ...lines, Scripted.text("done"))
        yield* Agent.outcome(Agent.run(lead, "go", { runId: "r" }))
        const store = yield* RunStore.RunStore
        expect(yield* store.summary("r")).toMatchObject({ reason })
        const host = yield* hostOf([lead])
        expect(yield* recovers(host, 2)).toEqual([[], []])
        yield* speak(store)
        expect((yield* recovers(host, 2))[0]).toEqual(["r"])
        expect(yield* recovers(host, 2)).toEqual([[], []])
        expect(done.length).toBeGreaterThan(0)
      }).pipe(Effect.scoped)
    )
  }

  check("that was driven by itself is taken up when what that waits for now is said", () =>
    Effect.gen(function* () {
      const { agentOf, done } = yield* workshop
      const store = yield* RunStore.RunStore
      const helper = agentOf(
        "helper",
        call("delete", "x", "first"),
        call("delete", "y", "second"),
        Scripted.text("helped")
      )
      const ask = Agent.asTool(helper, { name: "ask", description: "Asks." })
      const model = Scripted.layer(Scripted.make("lead", [asks, Scripted.text("done")]), { usage })
      const lead = Agent.make("lead", { toolkit: Toolkit.make(ask.tool), limits: { time: "1 hour" } }).pipe(
        Agent.provide(Layer.mergeAll(ask.layer, model, Layer.succeed(RunStore.RunStore, store)))
      )
      yield* Agent.outcome(Agent.run(lead, "go", { runId: "r" }))
      yield* say("r/k", ["approvals"])
      yield* Agent.outcome(Agent.resume(helper, "r/k"))
      const host = yield* hostOf([lead])
      expect(yield* recovers(host, 2)).toEqual([[], []])
      yield* say("r/k", ["approvals"])
      expect(yield* recovers(host)).toEqual([["r"], [], [], []])
      expect(yield* host.status("r")).toMatchObject({ status: "completed" })
      expect(done).toEqual(["first", "second"])
    }).pipe(Effect.scoped)
  )

  check("that was cancelled and has left an unknown outcome is taken up when that is resolved", () =>
    Effect.gen(function* () {
      const { agentOf } = yield* workshop
      const store = yield* RunStore.RunStore
      const helper = agentOf("helper", call("pay", "p"), Scripted.text("helped"))
      const ask = Agent.asTool(helper, { name: "ask", description: "Asks." })
      const model = Scripted.layer(Scripted.make("lead", [asks, Scripted.text("done")]), { usage })
      const lead = Agent.make("lead", { toolkit: Toolkit.make(ask.tool), limits: { time: "1 hour" } }).pipe(
        Agent.provide(Layer.mergeAll(ask.layer, model, Layer.succeed(RunStore.RunStore, store)))
      )
      yield* Agent.outcome(Agent.run(lead, "go", { runId: "r" }))
      yield* Agent.cancel("r/k", "not this one")
      yield* Agent.outcome(Agent.resume(lead, "r"))
      expect(yield* store.summary("r")).toMatchObject({ reason: "unknown_outcome" })
      const host = yield* hostOf([lead])
      expect(yield* recovers(host, 2)).toEqual([[], []])
      yield* say("r", ["unknown"])
      expect(yield* recovers(host)).toEqual([["r"], [], [], []])
      expect(yield* host.status("r")).toMatchObject({ status: "completed" })
    }).pipe(Effect.scoped)
  )

  check("is not taken up for what is said to a run that it does not wait for any more", () =>
    Effect.gen(function* () {
      const { done, leadOf } = yield* family
      const lines = [asks, call("delete", "d", "above"), Scripted.text("done")]
      yield* Agent.outcome(Agent.run(leadOf(true, ...lines), "go", { runId: "r" }))
      // The next build has no such tool, and its call is answered without the run in it.
      const next = leadOf(false, ...lines)
      yield* Agent.outcome(Agent.resume(next, "r"))
      const before = yield* resumes("r")
      yield* say("r/k", ["approvals"]).pipe(Effect.ignore)
      const host = yield* hostOf([next])
      expect(yield* recovers(host)).toEqual([[], [], [], []])
      expect(yield* resumes("r")).toBe(before)
      expect(done).toEqual([])
    }).pipe(Effect.scoped)
  )
})

describe("a run that cannot be read", () => {
  it.live("does not keep the others from being taken up, whatever of it that is", () =>
    Effect.gen(function* () {
      const { agentOf } = yield* workshop
      const agent = agentOf("cleaner", call("delete", "a"), Scripted.text("done"))
      for (const runId of ["first", "broken", "newer", "gone", "last"]) {
        yield* Agent.outcome(Agent.run(agent, "go", { runId }))
        yield* say(runId, ["approvals"])
      }
      const sql = yield* SqlClient.SqlClient
      yield* sql`UPDATE checkrein_commands SET body = '{' WHERE run_id = 'broken'`
      yield* sql`UPDATE checkrein_commands SET body = '{"v":1,"type":"praise"}' WHERE run_id = 'newer'`
      yield* sql`UPDATE checkrein_runs SET summary = '{' WHERE run_id = 'gone'`
      const host = yield* hostOf([agent])
      expect((yield* recovers(host, 2)).map((taken) => [...taken].sort())).toEqual([["first", "last"], []])
      for (const runId of ["first", "last"])
        expect(yield* host.status(runId)).toMatchObject({ status: "completed" })
    }).pipe(
      Effect.scoped,
      Effect.provide(Layer.provideMerge(SqlRunStore.layer, NodeSqlite.layer({ filename: ":memory:" })))
    )
  )
})
