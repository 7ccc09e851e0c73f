/**
 * The fault: a call that was approved has run, the model call after it fails, and when the run is taken up again the call
 * runs once more, because what says that it ran was to be stored with the answer of the model.
 */
import { expect } from "@effect/vitest"
import * as Arbitrary from "effect/Arbitrary"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { Agent, type RunExit, RunStore } from "../../src/index.ts"
import * as Scripted from "../../src/provider/Scripted.ts"
import { acts, callIdOf, type Plan, plan, planner, plans, runIdOf, runOf, taskOf } from "./plans.ts"
import { examples, expectLawful, forAny, journal, of, onEveryStore } from "./support.ts"

/** How a model call comes to nothing: three answers of a provider, a lost connection, a Stop, and the driver's death. */
const faults = ["500", "429", "401", "disconnect", "stop", "death"] as const
type Fault = (typeof faults)[number]

/** A run whose model calls fail as the tape says, one after the other, and then no more. */
const world = Effect.fnUntraced(function* (
  runId: string,
  turns: Plan,
  tape: ReadonlyArray<Fault | "none">,
  parallel = false
) {
  const store = yield* RunStore.RunStore
  const did: Array<string> = []
  let asked = 0
  let dead = false
  let stop = Deferred.makeUnsafe<void>()

  const instead = (_run: string, turn: number): Scripted.Reply | undefined => {
    const fault = tape[asked++]
    switch (fault) {
      case "500":
        return Scripted.fail(500)
      case "401":
        // A key that is refused at the very start was never good: such a run ends for good, and has approved nothing.
        return Scripted.fail(turn === 0 ? 500 : 401)
      case "429":
        return Scripted.fail(429, { retryAfter: 3600 })
      case "disconnect":
        return Scripted.disconnect()
      case "stop":
        Deferred.doneUnsafe(stop, Effect.void)
        return Scripted.text("too late", { latency: "1 hour" })
      case "death":
        dead = true
        return undefined
      default:
        return undefined
    }
  }
  const agent = planner({ did: (what) => Effect.sync(() => did.push(what)), instead, parallel })

  const died = new RunStore.RunStoreError({ runId, kind: "unavailable", problem: "the driver has died" })
  const dying: RunStore.RunStore["Service"] = {
    ...store,
    append: (append) => Effect.suspend(() => (dead ? Effect.fail(died) : store.append(append)))
  }

  /** Drives the run until it stops, is stopped, or its driver dies. */
  const drive = Effect.suspend(() => {
    dead = false
    stop = Deferred.makeUnsafe()
    const run = Agent.run(agent, taskOf(turns), { runId }).pipe(
      Agent.outcome,
      Effect.provideService(RunStore.RunStore, dying),
      Effect.catchTag("RunStoreError", () => Effect.undefined)
    )
    return Effect.raceFirst(run, Effect.as(Deferred.await(stop), undefined))
  })

  /** Drives it until it completes; says which calls are known not to have been made. */
  const driveOn = Effect.gen(function* () {
    const undone = new Set<string>()
    for (let stops = 0; ; stops++) {
      expect(stops, "it does not come to its end").toBeLessThan(100)
      const exit = yield* drive
      if (exit?._tag === "Completed") return undone
      if (exit !== undefined) yield* answer(exit, did, undone)
    }
  })

  return { did, drive, driveOn, asked: () => asked }
})

const argsOf = Schema.decodeUnknownSync(Schema.Struct({ q: Schema.String }))

/** Approves what waits, and says what became of a call of which its journal cannot tell. */
const answer = (exit: RunExit.RunExit, did: ReadonlyArray<string>, undone: Set<string>) =>
  Effect.gen(function* () {
    if (exit._tag === "ApprovalRequired") {
      for (const call of exit.calls) yield* Agent.decide(call, Agent.approve())
    } else if (exit._tag === "OutcomeUnknown") {
      for (const call of exit.calls) {
        const what = `${call.tool} ${argsOf(call.args).q}`
        if (!did.includes(what)) undone.add(what)
        yield* Agent.resolve(call, did.includes(what) ? Agent.happened() : Agent.didNotHappen)
      }
    } else expect(exit._tag).toBe("ProviderUnavailable")
  })

const situations = Arbitrary.all({
  turns: plans,
  parallel: Arbitrary.schema(Schema.Boolean),
  tape: Arbitrary.array(Arbitrary.schema(Schema.Literals([...faults, "none", "none"])), { maxLength: 12 })
})

onEveryStore((check, store) => {
  check("whatever fails after it, however often, in a run and below it: a call is made once", function* () {
    let run = 0
    yield* forAny(situations, examples[store], ({ parallel, tape, turns }) =>
      Effect.gen(function* () {
        const runId = `r${run++}`
        const { did, driveOn } = yield* world(runId, turns, tape, parallel)
        const undone = yield* driveOn
        for (const { act, q } of acts(turns)) {
          const times = did.filter((what) => what === `${act} ${q}`).length
          if (act === "look") expect(times, q).toBeGreaterThan(0)
          else expect(times, q).toBe(undone.has(`${act} ${q}`) ? 0 : 1)
          const results = of(yield* journal(runIdOf(runId, runOf(q))), "tool_result")
          const given = results.filter(
            ({ callId, disposition }) => callId === callIdOf(q) && disposition === "executed"
          )
          if (act === "pay") expect(given.length, q).toBeLessThanOrEqual(1)
        }
        yield* expectLawful(runId)
      })
    )
  })

  check("the model call after an approved call fails twice, in every way: it was made once", function* () {
    const turns = plan([["look", "pay"], ["note"]])
    for (const fault of faults) {
      const { asked, did, drive } = yield* world(fault, turns, ["none", fault, fault])
      expect((yield* drive)?._tag).toBe("ApprovalRequired")
      yield* Agent.decide({ runId: fault, callId: "c01" }, Agent.approve())
      for (const _ of [1, 2]) {
        yield* drive
        expect(did, fault).toEqual(["look 0.0", "pay 0.1"])
      }
      expect((yield* drive)?._tag, fault).toBe("Completed")
      expect(did, fault).toEqual(["look 0.0", "pay 0.1", "note 1.0"])
      expect(asked(), fault).toBe(5)
      const events = yield* journal(fault)
      expect(of(events, "tool_start").map(({ callId }) => callId)).toEqual(["c00", "c01", "c10"])
      expect(of(events, "tool_result").map(({ callId }) => callId)).toEqual(["c00", "c01", "c10"])
      yield* expectLawful(fault)
    }
  })

  check(
    "the model call after an approved call is refused for good, and the run is resumed by force",
    function* () {
      let refuses = true
      const did: Array<string> = []
      const agent = planner({
        did: (what) => Effect.sync(() => did.push(what)),
        instead: (_, turn) => (turn === 1 && refuses ? Scripted.fail(400) : undefined)
      })
      yield* Effect.exit(Agent.run(agent, taskOf(plan([["pay"]])), { runId: "r" }))
      yield* Agent.decide({ runId: "r", callId: "c00" }, Agent.approve())
      for (const force of [false, true]) {
        const exit = yield* Agent.outcome(Agent.resume(agent, "r", { force }))
        expect(exit._tag).toBe("RunFailed")
      }
      refuses = false
      expect((yield* Agent.resume(agent, "r", { force: true })).output).toBe("all done")
      expect(did).toEqual(["pay 0.0"])
      yield* expectLawful("r")
    }
  )
})
