/**
 * What the store has of a run beside its journal stays short, whatever a model writes; people decide by it all the same.
 */
import { describe, expect, it } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { Agent, MemoryRunStore, RunExit, RunStore } from "../../src/index.ts"
import * as Scripted from "../../src/provider/Scripted.ts"
import type { Append } from "../../src/store/RunStore.ts"
import { describeStores } from "../store/stores.ts"

const long = "some words, ".repeat(80_000)
const usage = { promptTokens: 10, completionTokens: 5 }
const q = { parameters: Schema.Struct({ q: Schema.String }), success: Schema.String }
const tools = Toolkit.make(
  Tool.make("read", q).annotate(Tool.Readonly, true),
  Tool.make("send", q),
  Tool.make("publish", { ...q, needsApproval: true })
)

/** An agent whose tools keep what they were given; `send` dies in the middle. */
const makeAgent = (name: string, lines: ReadonlyArray<Scripted.Line>) => {
  const given: Array<string> = []
  const take = ({ q }: { readonly q: string }) =>
    Effect.sync(() => {
      given.push(q)
      return "done"
    })
  const handlers = tools.toLayer({
    read: take,
    publish: take,
    send: ({ q }) => Effect.andThen(take({ q }), Effect.interrupt)
  })
  const agent = Agent.make(name, { toolkit: tools, limits: { turns: 5, time: "1 minute" } }).pipe(
    Agent.provide(Layer.merge(handlers, Scripted.layer(Scripted.make(name, lines), { usage })))
  )
  return { agent, given }
}

const publish = (q: string) => Scripted.call("publish", { q }, { id: "c" })
const sizeOf = (value: unknown): number => JSON.stringify(value).length
const short = 6_000

const summaryOf = (runId: string) =>
  Effect.gen(function* () {
    const store = yield* RunStore.RunStore
    const summary = yield* store.summary(runId)
    expect((yield* store.list()).find((run) => run.runId === runId)).toEqual(summary)
    return summary
  })

describeStores((layer) => {
  const test = (name: string, body: () => Effect.Effect<unknown, unknown, RunStore.RunStore>) =>
    it.live(name, () => Effect.provide(body(), layer))

  test("a call with long arguments waits in a short summary, and is decided about by its digest", () =>
    Effect.gen(function* () {
      const { agent, given } = makeAgent("a", [publish(long), Scripted.text("done")])
      const { calls } = yield* Effect.flip(Agent.run(agent, "go", { runId: "r" })).pipe(
        Effect.filterOrFail((error) => error._tag === "ApprovalRequired")
      )
      expect(calls[0].args).toEqual({ q: long })
      const summary = yield* summaryOf("r")
      expect(sizeOf(summary)).toBeLessThan(short)
      const [call] = summary.approvals
      expect(call).toMatchObject({
        runId: "r",
        callId: "c",
        tool: "publish",
        argsDigest: calls[0].argsDigest
      })
      expect(call?.args).toBeUndefined()
      expect(call?.argsCut).toMatch(/^\{"q":"/)
      expect(call?.argsCut).toContain(`(${sizeOf({ q: long })} characters)`)
      expect(RunExit.approvalsOf((yield* RunStore.load("r")).state)).toEqual(calls)

      const other = { runId: "r", callId: "c", argsDigest: "another" }
      expect(yield* Effect.flip(Agent.decide(other, Agent.approve()))).toMatchObject({
        _tag: "CallNotPending"
      })
      if (call !== undefined) yield* Agent.decide(call, Agent.approve())
      expect((yield* Agent.resume(agent, "r")).output).toBe("done")
      expect(given).toEqual([long])
    }))

  test("other arguments for such a call, and others that are long, run", () =>
    Effect.gen(function* () {
      const { agent, given } = makeAgent("a", [publish(long), Scripted.text("done")])
      yield* Effect.exit(Agent.run(agent, "go", { runId: "r" }))
      const other = `${long.slice(1)} and more`
      for (const call of (yield* summaryOf("r")).approvals)
        yield* Agent.decide(call, Agent.approve({ args: { q: other } }))
      yield* Agent.resume(agent, "r")
      expect(given).toEqual([other])
    }))

  test("a call of unknown outcome and one of a sub-agent are as short", () =>
    Effect.gen(function* () {
      const sending = makeAgent("a", [Scripted.call("send", { q: long }, { id: "c" }), Scripted.text("done")])
      yield* Effect.exit(Agent.run(sending.agent, "go", { runId: "r" }))
      const { unknown } = yield* summaryOf("r")
      expect(unknown).toMatchObject([{ callId: "c", tool: "send" }])
      expect(sizeOf(unknown)).toBeLessThan(short)
      for (const call of unknown) yield* Agent.resolve(call, Agent.happened("sent"))
      expect((yield* Agent.resume(sending.agent, "r")).run.status).toBe("completed")

      const helper = makeAgent("helper", [publish(long), Scripted.text("published")])
      const ask = Agent.asTool(helper.agent, { name: "ask", description: "asks" })
      const store = yield* RunStore.RunStore
      const lines = [Scripted.call("ask", { task: "t" }, { id: "k" }), Scripted.text("done")]
      const lead = Agent.make("lead", { toolkit: Toolkit.make(ask.tool), limits: { time: "1 minute" } }).pipe(
        Agent.provide(ask.layer),
        Agent.provide(Layer.succeed(RunStore.RunStore, store)),
        Agent.provide(Scripted.layer(Scripted.make("lead", lines), { usage }))
      )
      yield* Effect.exit(Agent.run(lead, "go", { runId: "p" }))
      const above = yield* summaryOf("p")
      expect(sizeOf(above)).toBeLessThan(short)
      for (const call of above.approvals) yield* Agent.decide(call, Agent.approve())
      expect((yield* Agent.resume(lead, "p")).output).toBe("done")
      expect(helper.given).toEqual([long])
    }))

  test("of many calls the first are there, and the others can be decided about just so", () =>
    Effect.gen(function* () {
      const count = 300
      const asked = Array.from({ length: count }, (_, i) =>
        Scripted.call("publish", { q: `${i} ${"x".repeat(4_000)}` }, { id: `c${i}` })
      )
      const { agent, given } = makeAgent("a", [Scripted.turn(...asked), Scripted.text("done")])
      yield* Effect.exit(Agent.run(agent, "go", { runId: "r" }))
      const summary = yield* summaryOf("r")
      expect(sizeOf(summary)).toBeLessThan(100_000)
      expect(summary.approvals.length + (summary.more?.approvals ?? 0)).toBe(count)
      expect(summary.approvals[0]?.args).toBeDefined()
      expect(summary.approvals.at(-1)?.argsCut).toContain("characters)")
      const calls = RunExit.approvalsOf((yield* RunStore.load("r")).state)
      expect(calls).toHaveLength(count)
      expect(yield* Effect.flip(Agent.decide({ runId: "r", callId: "c300" }, Agent.approve()))).toMatchObject(
        { _tag: "CallNotPending" }
      )
      const other = { runId: "r", callId: "c299", argsDigest: "another" }
      expect(yield* Effect.flip(Agent.decide(other, Agent.approve()))).toMatchObject({
        _tag: "CallNotPending"
      })
      for (const call of calls) {
        const isLast = call.callId === "c299"
        yield* Agent.decide(call, isLast ? Agent.approve() : Agent.reject())
      }
      expect((yield* Agent.resume(agent, "r")).output).toBe("done")
      expect(given.map((q) => q.slice(0, 3))).toEqual(["299"])
    }))

  test("a long question is asked in full, and stands there in short", () =>
    Effect.gen(function* () {
      const asks = [Scripted.call("request_input", { question: long }, { id: "q" })]
      const agent = Agent.make("a", { output: Schema.String, limits: { time: "1 minute" } }).pipe(
        Agent.provide(
          Scripted.layer(Scripted.make("a", [...asks, Scripted.call("submit_result", { result: "done" })]), {
            usage
          })
        )
      )
      const exit = yield* Effect.flip(Agent.run(agent, "go", { runId: "r" }))
      expect(exit._tag === "InputRequired" && exit.question).toBe(long)
      const summary = yield* summaryOf("r")
      expect(sizeOf(summary)).toBeLessThan(3 * short)
      expect(summary.question?.text.startsWith(long.slice(0, 4_096))).toBe(true)
      yield* Agent.answer("r", "this one")
      expect((yield* Agent.resume(agent, "r")).output).toBe("done")
    }))
})

describe("what is written beside the events", () => {
  const appended = (q: string) =>
    Effect.gen(function* () {
      const store = yield* RunStore.RunStore
      const summaries: Array<Append["summary"]> = []
      const watched: RunStore.RunStore["Service"] = {
        ...store,
        append: (request) => {
          summaries.push(request.summary)
          return store.append(request)
        }
      }
      const reads = Array.from({ length: 12 }, (_, i) => Scripted.call("read", { q: `${i}` }))
      const turn = Scripted.turn(Scripted.call("publish", { q }), ...reads)
      const { agent } = makeAgent("a", [turn, Scripted.text("done")])
      yield* Effect.exit(
        Effect.provideService(Agent.run(agent, "go", { runId: "r" }), RunStore.RunStore, watched)
      )
      return summaries
    })

  it.live("does not grow with what waits, however often something is written meanwhile", () =>
    Effect.gen(function* () {
      const summaries = yield* appended(long)
      expect(summaries.length).toBeGreaterThan(10)
      expect(sizeOf(summaries)).toBeLessThan(summaries.length * short)
    }).pipe(Effect.provide(MemoryRunStore.layer))
  )

  for (const [length, isWhole] of [
    [4_096, true],
    [4_097, false]
  ] as const)
    it.live(`${isWhole ? "has" : "cuts"} arguments of ${length} characters`, () =>
      Effect.gen(function* () {
        const q = "x".repeat(length - sizeOf({ q: "" }))
        const [call] = (yield* appended(q)).at(-1)?.approvals ?? []
        expect(call?.args).toEqual(isWhole ? { q } : undefined)
        expect(call?.argsCut === undefined).toBe(isWhole)
      }).pipe(Effect.provide(MemoryRunStore.layer))
    )
})
