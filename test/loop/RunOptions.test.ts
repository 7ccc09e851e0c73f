/** What is said wrongly where a run is asked for or taken up is refused, and nothing comes of it. */
import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { Agent, MemoryRunStore, RunHost, RunStore } from "../../src/index.ts"
import { cleaner, refusal, unchecked } from "./refusals.ts"

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
        const run = Agent.outcome(Agent.run(cleaner, "go", given))
        expect(yield* Effect.flip(run)).toMatchObject(refusal(problem))
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
