/**
 * The fault: a run that reaches its cap gives nothing: an error instead of what was found, no last word of the model, and
 * no way on but to begin again.
 */
import { expect, it } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as TestClock from "effect/testing/TestClock"
import { Agent, CurrentCall, Handoff, type Limits, PriceBook, RunStore, ToolPolicy } from "../../src/index.ts"
import * as Scripted from "../../src/provider/Scripted.ts"
import { expectLawful, journal, of, onTwoStores, summary } from "./support.ts"

/** Ten cents and 15 tokens for each turn. */
const usage = { promptTokens: 10, completionTokens: 5 }
const Prices = PriceBook.layer({ script: { input: 0, output: 20_000 } })

const parameters = Schema.Struct({ path: Schema.String })
const Read = Tool.make("read", { parameters, success: Schema.String }).annotate(Tool.Readonly, true)
const Save = Tool.make("save", { parameters, success: Schema.String }).annotate(ToolPolicy.Purpose, "handoff")
const tools = Toolkit.make(Read, Save)

const task = "Why does the export lose its last row?"
const suspicion = "I suspect flush."
const lastWord = "flush comes too early; b.ts is still unread."

/** Room for one read, by each of the resources: without a reserve, and with one for a last word. */
const caps: ReadonlyArray<readonly [Limits.Resource, Limits.LimitsInput, Limits.LimitsInput]> = [
  ["turns", { turns: 2 }, { turns: 3, reserve: { turns: 1 } }],
  ["usd", { usd: 0.2 }, { usd: 0.3, reserve: { usd: 0.1 } }],
  ["tokens", { tokens: 30 }, { tokens: 45, reserve: { tokens: 15 } }],
  ["tool_calls", { toolCalls: 1 }, { toolCalls: 2, reserve: { toolCalls: 1 } }],
  ["time", { time: "8 minutes" }, { time: "10 minutes", reserve: { time: "2 minutes" } }]
]

/** Much more of everything. */
const more: Limits.LimitsInput = {
  turns: 50,
  usd: 10,
  tokens: 10_000,
  toolCalls: 50,
  time: "10 hours",
  reserve: { turns: 0, usd: 0, tokens: 0, toolCalls: 0, time: "0 seconds" }
}

/** Reads a.ts, and then wants b.ts until it has it; b.ts cannot be read in time where time is what there is too little of. */
const investigator = (resource: Limits.Resource, limits: Limits.LimitsInput) => {
  const read: Array<string> = []
  const reached = Deferred.makeUnsafe<void>()
  let slow = resource === "time"
  const handlers = tools.toLayer({
    read: ({ path }) =>
      Effect.gen(function* () {
        read.push(path)
        if (path === "b.ts" && slow) {
          slow = false
          yield* Deferred.succeed(reached, undefined)
          return yield* Effect.never
        }
        const { evidence } = yield* CurrentCall.CurrentCall
        yield* evidence({ kind: "file", name: path, digest: `digest of ${path}` })
        return `content of ${path}`
      }),
    save: () => Effect.succeed("saved")
  })
  const script = Scripted.make("script", (turn, { saw, tools }) => {
    if (!tools.includes("read")) return Scripted.text(lastWord)
    if (turn === 0) return Scripted.turn(Scripted.text(suspicion), Scripted.call("read", { path: "a.ts" }))
    return saw("content of b.ts") ? Scripted.text("flush") : Scripted.call("read", { path: "b.ts" })
  })
  const agent = Agent.make("investigator", { toolkit: tools, limits }).pipe(
    Agent.provide(Layer.mergeAll(handlers, Scripted.layer(script, { usage }), Prices))
  )
  return { agent, read, reached, resource }
}

/** Runs something on the test clock; where time is scarce, eight minutes pass as soon as the slow read has begun. */
const inTime = <A, E, R>(
  { reached, resource }: ReturnType<typeof investigator>,
  run: Effect.Effect<A, E, R>
) =>
  Effect.gen(function* () {
    const fiber = yield* Effect.forkChild(run)
    if (resource === "time") {
      yield* Deferred.await(reached)
      yield* TestClock.adjust("8 minutes")
    }
    return yield* Fiber.join(fiber)
  })

onTwoStores((check) => {
  check(
    "a run at any of its caps hands over what it has, and goes on from there when it gets more",
    function* () {
      for (const [resource, without, withReserve] of caps) {
        for (const limits of [without, withReserve]) {
          const runId = `${resource}${limits.reserve === undefined ? "" : " with a reserve"}`
          const subject = investigator(resource, limits)
          const exit = yield* Agent.outcome(inTime(subject, Agent.run(subject.agent, task, { runId })))
          if (exit._tag !== "MaxTurnsExceeded" && exit._tag !== "BudgetExceeded") throw new Error(exit._tag)
          expect(exit._tag, runId).toBe(resource === "turns" ? "MaxTurnsExceeded" : "BudgetExceeded")

          const { handoff } = exit
          expect(handoff, runId).toMatchObject({ runId, task, exhausted: { resource } })
          expect(handoff.files, runId).toMatchObject([{ name: "a.ts", digest: "digest of a.ts" }])
          if (limits.reserve === undefined) expect(handoff.lastWords, runId).toBe(suspicion)
          else expect(handoff.summary, runId).toBe(lastWord)
          expect(handoff.next.map(({ api }) => api).join("\n"), runId).toContain("resume")
          const markdown = Handoff.toMarkdown(handoff)
          for (const text of [task, "a.ts", limits.reserve === undefined ? suspicion : lastWord]) {
            expect(markdown, runId).toContain(text)
          }

          // Whoever comes later has it from the store.
          const { state } = yield* RunStore.load(runId)
          expect(Handoff.of(state)).toEqual(handoff)
          expect((yield* summary(runId)).reason).toBe(resource === "turns" ? "max_turns" : "max_budget")
          yield* expectLawful(runId)

          const { output } = yield* Agent.resume(subject.agent, runId, { limits: more })
          expect(output, runId).toBe("flush")
          expect(subject.read.filter((path) => path === "a.ts")).toHaveLength(1)
          yield* expectLawful(runId)
        }
      }
    }
  )

  check("what a sub-agent has found when it reaches its cap comes back to the run above it", function* () {
    for (const [resource, without, withReserve] of caps) {
      for (const limits of [without, withReserve]) {
        const runId = `${resource}${limits.reserve === undefined ? "" : " with a reserve"}`
        const subject = investigator(resource, limits)
        const { layer, tool } = Agent.asTool(subject.agent, { name: "ask", description: "Investigates." })
        const script = Scripted.make("script", [
          Scripted.call("ask", { task }, { id: "a" }),
          ({ lastToolResult }) => Scripted.text(lastToolResult)
        ])
        const lead = Agent.make("lead", { toolkit: Toolkit.make(tool), limits: { time: "1 hour" } }).pipe(
          Agent.provide(Layer.mergeAll(layer, Scripted.layer(script, { usage }), Prices))
        )
        const { output } = yield* inTime(subject, Agent.run(lead, "go", { runId }))
        expect(output, runId).toContain("investigator ended without an answer")
        expect(output, runId).toContain(limits.reserve === undefined ? suspicion : lastWord)
        const [result] = of(yield* journal(runId), "tool_result")
        expect(result).toMatchObject({ ok: false })
        expect(Handoff.of((yield* RunStore.load(`${runId}/a`)).state).files).toHaveLength(1)
        yield* expectLawful(runId)
      }
    }
  })
}, it.effect)
