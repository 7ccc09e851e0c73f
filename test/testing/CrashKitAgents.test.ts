/**
 * Agents of one's own under the crash kit: whatever a run may do, it keeps its promises wherever it is stopped.
 */
import { join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { Agent } from "../../src/index.ts"
import { Scripted } from "../../src/provider/index.ts"
import * as NodeSqlite from "../../src/store/NodeSqlite.ts"
import { CrashKit } from "../../src/testing/index.ts"
import { folder } from "../store/folders.ts"
import { agent, call, done, handlers, model, prices, tools } from "./agents.ts"
import { telltale } from "./subjects/telltale.ts"

// Hundreds of runs take a while on a machine that has other things to do.
const patience = 180_000

type Lines = Parameters<typeof model>[0]
type Options = Omit<Parameters<typeof CrashKit.check>[0], "agent" | "input" | "layer" | "store">

/** Checks an agent with this script, and that all was kept. */
const kept = (lines: Lines, more: Options & { readonly agent?: ReturnType<typeof agent> } = {}) =>
  Effect.gen(function* () {
    const layer = Layer.merge(handlers, model(lines))
    const report = yield* CrashKit.check({ agent: agent(), input: "Go.", ...more, layer })
    expect(report.broken).toEqual([])
    return report
  })

// What is told, or decided, is read from the journal, whatever it was that ended the driver before.
const crashed = { ways: ["crash"] } as const

const visitsOf = (
  { visits }: CrashKit.Report,
  way: CrashKit.Way,
  point: CrashKit.Point,
  what: string
): ReadonlyArray<CrashKit.Visit> =>
  visits.filter(({ seam, ...visit }) => visit.way === way && seam.point === point && seam.what === what)

const countsOf = ({ calls }: CrashKit.Visit) =>
  Object.fromEntries(calls.map(({ effects, times, tool }) => [tool, [times, effects.length]]))

describe("a call that is cut off", { timeout: patience }, () => {
  it.effect("runs again if it may be repeated, and is reported if not", () =>
    Effect.gen(function* () {
      const report = yield* kept([call("read"), call("put"), call("write"), done])
      for (const way of ["interruption", "crash"] as const) {
        const [read] = visitsOf(report, way, "in tool", "read")
        expect(read?.stops).toHaveLength(1)
        expect(countsOf(read!)).toEqual({ read: [2, 0], put: [1, 1], write: [1, 1] })
        const [put] = visitsOf(report, way, "after tool", "put")
        expect(put?.stops).toHaveLength(1)
        expect(countsOf(put!)).toEqual({ read: [1, 0], put: [2, 1], write: [1, 1] })
        // A handler that waits before it writes has not written yet, and the kit says so.
        const [write] = visitsOf(report, way, "in tool", "write")
        expect(write?.stops).toEqual([way === "crash" ? "RunStoreError" : "interrupted", "OutcomeUnknown"])
        expect(countsOf(write!)).toEqual({ read: [1, 0], put: [1, 1], write: [1, 0] })
        expect(write?.parted).toEqual([expect.stringContaining("the outcome of write")])
        // What had its result is told with it, and the run goes the same way.
        const [written] = visitsOf(report, way, "after tool", "write")
        expect(written).toMatchObject({ parted: [], messages: report.undisturbed.messages })
      }
    })
  )

  it.effect("is looked up where its tool can, and nobody is asked", () =>
    Effect.gen(function* () {
      const report = yield* kept([call("look_up"), done])
      for (const { calls, stops } of report.visits) {
        expect(stops).not.toContain("OutcomeUnknown")
        for (const { times } of calls) expect(times).toBeLessThan(2)
      }
      const [lost] = visitsOf(report, "crash", "before tool", "look_up")
      expect(lost?.messages.at(-2)).toMatchObject({ role: "tool", ok: false })
    })
  )

  it.effect("is unknown as well in a run that nobody has disturbed", () =>
    Effect.gen(function* () {
      const { undisturbed } = yield* kept([call("slow"), done])
      expect(undisturbed.stops).toEqual(["OutcomeUnknown"])
    })
  )

  it.effect("may be one of several", () =>
    kept([Scripted.turn(call("read", "a"), call("write", "b"), call("read", "c"), call("put", "d")), done])
  )

  it.effect("has wrong arguments, or is of no tool, and then nothing has run", () =>
    Effect.gen(function* () {
      const { undisturbed } = yield* kept([
        Scripted.call("write", { z: 1 }),
        Scripted.call("nothing"),
        Scripted.call("read", "{"),
        done
      ])
      expect(undisturbed.calls).toMatchObject([{ tool: "write", times: 0 }])
    })
  )
})

describe("a lost model call", { timeout: patience }, () => {
  it.effect("costs its estimate and a turn, and the answer is the same", () =>
    Effect.gen(function* () {
      const report = yield* kept([call("read"), done])
      const [first, second] = visitsOf(report, "crash", "in model call", "")
      expect(first).toMatchObject({ lostTurns: 1, turns: 3, costUsd: report.undisturbed.costUsd })
      // The second is estimated from the first: 110 tokens in and 10 out.
      expect(second).toMatchObject({ lostTurns: 1, turns: 3, costUsd: 0.00064 + 0.00034 })
    })
  )

  it.effect("may bring a limit earlier, and the rest is as it was", () =>
    Effect.gen(function* () {
      const limits = { turns: 3, usd: 1 }
      const report = yield* kept((turn) => call("read", `${turn}`), { limits })
      expect(report.undisturbed.ending).toMatchObject({ tag: "MaxTurnsExceeded" })
      const [first] = visitsOf(report, "crash", "in model call", "")
      expect(first).toMatchObject({ turns: 3, lostTurns: 1, parted: ["its limit came earlier"] })
    })
  )

  it.effect("of a provider that answers later, or is away, is no other", () =>
    Effect.gen(function* () {
      yield* kept([Scripted.text("late", { latency: "5 seconds" })])
      const { undisturbed } = yield* kept((turn) => (turn === 0 ? call("write") : Scripted.fail(500)))
      expect(undisturbed.ending).toMatchObject({ tag: "ProviderUnavailable" })
    })
  )
})

describe("people", { timeout: patience }, () => {
  const asks: Lines = [
    Scripted.turn(call("read"), call("ask_first", "a"), call("write"), call("ask_first", "b")),
    call("ask_first", "c"),
    done
  ]

  it.effect("approve, and it is done once", () =>
    Effect.gen(function* () {
      const { undisturbed } = yield* kept(asks)
      expect(undisturbed.stops).toEqual(["ApprovalRequired", "ApprovalRequired"])
    })
  )

  it.effect("reject, and it is not done", () =>
    Effect.gen(function* () {
      const { undisturbed, visits } = yield* kept(asks, {
        ...crashed,
        decide: () => Agent.reject("not today")
      })
      for (const { calls } of [undisturbed, ...visits])
        expect(calls.map(({ tool }) => tool)).not.toContain("ask_first")
    })
  )

  it.effect("change what is to be done", () =>
    Effect.gen(function* () {
      const decide = () => Agent.approve({ args: { q: "less" } })
      const { undisturbed } = yield* kept([call("ask_first", "all"), done], { ...crashed, decide })
      expect(undisturbed.calls).toMatchObject([{ tool: "ask_first", effects: ["did less"] }])
    })
  )

  it.effect("answer questions, until a result is submitted", () =>
    Effect.gen(function* () {
      const asker = Agent.make("asker", {
        toolkit: tools,
        output: Schema.Struct({ answer: Schema.Int }),
        limits: { turns: 9, usd: 1 }
      }).pipe(Agent.provide(prices))
      const lines = [
        Scripted.text("It is 42."),
        Scripted.call("request_input", { question: "Are you sure?" }),
        Scripted.turn(call("write"), Scripted.call("submit_result", { answer: 42 }))
      ]
      const report = yield* CrashKit.check({
        agent: asker,
        input: "What is the answer?",
        answer: (question) => `You ask ${question} Yes.`,
        layer: Layer.merge(handlers, model(lines))
      })
      expect(report.broken).toEqual([])
      expect(report.undisturbed.stops).toEqual(["InputRequired"])
      expect(JSON.stringify(report.undisturbed.messages)).toContain("You ask Are you sure? Yes.")
    })
  )
})

describe("what an agent was told", { timeout: patience }, () => {
  it.effect("of a repetition is told at the same time", () =>
    kept([call("read"), call("read"), call("read"), call("read"), done], crashed)
  )

  it.effect("of a repetition stops it at the same time", () =>
    Effect.gen(function* () {
      const { undisturbed } = yield* kept(() => call("read"), crashed)
      expect(undisturbed.ending).toMatchObject({ tag: "RunStalled" })
    })
  )

  it.effect("of its reserve is told once", () =>
    Effect.gen(function* () {
      const limits = { turns: 5, usd: 1, reserve: { turns: 2 } }
      const { undisturbed } = yield* kept(
        (turn, { messages }) => {
          if (!JSON.stringify(messages).includes("Write a handoff")) return call("read", `${turn}`)
          return messages.at(-1)?.role === "user" ? call("save") : Scripted.text("That is all.")
        },
        { ...crashed, limits }
      )
      expect(undisturbed.ending).toMatchObject({ tag: "MaxTurnsExceeded" })
      expect(undisturbed.calls.map(({ tool }) => tool)).toContain("save")
    })
  )

  it.effect("of tool calls that are used up is told at the same time, further attempts apart", () =>
    kept((turn, { saw }) => (saw("used up") ? done : call("read", `${turn}`)), {
      ...crashed,
      limits: { toolCalls: 3, usd: 1 }
    })
  )

  it.effect("of reads that it may reuse is read again", () =>
    kept([call("read"), call("read"), call("write"), call("read"), done], {
      ...crashed,
      agent: agent({ policy: { dedupe: "read-only" } })
    })
  )
})

describe("a sub-agent", { timeout: patience }, () => {
  const child = agent().pipe(
    Agent.provide(
      Layer.merge(handlers, model([call("write", "c"), call("ask_first", "c"), Scripted.text("wrote")]))
    )
  )
  const ask = Agent.asTool(child, { name: "ask", description: "Asks." })
  const parent = Agent.make("parent", { toolkit: Toolkit.make(ask.tool), limits: { turns: 9, usd: 1 } }).pipe(
    Agent.provide(Layer.merge(ask.layer, prices))
  )

  it.effect("is stopped at its own seams, and keeps the same promises", () =>
    Effect.gen(function* () {
      const report = yield* CrashKit.check({
        agent: parent,
        input: "Have it written.",
        layer: model([Scripted.call("ask", { task: "write" }), done])
      })
      expect(report.broken).toEqual([])
      expect(report.undisturbed.calls.map(({ effects, tool }) => [tool, effects])).toEqual([
        ["ask", []],
        ["write", ["wrote c"]],
        ["ask_first", ["did c"]]
      ])
    })
  )
})

describe("a tool that says its key, its run and its call", { timeout: patience }, () => {
  it.effect("is safe, and its run costs what it would have cost, wherever it is stopped", () =>
    Effect.gen(function* () {
      const { broken, undisturbed, visits } = yield* CrashKit.check(telltale)
      expect(broken).toEqual([])
      expect(undisturbed.calls.map(({ tool }) => tool)).toEqual([
        "pay",
        "pay",
        "have_paid",
        "pay",
        "pay",
        "pay"
      ])
      // Other keys cost something else: that is what must not be taken for a fault.
      const costs = visits.filter(({ lostTurns }) => lostTurns > 0).map(({ costUsd }) => costUsd)
      expect(new Set(costs).size).toBeGreaterThan(1)
    })
  )

  it.effect("is safe in a store where each run has an id of its own", () =>
    Effect.gen(function* () {
      const file = join(yield* folder, "shared.db")
      const { broken, visits } = yield* CrashKit.check({
        ...telltale,
        store: NodeSqlite.runStore(file),
        only: ({ point }) => point === "in model call",
        ways: ["crash"]
      })
      expect(broken).toEqual([])
      expect(visits.length).toBeGreaterThan(5)
    })
  )
})

describe("a driver that takes a run up", { timeout: patience }, () => {
  const lines = [
    Scripted.turn(call("read"), call("ask_first")),
    call("put"),
    Scripted.turn(call("write"), call("look_up")),
    done
  ]

  for (const relapse of [1, 3, 6]) {
    it.effect(`may be stopped at its seam ${relapse} as well`, () =>
      Effect.gen(function* () {
        const { visits } = yield* kept(lines, { relapse, ways: ["crash"] })
        const twice = visits.filter(
          ({ stops }) => stops.filter((stop) => stop !== "ApprovalRequired").length > 1
        )
        expect(twice.length).toBeGreaterThan(visits.length / 2)
      })
    )
  }
})

describe("a store", { timeout: patience }, () => {
  it.effect("in SQLite keeps what one in memory keeps", () =>
    Effect.gen(function* () {
      const options = {
        agent: agent(),
        input: "Go.",
        layer: Layer.merge(handlers, model([call("read"), call("ask_first"), done])),
        ways: ["crash"] as const
      }
      const inMemory = yield* CrashKit.check(options)
      const inSqlite = yield* CrashKit.check({ ...options, store: NodeSqlite.runStore(":memory:") })
      expect(inSqlite).toEqual(inMemory)
    })
  )
})

describe("outside of the kit", { timeout: patience }, () => {
  it.effect("nothing is counted, and a tool does as it is told", () =>
    Effect.gen(function* () {
      yield* CrashKit.happened("something")
      expect(yield* CrashKit.happenedOnce("key", "something")).toBe(true)
      expect(yield* CrashKit.happenedOnce("key", "something")).toBe(true)
      expect(yield* CrashKit.hasHappened("key")).toBe(false)
    })
  )
})
