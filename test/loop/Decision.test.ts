/** What is said wrongly about a call counts as nothing: not as the other thing that could have been said. */
import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { Agent, MemoryRunStore, RunStore } from "../../src/index.ts"
import { cleaner, done, refusal, unchecked } from "./refusals.ts"

const check = (name: string, body: Effect.Effect<void, unknown, RunStore.RunStore>) =>
  it.effect(name, () => Effect.provide(body, MemoryRunStore.layer))

describe("a decision", () => {
  const made = "and must be what Agent.approve() or Agent.reject() makes"
  for (const [decision, options, problem] of [
    ["reject", {}, `the decision is "reject", ${made}`],
    [false, {}, `the decision is false, ${made}`],
    [undefined, {}, `the decision is undefined, ${made}`],
    [{}, {}, `the decision is an object, ${made}`],
    [{ _tag: "Rejected" }, {}, `the decision is an object, ${made}`],
    [{ _tag: "reject", reason: "no" }, {}, `the decision is an object, ${made}`],
    [Agent.approve, {}, `the decision is a function, ${made}`],
    [
      Agent.approve(unchecked({ expire: "1 hour" })),
      {},
      'the decision has no "expire": there are _tag, args, expires'
    ],
    [{ _tag: "Approve", reason: "no" }, {}, 'the decision has no "reason": there are _tag, args, expires'],
    [{ _tag: "Reject", args: {} }, {}, 'the decision has no "args": there are _tag, reason'],
    [Agent.reject(), { decision: "approved" }, 'options has no "decision": there are by'],
    [Agent.approve(), { by: 7 }, "options.by is 7, and must be a text"]
  ] as const) {
    check(
      `${JSON.stringify(decision) ?? String(decision)} with ${JSON.stringify(options)} counts as none`,
      Effect.gen(function* () {
        yield* Agent.outcome(Agent.run(cleaner, "go", { runId: "r" }))
        const store = yield* RunStore.RunStore
        const [waiting] = (yield* store.summary("r")).approvals
        const said = Agent.decide(waiting!, unchecked(decision), unchecked(options))
        expect(yield* Effect.flip(said)).toMatchObject(refusal(problem))
        expect(yield* store.inbox("r", 0)).toEqual([])
        yield* Agent.outcome(Agent.resume(cleaner, "r"))
        expect(yield* store.summary("r")).toMatchObject({ reason: "approval" })
        expect(done).toEqual([])
      })
    )
  }
})

describe("what an object of a class says", () => {
  class Said extends Schema.Class<Said>("Said")({ by: Schema.String }) {}
  class Named {
    get by() {
      return "ann"
    }
  }
  for (const options of [new Said({ by: "ann" }), new Named()]) {
    check(
      `${options.constructor.name} counts, wherever it has it`,
      Effect.gen(function* () {
        yield* Agent.outcome(Agent.run(cleaner, "go", { runId: "r" }))
        const store = yield* RunStore.RunStore
        const [waiting] = (yield* store.summary("r")).approvals
        class Given {
          get args() {
            return { q: "safe" }
          }
        }
        yield* Agent.decide(waiting!, Agent.approve(new Given()), options)
        expect(yield* store.inbox("r", 0)).toMatchObject([{ command: { args: { q: "safe" }, by: "ann" } }])
        const run = { runId: "s", limits: { turns: 3 } }
        class Job extends Schema.Class<Job>("Job")({
          runId: Schema.String,
          limits: Schema.Struct({ turns: Schema.Int })
        }) {}
        yield* Agent.outcome(Agent.run(cleaner, "go", new Job(run)))
        expect(yield* store.summary("s")).toMatchObject({ reason: "approval" })
      })
    )
  }
})

describe("what became of a call", () => {
  for (const [resolution, options, problem] of [
    [
      "happened",
      {},
      'the resolution is "happened", and must be what Agent.happened() or Agent.didNotHappen makes'
    ],
    [
      { _tag: "happened" },
      {},
      "the resolution is an object, and must be what Agent.happened() or Agent.didNotHappen makes"
    ],
    [
      Agent.happened,
      {},
      "the resolution is a function, and must be what Agent.happened() or Agent.didNotHappen makes"
    ],
    [Agent.didNotHappen, { outcome: "happened" }, 'options has no "outcome": there are by']
  ] as const) {
    check(
      `${JSON.stringify(resolution) ?? "a function"} with ${JSON.stringify(options)} says nothing`,
      Effect.gen(function* () {
        const ref = { runId: "r", callId: "c" }
        expect(
          yield* Effect.flip(Agent.resolve(ref, unchecked(resolution), unchecked(options)))
        ).toMatchObject(refusal(problem))
      })
    )
  }
})

describe("an answer", () => {
  check(
    "with more than who gives it is refused",
    Effect.gen(function* () {
      expect(yield* Effect.flip(Agent.answer("r", "yes", unchecked({ who: "ann" })))).toMatchObject(
        refusal('options has no "who": there are by')
      )
    })
  )
})
