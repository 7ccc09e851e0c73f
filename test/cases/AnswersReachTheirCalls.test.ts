/**
 * The fault: several calls wait for a person, in one turn or in a run and the runs below it, and what is answered is lost,
 * or reaches another call: because answers are matched by their order, by an id that is unique only within its run, or
 * because all have to be given at once.
 */
import { expect } from "@effect/vitest"
import * as Arbitrary from "effect/Arbitrary"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { Agent, type RunExit, RunHost, RunStore } from "../../src/index.ts"
import {
  acts,
  callIdOf,
  type Plan,
  type Planner,
  plan,
  planner,
  plans,
  runIdOf,
  runOf,
  runs,
  taskOf
} from "./plans.ts"
import { carryOut, examples, expectLawful, forAny, journal, of, onEveryStore, summary } from "./support.ts"

const kinds = ["approve", "edit", "reject"] as const
type Kind = (typeof kinds)[number]

const qOf = ({ args }: Pick<RunStore.SummarizedCall, "args">): string =>
  Schema.decodeUnknownSync(Schema.Struct({ q: Schema.String }))(args).q

const decisionOf = (kind: Kind, q: string): Agent.Decision => {
  switch (kind) {
    case "approve":
      return Agent.approve()
    case "edit":
      return Agent.approve({ args: { q: `${q} instead` } })
    case "reject":
      return Agent.reject(`not ${q}`)
  }
}

/** What a call does to the world once it is answered so. */
const effectOf = (kind: Kind, q: string): ReadonlyArray<string> =>
  kind === "reject" ? [] : [`pay ${q}${kind === "edit" ? " instead" : ""}`]

/** What the model is told of a call that was answered so. */
const told = (kind: Kind, q: string): string =>
  kind === "reject" ? `not ${q}` : `pay ${q}${kind === "edit" ? " instead" : ""} done`

const small = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 1_000 }))
const situations = Arbitrary.all({
  turns: plans,
  parallel: Arbitrary.schema(Schema.Boolean),
  /** What each call is answered, by its place in the plan. */
  answers: Arbitrary.array(Arbitrary.schema(Schema.Literals(kinds)), { minLength: 1, maxLength: 12 }),
  /** Which of the calls that wait is answered next, and whether the run is resumed before the one after it. */
  order: Arbitrary.array(Arbitrary.schema(small), { minLength: 1, maxLength: 12 })
})

/** An agent that carries out plans, and what its tools did. */
const office = (parallel: boolean) => {
  const did: Array<string> = []
  return { did, agent: planner({ did: (what) => Effect.sync(() => did.push(what)), parallel }) }
}

/** How a run stands that has stopped for a person. */
const stopped = (agent: Planner, turns: Plan, runId: string) =>
  Effect.gen(function* () {
    const exit = yield* Agent.outcome(Agent.run(agent, taskOf(turns), { runId }))
    expect(exit._tag).toBe("ApprovalRequired")
    return yield* summary(runId)
  })

onEveryStore((check, store) => {
  check("whatever the plan, the order and the answers: each answer reaches its own call, once", function* () {
    let run = 0
    yield* forAny(situations, examples[store], ({ answers, order, parallel, turns }) =>
      Effect.gen(function* () {
        const runId = `r${run++}`
        const { agent, did } = office(parallel)
        const pays = acts(turns).filter(({ act }) => act === "pay")
        const kindOf = (q: string): Kind =>
          answers[pays.findIndex((call) => call.q === q) % answers.length] ?? "approve"
        const decided = new Set<string>()
        let drawn = 0
        const draw = () => order[drawn++ % order.length] ?? 0

        /** Answers some of the calls that wait, in any order, as somebody does who sees the run from outside. */
        const answerSome = (exit: RunExit.RunExit) =>
          Effect.gen(function* () {
            expect(exit._tag).toBe("ApprovalRequired")
            const waiting = [...(yield* summary(runId)).approvals]
            if (exit._tag === "ApprovalRequired") expect(exit.calls).toEqual(waiting)
            expect(waiting.filter((call) => decided.has(qOf(call)))).toEqual([])
            do {
              const [call] = waiting.splice(draw() % waiting.length, 1)
              if (call === undefined) return
              const q = qOf(call)
              yield* Agent.decide(call, decisionOf(kindOf(q), q), { by: q })
              decided.add(q)
            } while (waiting.length > 0 && draw() % 3 > 0)
          })
        const exit = yield* carryOut(agent, turns, runId, answerSome)

        expect(exit.output).toBe("all done")
        expect([...decided].sort()).toEqual(pays.map(({ q }) => q).sort())
        const expected = acts(turns).flatMap(({ act, q }) =>
          act === "pay" ? effectOf(kindOf(q), q) : [`${act} ${q}`]
        )
        expect([...did].sort()).toEqual([...expected].sort())
        // What writes is done in the model's order within each run, however late an answer came.
        for (const { q } of runs(turns)) {
          const own = (all: ReadonlyArray<string>) =>
            all.filter((what) => !what.startsWith("look") && runOf(what.split(" ")[1] ?? "") === q)
          expect(own(did)).toEqual(own(expected))
        }
        for (const { q } of pays) {
          const results = of(yield* journal(runIdOf(runId, runOf(q))), "tool_result")
          const [result, ...more] = results.filter(({ callId }) => callId === callIdOf(q))
          expect(result?.content).toContain(told(kindOf(q), q))
          expect(more).toEqual([])
        }
        yield* expectLawful(runId)
      })
    )
  })

  check("an answer does not reach a call of the same name in the run above, or below", function* () {
    const { agent, did } = office(true)
    const [turns, above, below] = [plan([["pay", [["pay"]]]]), "r", "r/c01"]
    const { approvals } = yield* stopped(agent, turns, above)
    expect(approvals.map(({ callId, runId }) => [runId, callId])).toEqual([
      [above, "c00"],
      [below, "c00"]
    ])
    yield* Agent.decide({ runId: below, callId: "c00" }, Agent.reject("not below"))
    yield* Effect.exit(Agent.resume(agent, above))
    expect(did).toEqual([])
    expect((yield* summary(above)).approvals.map(({ runId }) => runId)).toEqual([above])
    yield* Agent.decide({ runId: above, callId: "c00" }, Agent.approve())
    yield* Agent.resume(agent, above)
    expect(did).toEqual(["pay 0.0"])
  })

  check("an answer to a call that does not wait is refused, not given to one that does", function* () {
    const { agent, did } = office(false)
    yield* stopped(agent, plan([["look", "pay", [["pay"]]]]), "r")
    const ref = { runId: "r", callId: "c01" }
    const wrong = [
      { ...ref, callId: "c00" },
      { ...ref, callId: "c02" },
      { ...ref, callId: "" },
      { ...ref, argsDigest: "0".repeat(32) }
    ]
    for (const each of wrong) {
      expect((yield* Effect.flip(Agent.decide(each, Agent.approve())))._tag).toBe("CallNotPending")
    }
    yield* Effect.exit(Agent.resume(agent, "r"))
    expect(did).toEqual(["look 0.0"])
    expect((yield* summary("r")).approvals.map(({ callId }) => callId)).toEqual(["c01"])
  })

  check(
    "an answer that comes while a run is stopping for it is used, for the run and below it",
    function* () {
      const { agent, did } = office(false)
      const turns = plan([[[["pay"]], "pay"]])
      const store = yield* RunStore.RunStore
      let stops = 0
      // Somebody answers between the last look at the inbox and the moment in which the stop is stored.
      const elsewhere: RunStore.RunStore["Service"] = {
        ...store,
        append: (append) =>
          Effect.gen(function* () {
            const isStop = append.runId === "r" && append.events.some(({ type }) => type === "run_stopped")
            if (isStop && ++stops === 1) {
              for (const call of append.summary.approvals) {
                yield* Effect.provideService(Agent.decide(call, Agent.approve()), RunStore.RunStore, store)
              }
            }
            yield* store.append(append)
          }).pipe(Effect.catchTags({ RunNotFound: Effect.die, CallNotPending: Effect.die }))
      }
      const exit = yield* Effect.provideService(
        Agent.run(agent, taskOf(turns), { runId: "r" }),
        RunStore.RunStore,
        elsewhere
      )
      expect(exit.run.status).toBe("completed")
      expect(stops).toBe(2)
      expect(did).toEqual(["pay 0.0/0.0", "pay 0.1"])
      yield* expectLawful("r")
    }
  )

  check(
    "an answer for a sub-agent that has stopped is used by the run above, which still runs",
    function* () {
      const gate = yield* Deferred.make<void>()
      const did: Array<string> = []
      const agent = planner({
        did: (what) =>
          Effect.andThen(
            what.startsWith("look") ? Deferred.await(gate) : Effect.void,
            Effect.sync(() => did.push(what))
          ),
        parallel: true
      })
      yield* Effect.gen(function* () {
        const host = yield* RunHost.RunHost
        yield* host.start(agent.name, taskOf(plan([[[["pay"]], "look"]])), { runId: "r" })
        const below = yield* RunStore.RunStore
        yield* Effect.retry(below.summary("r/c00"), Schedule.spaced("10 millis"))
        yield* Stream.runDrain(host.attach("r/c00"))
        yield* host.decide({ runId: "r/c00", callId: "c00" }, Agent.approve())
        yield* host.resume("r/c00")
        yield* Deferred.succeed(gate, undefined)
        expect(yield* host.ended("r")).toMatchObject({ status: "completed" })
      }).pipe(Effect.provide(RunHost.layer([agent])))
      expect(did).toEqual(["look 0.1", "pay 0.0/0.0"])
      yield* expectLawful("r")
    }
  )

  check("a host takes answers under the id of any run of a family, and drives the family on", function* () {
    const { agent, did } = office(true)
    const turns = plan([["pay", [[[["pay"]], "pay"]]]])
    yield* Effect.gen(function* () {
      const host = yield* RunHost.RunHost
      yield* host.start(agent.name, taskOf(turns), { runId: "r" })
      const { approvals } = yield* host.ended("r")
      expect(approvals).toHaveLength(3)
      for (const call of approvals.toReversed()) {
        yield* host.decide(call, Agent.approve(), { by: "ann" })
        yield* host.resume(call.runId)
        yield* host.ended("r")
      }
      expect(yield* host.status("r")).toMatchObject({ status: "completed", approvals: [] })
    }).pipe(Effect.provide(RunHost.layer([agent])))
    expect([...did].sort()).toEqual(
      acts(turns)
        .map(({ q }) => `pay ${q}`)
        .sort()
    )
    yield* expectLawful("r")
  })
})
