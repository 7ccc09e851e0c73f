/**
 * The fault: a sub-agent stops for a person, and once it is answered it begins again at its first turn: what it has done
 * is done again, and what it has paid for its turns is paid again.
 */
import { expect } from "@effect/vitest"
import * as Arbitrary from "effect/Arbitrary"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { Agent, RunHost, RunStore } from "../../src/index.ts"
import * as Scripted from "../../src/provider/Scripted.ts"
import { acts, plan, planner, plans, runIdOf, runs, taskOf, usage } from "./plans.ts"
import { carryOut, examples, expectLawful, forAny, journal, of, onEveryStore, summary } from "./support.ts"

const situations = Arbitrary.all({ turns: plans, parallel: Arbitrary.schema(Schema.Boolean) })

onEveryStore((check, store) => {
  check(
    "wherever it stops and however deep: no turn is asked for twice, and no call is made twice",
    function* () {
      let run = 0
      yield* forAny(situations, examples[store], ({ parallel, turns }) =>
        Effect.gen(function* () {
          const runId = `r${run++}`
          const did: Array<string> = []
          const asked: Array<string> = []
          const agent = planner({
            did: (what) => Effect.sync(() => did.push(what)),
            instead: (q, turn) => void asked.push(`${q} turn ${turn}`),
            parallel
          })
          const exit = yield* carryOut(agent, turns, runId, (exit) => {
            if (exit._tag !== "ApprovalRequired") throw exit
            return Effect.forEach(exit.calls, (call) => Agent.decide(call, Agent.approve()))
          })

          const expected = runs(turns).flatMap((each) =>
            [...each.turns, "its answer"].map((_, turn) => `${each.q} turn ${turn}`)
          )
          expect([...asked].sort()).toEqual(expected.sort())
          expect([...did].sort()).toEqual(
            acts(turns)
              .map(({ act, q }) => `${act} ${q}`)
              .sort()
          )
          let turnsBelow = 0
          for (const { q, turns: own } of runs(turns)) {
            const events = yield* journal(runIdOf(runId, q))
            expect(of(events, "run_started")).toHaveLength(1)
            expect(of(events, "turn")).toHaveLength(own.length + 1)
            turnsBelow += own.length + 1
          }
          // Ten tokens in and five out for each turn, those of the runs below included.
          expect(exit.run.childTokens + exit.run.usage.promptTokens + exit.run.usage.completionTokens).toBe(
            turnsBelow * 15
          )
          yield* expectLawful(runId)
        })
      )
    }
  )

  check("a sub-agent that asked a question goes on with the answer", function* () {
    const did: Array<string> = []
    const note = Tool.make("note", {
      parameters: Schema.Struct({ q: Schema.String }),
      success: Schema.String
    })
    const tools = Toolkit.make(note)
    const handlers = tools.toLayer({
      note: ({ q }) =>
        Effect.as(
          Effect.sync(() => did.push(q)),
          "noted"
        )
    })
    const asks = Scripted.make("asker", [
      Scripted.call("note", { q: "before" }),
      Scripted.call("request_input", { question: "Which address?" }),
      ({ lastToolResult }) => Scripted.call("note", { q: lastToolResult }),
      Scripted.call("submit_result", { at: "noon" })
    ])
    const asker = Agent.make("asker", {
      toolkit: tools,
      output: Schema.Struct({ at: Schema.String }),
      limits: { time: "1 hour" }
    }).pipe(Agent.provide(Layer.merge(handlers, Scripted.layer(asks, { usage }))))
    const { layer, tool } = Agent.asTool(asker, { name: "ask", description: "Finds out." })
    const leads = Scripted.make("lead", [
      Scripted.call("ask", { task: "When?" }, { id: "a" }),
      ({ lastToolResult }) => Scripted.text(lastToolResult)
    ])
    const lead = Agent.make("lead", { toolkit: Toolkit.make(tool), limits: { time: "1 hour" } }).pipe(
      Agent.provide(Layer.merge(layer, Scripted.layer(leads, { usage })))
    )
    yield* Effect.gen(function* () {
      const host = yield* RunHost.RunHost
      yield* host.start("lead", "go", { runId: "r" })
      const { question } = yield* host.ended("r")
      expect(question).toMatchObject({ runId: "r/a", text: "Which address?" })
      yield* host.answer("r", "12 Main Street")
      yield* host.resume("r")
      expect((yield* host.ended("r")).status).toBe("completed")
    }).pipe(Effect.provide(RunHost.layer([lead])))
    expect(did).toHaveLength(2)
    expect(did[0]).toBe("before")
    expect(did[1]).toContain("12 Main Street")
    expect((yield* summary("r/a")).turns).toBe(4)
    yield* expectLawful("r")
  })

  check("a family that is stopped in the middle of a sub-agent's turn goes on from there", function* () {
    const did: Array<string> = []
    const asked: Array<string> = []
    const reached = yield* Deferred.make<void>()
    let slow = true
    const agent = planner({
      did: (what) => Effect.sync(() => did.push(what)),
      instead: (q, turn) => {
        asked.push(`${q} turn ${turn}`)
        if (q !== "0.0/0.1" || turn !== 1 || !slow) return undefined
        Deferred.doneUnsafe(reached, Effect.void)
        return Scripted.text("too late", { latency: "1 hour" })
      }
    })
    const turns = plan([[[["note", [["note"], ["note"]]]], "note"]])
    const fiber = yield* Effect.forkChild(Agent.run(agent, taskOf(turns), { runId: "r" }))
    yield* Deferred.await(reached)
    yield* Fiber.interrupt(fiber)
    expect(did).toEqual(["note 0.0/0.0", "note 0.0/0.1/0.0"])
    const store = yield* RunStore.RunStore
    for (const q of ["", "0.0", "0.0/0.1"]) {
      expect((yield* store.summary(runIdOf("r", q))).reason).toBe("cancelled")
    }
    slow = false
    yield* Agent.resume(agent, "r")
    expect(did).toEqual(acts(turns).map(({ q }) => `note ${q}`))
    // Only the turn that was lost is asked for again.
    const twice = asked.filter((one, i) => asked.indexOf(one) !== i)
    expect(twice).toEqual(["0.0/0.1 turn 1"])
    yield* expectLawful("r")
  })
})
