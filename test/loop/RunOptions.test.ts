/** What is said wrongly where a run is asked for, taken up or decided about: it is refused, and nothing comes of it. */
import { describe, expect, it } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { Agent, MemoryRunStore, RunHost, RunStore } from "../../src/index.ts"
import * as Scripted from "../../src/provider/Scripted.ts"
import { call, guarded, usage } from "./support.ts"

// Not everybody is held by the compiler: a test says what its types would not let it say.
const unchecked = <A>(value: unknown): A => value as A

const done: Array<string> = []
const toolkit = Toolkit.make(guarded("delete"))
const cleaner = Agent.make("cleaner", { toolkit }).pipe(
  Agent.provide(
    Layer.merge(
      toolkit.toLayer({
        delete: ({ q }) =>
          Effect.as(
            Effect.sync(() => done.push(q)),
            "deleted"
          )
      }),
      Scripted.layer(Scripted.make("cleaner", [call("delete", "c"), Scripted.text("done")]), { usage })
    )
  )
)

const refusal = (problem: string) => ({ _tag: "RunStoreError", kind: "invalid", problem })

const check = (name: string, body: Effect.Effect<void, unknown, RunStore.RunStore>) =>
  it.effect(name, () => Effect.provide(body, MemoryRunStore.layer))

describe("options of a run", () => {
  for (const [options, problem] of [
    [{ limit: { usd: 1 } }, 'options has no "limit": there are runId, limits, after, tags'],
    [{ runId: 7 }, "options.runId is 7, and must be a text"],
    [{ after: ["r"] }, "options.after is a list, and must be a text"],
    [null, "options is null, and must be an object"],
    ["ticket-7", 'options is "ticket-7", and must be an object']
  ] as const) {
    check(
      `${JSON.stringify(options)} are refused before anything is stored`,
      Effect.gen(function* () {
        const given = unchecked<Agent.RunOptions>(options)
        const stream = Effect.flip(Agent.outcome(Agent.run(cleaner, "go", given)))
        expect(yield* stream).toMatchObject(refusal(problem))
        expect(yield* Effect.flip(Agent.create(cleaner, "go", given))).toMatchObject(refusal(problem))
        for (const hosting of [{}, { budget: () => Effect.undefined }]) {
          const started = RunHost.RunHost.use((host) => Effect.flip(host.start("cleaner", "go", given)))
          const Host = RunHost.layer([cleaner], hosting)
          expect(yield* Effect.provide(started, Host)).toMatchObject(refusal(problem))
        }
        expect(yield* (yield* RunStore.RunStore).list()).toEqual([])
      })
    )
  }
})

describe("options of a resume", () => {
  for (const [options, problem] of [
    [{ limits: { turns: 5 }, msg: "go on" }, 'options has no "msg": there are limits, message, force'],
    [{ force: "yes" }, 'options.force is "yes", and must be true or false']
  ] as const) {
    check(
      `${JSON.stringify(options)} are refused, and the run stays as it is`,
      Effect.gen(function* () {
        const given = unchecked<Agent.ResumeOptions>(options)
        yield* Agent.outcome(Agent.run(cleaner, "go", { runId: "r" }))
        const { seq } = yield* (yield* RunStore.RunStore).summary("r")
        expect(yield* Effect.flip(Agent.outcome(Agent.resume(cleaner, "r", given)))).toMatchObject(
          refusal(problem)
        )
        const resumed = RunHost.RunHost.use((host) => Effect.flip(host.resume("r", given)))
        expect(yield* Effect.provide(resumed, RunHost.layer([cleaner]))).toMatchObject(refusal(problem))
        expect((yield* (yield* RunStore.RunStore).summary("r")).seq).toBe(seq)
      })
    )
  }
})

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

describe("an agent", () => {
  for (const [options, problem] of [
    [
      { limit: { usd: 1 } },
      'lead cannot be made: options has no "limit": there are instructions, toolkit, output, limits, policy, stopWhen'
    ],
    [
      { instructions: ["Be brief."] },
      "lead cannot be made: options.instructions is a list, and must be a text"
    ],
    [{ output: { n: 1 } }, "lead cannot be made: options.output is an object, and must be a schema"],
    [
      { stopWhen: [() => undefined, "late"] },
      "lead cannot be made: options.stopWhen is a list, and must be a function, or a list of them"
    ],
    [null, "lead cannot be made: options is null, and must be an object"]
  ] as const) {
    it(`of ${JSON.stringify(options)} is not made`, () => {
      expect(() => Agent.make("lead", unchecked<Parameters<typeof Agent.make>[1]>(options))).toThrow(
        new TypeError(problem)
      )
    })
  }

  it("is no tool where it is misspelt what that is", () => {
    const made = (options: unknown) => () => Agent.asTool(cleaner, unchecked(options))
    expect(made({ name: "ask" })).toThrow(
      new TypeError("cleaner cannot be a tool: options.description is undefined, and must be a text")
    )
    expect(made({ name: "ask", description: "asks", schema: Tool })).toThrow(
      new TypeError(
        'cleaner cannot be a tool: options has no "schema": there are name, description, parameters, success, input'
      )
    )
  })
})
