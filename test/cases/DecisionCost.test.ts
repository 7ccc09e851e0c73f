/**
 * The fault: to say something about one call, the whole run is loaded first, so that a large run cannot be answered at
 * all within the time that a page or a poll waits. What is counted is what the store is asked and what it hands out,
 * never time.
 */
import { expect } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { Agent, MemoryRunStore, RunHost, RunStore } from "../../src/index.ts"
import * as Scripted from "../../src/provider/Scripted.ts"
import { Meter, onEveryMeteredStore, type Traffic } from "./meter.ts"
import { usage } from "./plans.ts"
import { journal, onEveryStore, summary } from "./support.ts"

const parameters = Schema.Struct({ n: Schema.Int })
const Read = Tool.make("read", { parameters, success: Schema.String }).annotate(Tool.Readonly, true)
const Pay = Tool.make("pay", { parameters, success: Schema.String, needsApproval: true })
const Ship = Tool.make("ship", { parameters, success: Schema.String })
const tools = Toolkit.make(Read, Pay, Ship)
const Report = Schema.Struct({ report: Schema.String })

/**
 * Reads for so many turns, then pays, asks a person, and ships, which nobody sees the end of: the run stops for a
 * decision, for an answer, and for what became of the shipment.
 */
const clerk = (turns: number) => {
  const shipping = Deferred.makeUnsafe<void>()
  const paid: Array<number> = []
  const handlers = tools.toLayer({
    read: ({ n }) => Effect.succeed(`page ${n} `.padEnd(500, "x")),
    pay: ({ n }) =>
      Effect.as(
        Effect.sync(() => paid.push(n)),
        "paid"
      ),
    ship: () => Effect.andThen(Deferred.succeed(shipping, undefined), Effect.never)
  })
  const last = [
    Scripted.call("pay", { n: turns }, { id: "pay" }),
    Scripted.call("request_input", { question: "Which address?" }, { id: "ask" }),
    Scripted.call("ship", { n: turns }, { id: "ship" }),
    Scripted.call("submit_result", { report: "shipped" }, { id: "submit" })
  ]
  const script = Scripted.make("clerk", (turn) =>
    turn < turns ? Scripted.call("read", { n: turn }, { id: `c${turn}` }) : last[turn - turns]
  )
  const agent = Agent.make("clerk", {
    toolkit: tools,
    output: Report,
    limits: { turns: 5_000, time: "1 hour" }
  }).pipe(Agent.provide(Layer.merge(handlers, Scripted.layer(script, { usage }))))
  return { agent, paid, shipping }
}

type Run = Pick<RunStore.Append, "events" | "summary">

const grown = new Map<string, Run>()

/** A run as it is at its first stop; it is driven in memory, once for all stores. */
const grow = Effect.fnUntraced(function* (agent: ReturnType<typeof clerk>["agent"], runId: string) {
  const known = grown.get(runId)
  if (known !== undefined) return known
  const memory = yield* MemoryRunStore.make
  yield* Effect.provideService(
    Effect.exit(Agent.run(agent, "Ship it.", { runId })),
    RunStore.RunStore,
    memory
  )
  const run: Run = { events: yield* memory.read(runId), summary: yield* memory.summary(runId) }
  grown.set(runId, run)
  return run
})

/** Brings a run into the store as it is at its first stop. */
const bring = Effect.fnUntraced(function* (agent: ReturnType<typeof clerk>["agent"], runId: string) {
  const store = yield* RunStore.RunStore
  const { events, summary } = yield* grow(agent, runId)
  for (let expected = 0; expected < events.length; expected += 1_000) {
    const some = events.slice(expected, expected + 1_000)
    const seq = expected + some.length
    yield* store.append({
      runId,
      expected,
      events: some,
      summary: { ...summary, seq },
      durability: "process"
    })
  }
})

/** What is asked of a run from outside, and what each costs, as the run goes from stop to stop. */
const costs = Effect.fnUntraced(function* (turns: number) {
  const meter = yield* Meter
  const { agent, paid, shipping } = clerk(turns)
  const runId = `r${turns}`
  const measured: Record<string, Traffic> = {}
  const measure = <E, R>(name: string, effect: Effect.Effect<unknown, E, R>) =>
    Effect.map(meter.of(effect), (traffic) => {
      measured[name] = traffic
    })
  yield* bring(agent, runId)
  yield* Effect.gen(function* () {
    const host = yield* RunHost.RunHost
    yield* measure("status", host.status(runId))
    yield* measure("list", host.list({ agent: "clerk", limit: 1 }))
    const [call] = (yield* host.status(runId)).approvals
    if (call === undefined) throw new Error("nothing waits")
    yield* measure("refused", Effect.flip(host.decide({ ...call, argsDigest: "other" }, Agent.approve())))
    yield* measure("decide", host.decide(call, Agent.approve(), { by: "ann" }))
    yield* measure("decided already", Effect.flip(host.decide(call, Agent.reject(), { by: "bob" })))
    yield* host.resume(runId)
    expect((yield* host.ended(runId)).question?.text).toBe("Which address?")
    expect(paid).toEqual([turns])
    yield* measure("answer", host.answer(runId, "12 Main Street"))
    yield* host.resume(runId)
    yield* Deferred.await(shipping)
    yield* host.cancel(runId, "enough")
    const [shipment] = (yield* host.ended(runId)).unknown
    if (shipment === undefined) throw new Error("the shipment is known")
    yield* measure("resolve", host.resolve(shipment, Agent.happened("shipped")))
    yield* host.resume(runId)
    expect((yield* host.ended(runId)).status).toBe("completed")
  }).pipe(Effect.provide(RunHost.layer([agent])))
  return measured
})

onEveryMeteredStore((check) => {
  check("what is said about a run costs the same after 5 turns and after 2,000", function* () {
    const meter = yield* Meter
    const few = yield* costs(5)
    const many = yield* costs(2_000)
    for (const [name, small] of Object.entries(few)) {
      const large = many[name]
      expect(large?.asked, name).toEqual(small.asked)
      expect(large?.rows, name).toBe(small.rows)
      // Numbers are longer, a few bytes in each place where they stand.
      expect(large?.received, name).toBeLessThan(small.received + 40)
      expect(large?.sent, name).toBeLessThan(small.sent + 40)
      for (const statement of small.asked) {
        expect(statement, name).not.toContain("events")
        if (!/^(SELECT|INSERT|UPDATE|WITH)/.test(statement)) continue
        for (const step of yield* meter.planOf(statement))
          expect(step, name).not.toMatch(/^SCAN checkrein_\w+$/)
      }
    }
  })
})

onEveryStore((check) => {
  check("a decision does not wait for a driver that loads the run, and is used by it", function* () {
    const { agent, paid } = clerk(5)
    yield* bring(agent, "r")
    const store = yield* RunStore.RunStore
    const [loading, loaded] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
    const slow: RunStore.RunStore["Service"] = {
      ...store,
      read: (runId, from) =>
        Effect.andThen(
          Effect.andThen(Deferred.succeed(loading, undefined), Deferred.await(loaded)),
          store.read(runId, from)
        )
    }
    const driver = yield* Effect.forkChild(
      Agent.outcome(Effect.provideService(Agent.resume(agent, "r"), RunStore.RunStore, slow))
    )
    yield* Deferred.await(loading)
    const [call] = (yield* summary("r")).approvals
    if (call === undefined) throw new Error("nothing waits")
    yield* Agent.decide(call, Agent.approve())
    yield* Deferred.succeed(loaded, undefined)
    expect((yield* Fiber.join(driver))._tag).toBe("InputRequired")
    expect(paid).toEqual([5])
    expect((yield* journal("r")).filter(({ type }) => type === "approval_resolved")).toHaveLength(1)
  })
})
