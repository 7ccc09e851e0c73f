/**
 * The fault: a model makes the same call over and over, gets the same result each time, and nothing stops it before the
 * cap, which is paid in full.
 */
import { expect } from "@effect/vitest"
import * as Arbitrary from "effect/Arbitrary"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { Agent, type RunStore, ToolFailure } from "../../src/index.ts"
import * as Scripted from "../../src/provider/Scripted.ts"
import { usage } from "./plans.ts"
import { examples, expectLawful, forAny, journal, of, onTwoStores, summary } from "./support.ts"

const nameAt = 3
const stopAt = 5
const cap = 24

const parameters = Schema.Struct({ a: Schema.Int, b: Schema.Int })
const options = { parameters, success: Schema.String, failure: ToolFailure.ToolFailure }
const Look = Tool.make("look", options).annotate(Tool.Readonly, true)
const Note = Tool.make("note", options)
const Fail = Tool.make("fail", options)
const Count = Tool.make("count", options)
const tools = Toolkit.make(Look, Note, Fail, Count)

/** A call that brings nothing new: a read, a write, a failure, a tool that there is not, and wrong arguments. */
const kinds = ["look", "note", "fail", "nothing", "wrong"] as const
type Kind = (typeof kinds)[number]

/** The n-th time that a call is made; its arguments are the same, whatever their order. */
const call = (kind: Kind | "count", n: number, id: string, which = 0): Scripted.Answer => {
  if (kind === "wrong") return Scripted.call("look", { [`b${n}`]: which }, { id })
  return Scripted.call(kind, n % 2 === 0 ? { a: 1, b: which } : { b: which, a: 1 }, { id })
}

/** An agent whose model says what it is told for each turn, for ever. */
const circling = (say: (turn: number) => Scripted.Answer): Agent.Agent<string, never, RunStore.RunStore> => {
  let counted = 0
  const handlers = tools.toLayer({
    look: ({ b }) => Effect.succeed(`nothing in ${b}`),
    note: ({ b }) => Effect.succeed(`noted ${b}`),
    fail: ({ b }) => Effect.fail(ToolFailure.recoverable(`${b} is missing`)),
    count: () => Effect.sync(() => `there are ${++counted}`)
  })
  return Agent.make("circling", { toolkit: tools, limits: { turns: cap, time: "1 hour" } }).pipe(
    Agent.provide(Layer.merge(handlers, Scripted.layer(Scripted.make("circling", say), { usage })))
  )
}

const situations = Arbitrary.all({
  /** The calls that make up the circle, one in each turn or all in one. */
  circle: Arbitrary.array(Arbitrary.schema(Schema.Literals(kinds)), { minLength: 1, maxLength: 3 }),
  together: Arbitrary.schema(Schema.Boolean),
  /** Whether each turn is driven by somebody else, who knows of the others by the store alone. */
  handedOn: Arbitrary.schema(Schema.Boolean)
})

onTwoStores((check, store) => {
  check("whatever the calls of the circle, it is named to the model, and then stopped", function* () {
    let run = 0
    yield* forAny(situations, examples[store], ({ circle, handedOn, together }) =>
      Effect.gen(function* () {
        const runId = `r${run++}`
        const step = (i: number, turn: number) => call(circle[i] ?? "look", turn, `c${turn}-${i}`, i)
        const say = (turn: number) =>
          together ? Scripted.turn(...circle.map((_, i) => step(i, turn))) : step(turn % circle.length, turn)
        let turns = handedOn ? 1 : cap
        let exit = yield* Agent.outcome(Agent.run(circling(say), "go", { runId, limits: { turns } }))
        while (exit._tag === "MaxTurnsExceeded" && turns < cap) {
          turns++
          exit = yield* Agent.outcome(Agent.resume(circling(say), runId, { limits: { turns } }))
        }
        if (exit._tag !== "RunStalled") throw exit
        expect(exit.count).toBeGreaterThanOrEqual(stopAt)
        const results = of(yield* journal(runId), "tool_result")
        // Five rounds at most, and a wrong call is the same mistake in each place of the circle.
        expect(results.length).toBeLessThanOrEqual(stopAt * circle.length)
        const named = results.filter(({ content }) => content.includes("Do something else, or answer"))
        expect(named.length).toBeGreaterThanOrEqual(stopAt - nameAt + 1)
        expect(results.indexOf(named[0]!)).toBeGreaterThanOrEqual(nameAt - 1)
        yield* expectLawful(runId)
      })
    )
  })

  check("a circle that brings something new now and then is not stopped", function* () {
    const say = (turn: number) =>
      turn % 4 === 3 ? call("count", turn, `c${turn}`) : call("look", turn, `c${turn}`)
    const exit = yield* Agent.outcome(Agent.run(circling(say), "go", { runId: "r" }))
    expect(exit._tag).toBe("MaxTurnsExceeded")
    expect((yield* summary("r")).turns).toBe(cap)
    yield* expectLawful("r")
  })

  check(
    "a sub-agent that goes in circles comes back in words, and so does not sink the run above it",
    function* () {
      const below = circling((turn) => call("look", turn, `c${turn}`))
      const { layer, tool } = Agent.asTool(below, { name: "ask", description: "Asks." })
      const script = Scripted.make("lead", (turn, { lastToolResult }) =>
        turn === 0 ? Scripted.call("ask", { task: "go" }, { id: "a" }) : Scripted.text(lastToolResult)
      )
      const lead = Agent.make("lead", { toolkit: Toolkit.make(tool), limits: { time: "1 hour" } }).pipe(
        Agent.provide(Layer.merge(layer, Scripted.layer(script, { usage })))
      )
      const { output } = yield* Agent.run(lead, "go", { runId: "r" })
      expect(output).toContain("look brought the same result 5 times")
      expect((yield* summary("r/a")).reason).toBe("stalled")
      yield* expectLawful("r")
    }
  )

  check("a run that asks the same of a sub-agent over and over is stopped as well", function* () {
    const below = Agent.make("below", { limits: { time: "1 hour" } }).pipe(
      Agent.provide(Scripted.layer(Scripted.make("below", [Scripted.text("nothing")]), { usage }))
    )
    const { layer, tool } = Agent.asTool(below, { name: "ask", description: "Asks." })
    const script = Scripted.make("lead", (turn) => Scripted.call("ask", { task: "go" }, { id: `a${turn}` }))
    const lead = Agent.make("lead", {
      toolkit: Toolkit.make(tool),
      limits: { turns: cap, time: "1 hour" }
    }).pipe(Agent.provide(Layer.merge(layer, Scripted.layer(script, { usage }))))
    const exit = yield* Agent.outcome(Agent.run(lead, "go", { runId: "r" }))
    expect(exit).toMatchObject({ _tag: "RunStalled", tool: "ask", count: stopAt })
    yield* expectLawful("r")
  })
})
