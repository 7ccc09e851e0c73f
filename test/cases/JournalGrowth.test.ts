/**
 * The fault: each step writes the whole history again, so that what a run writes grows with the square of its turns, and
 * a run that waits for a person is one row as large as all that it has read.
 */
import { expect } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { Agent } from "../../src/index.ts"
import * as Scripted from "../../src/provider/Scripted.ts"
import { Meter, onEveryMeteredStore } from "./meter.ts"
import { type Planner, usage } from "./plans.ts"
import { expectLawful, summary } from "./support.ts"

/** How large each result is. */
const page = 2_000
const parameters = Schema.Struct({ n: Schema.Int })
const Read = Tool.make("read", { parameters, success: Schema.String }).annotate(Tool.Readonly, true)
const Pay = Tool.make("pay", { parameters, success: Schema.String, needsApproval: true })
const tools = Toolkit.make(Read, Pay)

const handlers = tools.toLayer({
  read: ({ n }) => Effect.succeed(`page ${n} `.padEnd(page, "x")),
  pay: ({ n }) => Effect.succeed(`paid ${n}`)
})

/** An agent that reads a page in each turn, and stops for a person after so many. */
const reader = (stops: ReadonlyArray<number>) => {
  const script = Scripted.make("reader", (turn) =>
    turn === stops.at(-1)
      ? Scripted.text("done")
      : Scripted.call(stops.includes(turn + 1) ? "pay" : "read", { n: turn }, { id: `c${turn}` })
  )
  return Agent.make("reader", { toolkit: tools, limits: { turns: 1_000, time: "1 hour" } }).pipe(
    Agent.provide(Layer.merge(handlers, Scripted.layer(script, { usage })))
  )
}

/** An agent that leaves it all to that one. */
const lead = (stops: ReadonlyArray<number>) => {
  const { layer, tool } = Agent.asTool(reader(stops), { name: "ask", description: "Reads it all." })
  const script = Scripted.make("lead", [
    Scripted.call("ask", { task: "Read it all." }, { id: "a" }),
    Scripted.text("done")
  ])
  return Agent.make("lead", { toolkit: Toolkit.make(tool), limits: { time: "1 hour" } }).pipe(
    Agent.provide(Layer.merge(layer, Scripted.layer(script, { usage })))
  )
}

/** Numbers get longer as they grow, a few bytes in each place where they stand. */
const digits = 100

/** Has it all read, and measures from stop to stop: what a turn writes, what a decision does, and the largest value. */
const measure = (agent: Planner, stops: ReadonlyArray<number>) =>
  Effect.gen(function* () {
    const meter = yield* Meter
    const perTurn: Array<number> = []
    const perDecision: Array<number> = []
    const largest: Array<number> = []
    let [turns, before] = [0, 0]
    let exit = yield* Agent.outcome(Agent.run(agent, "Read it all.", { runId: "r" }))
    while (exit._tag === "ApprovalRequired") {
      const [call] = exit.calls
      const now = (yield* summary(call.runId)).turns
      perTurn.push((meter.total().sent - before) / (now - turns))
      largest.push(meter.total().largest)
      perDecision.push((yield* meter.of(Agent.decide(call, Agent.approve()))).sent)
      turns = now
      before = meter.total().sent
      exit = yield* Agent.outcome(Agent.resume(agent, "r"))
    }
    expect(exit._tag).toBe("Completed")
    expect(perTurn).toHaveLength(stops.length)
    yield* expectLawful("r")
    return { perTurn, perDecision, largest }
  })

onEveryMeteredStore((check, store) => {
  check("what a turn writes, and a stop for a person, does not grow with the run", function* () {
    const stops = store === "Postgres" ? [50, 100, 200] : [50, 100, 200, 400]
    const { largest, perDecision, perTurn } = yield* measure(reader(stops), stops)
    const [first = 0] = perTurn
    // The page itself, and beside it events of a few lines, the row that says how the run stands, and whose lease it is.
    expect(first).toBeGreaterThan(page)
    expect(first).toBeLessThan(page + 2_700)
    for (const later of perTurn) expect(later).toBeLessThan(first + digits)
    for (const later of largest) expect(later).toBeLessThan(page + 500)
    for (const later of perDecision) expect(later).toBeLessThan(200)
  })

  check("what a sub-agent has read is not written again with the run above it", function* () {
    const stops = [20, 40]
    const { largest, perTurn } = yield* measure(lead(stops), stops)
    for (const each of perTurn) expect(each).toBeLessThan(page + 3_100)
    for (const each of largest) expect(each).toBeLessThan(page + 500)
  })
})
