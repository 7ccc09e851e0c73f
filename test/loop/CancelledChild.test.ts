/**
 * A sub-agent's run that ends by a Stop of its own, or is cut off by its parent: whatever it has left unknown is left to a
 * person, and otherwise its parent is told in words and goes on without it.
 */
import { describe, expect } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Deferred from "effect/Deferred"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import { Agent, Handoff, RunStore, ToolFailure, ToolPolicy } from "../../src/index.ts"
import * as Scripted from "../../src/provider/Scripted.ts"
import * as Audit from "../../src/testing/Audit.ts"
import {
  type Crash,
  call,
  check,
  crashing,
  expectTag,
  finish,
  guarded,
  journal,
  type Model,
  model,
  of,
  reader,
  resultOf,
  settle,
  withTime,
  writer
} from "./support.ts"

type Runnable = Agent.Agent<string, never, RunStore.RunStore>

interface Options {
  readonly policy?: Agent.PolicyInput
  readonly limits?: NonNullable<Parameters<typeof Agent.make>[1]>["limits"]
  /** Whether its toolkit comes with its handlers, and is driven through its own `handle`. */
  readonly resolved?: boolean
  /** What becomes of a payment that was cut off, if its tool can tell. */
  readonly found?: () => ToolPolicy.Outcome
}

/**
 * An agent with a tool that takes for ever to pay, one that takes for ever to read, and one that asks first. The first two
 * take so long to end when they are interrupted.
 */
const payer = (bot: Model, found?: () => ToolPolicy.Outcome, cleaningUp: Duration.Input = 0) => {
  let started: Deferred.Deferred<void> = Deferred.makeUnsafe()
  const ran: Array<string> = []
  const pay = writer("pay")
  const tools = Toolkit.make(
    found === undefined ? pay : pay.annotate(ToolPolicy.Reconcile, () => Effect.sync(found)),
    reader("read"),
    guarded("sign")
  )
  const forever = (name: string) => () =>
    Effect.suspend(() => {
      ran.push(name)
      Deferred.doneUnsafe(started, Effect.void)
      return Effect.onInterrupt(Effect.never, () => Effect.sleep(cleaningUp))
    })
  const agent = Agent.make("payer", { toolkit: tools }).pipe(
    Agent.provide(
      tools.toLayer({
        pay: forever("pay"),
        read: forever("read"),
        sign: () => Effect.sync(() => `${ran.push("sign")}`)
      })
    ),
    Agent.provide(bot.layer)
  )
  /** Runs something until a tool has been started. */
  const until = (step: Effect.Effect<unknown, unknown, RunStore.RunStore>) =>
    Effect.gen(function* () {
      started = yield* Deferred.make<void>()
      const fiber = yield* Effect.forkChild(Effect.exit(step), { startImmediately: true })
      yield* Deferred.await(started)
      return fiber
    })
  return { agent, ran, until }
}

/** An agent that asks the one below it once more, if it is told that this was no use. */
const above = (name: string, below: Runnable, options: Options = {}) => {
  const ask = Agent.asTool(below, { name: "ask", description: "Asks." })
  const bot = model([Scripted.call("ask", { task: "go" }, { id: "c" }), Scripted.text("done")], name)
  const { limits, policy, resolved = false } = options
  const toolkit = Toolkit.make(ask.tool)
  const given = resolved ? Effect.map(toolkit, (ready) => ready) : toolkit
  const agent = Agent.make(name, { toolkit: given, limits, policy }).pipe(
    Agent.provide(Layer.merge(ask.layer, bot.layer))
  )
  return { agent, bot }
}

const paying = () => model([call("pay", "p"), Scripted.text("paid")], "payer")

const summary = (runId: string) => RunStore.RunStore.use((store) => store.summary(runId))
const resume = (agent: Runnable, options = {}) => finish(Agent.resume(agent, "r", options))

describe("a child that is cancelled in the middle of a call that may have happened", () => {
  /** Where the Stop goes, and the run in which the call is. */
  const trees: ReadonlyArray<readonly [name: string, stop: string, payer: string, levels: 2 | 3]> = [
    ["by its id", "r/c", "r/c", 2],
    ["by its id, below another one", "r/c/c", "r/c/c", 3],
    ["with the run above it, below a third", "r/c", "r/c/c", 3]
  ]

  for (const [name, stopped, runId, levels] of trees) {
    const family = () => {
      const bot = paying()
      const { agent, ran, until } = payer(bot)
      const middle = levels === 3 ? above("middle", agent) : undefined
      const top = above("top", middle?.agent ?? agent)
      return { bot, ran, top, until }
    }

    check(`${name}: holds up its parent, until somebody has found out; then that is told`, function* () {
      const { bot, ran, top, until } = family()
      const fiber = yield* until(Agent.run(top.agent, "go", { runId: "r" }))
      yield* Agent.cancel(stopped, "this takes too long")
      yield* Fiber.join(fiber)
      const lost = [{ runId, callId: "p", tool: "pay" }]
      expect(yield* summary("r")).toMatchObject({ reason: "unknown_outcome", unknown: lost })
      expect(yield* summary(stopped)).toMatchObject({ reason: "cancelled", detail: "this takes too long" })

      const before = yield* journal(runId)
      expect(expectTag((yield* resume(top.agent)).exit, "OutcomeUnknown").calls).toMatchObject(lost)
      expect(yield* journal(runId), "nobody has found out").toEqual(before)

      yield* Agent.resolve({ runId, callId: "p" }, Agent.happened("$5 are gone"))
      const { exit } = yield* resume(top.agent)
      expectTag(exit, "Completed")
      const teller = stopped === "r/c/c" ? yield* RunStore.load("r/c") : yield* RunStore.load("r")
      const told = resultOf({ run: teller.state }, "c")
      expect(told).toMatchObject({ ok: false })
      expect(told.content).toContain("it was cancelled: this takes too long")
      if (stopped === runId) expect(told.content).toContain("$5 are gone")
      expect(of(yield* journal(runId), "outcome_resolved")).toHaveLength(1)
      expect(ran).toEqual(["pay"])
      expect(bot.requests, "it is not driven on").toHaveLength(1)
      expect(yield* summary(stopped)).toMatchObject({
        reason: "cancelled",
        detail: "this takes too long",
        unknown: []
      })
    })

    check(`${name}: its driver is dead by then`, function* () {
      const { ran, top } = family()
      const store = yield* RunStore.RunStore
      yield* Effect.exit(
        crashing(Agent.run(top.agent, "go", { runId: "r" }), {
          before: (event) => event.runId === runId && event.type === "tool_start"
        })
      )
      yield* store.send(stopped, { type: "cancel", reason: "this takes too long" })
      expectTag((yield* resume(top.agent)).exit, "Completed")
      expect(ran).toEqual([])
      expect(yield* store.list({ status: "running" })).toEqual([])
    })
  }

  check("while it hands over: what is found out changes nothing of how it has ended", function* () {
    const started = yield* Deferred.make<void>()
    const tools = Toolkit.make(writer("pay").annotate(ToolPolicy.Purpose, "handoff"))
    const pay = () => Effect.andThen(Deferred.succeed(started, undefined), Effect.never)
    const agent = Agent.make("payer", { toolkit: tools, limits: { turns: 2, reserve: { turns: 2 } } }).pipe(
      Agent.provide(Layer.merge(tools.toLayer({ pay }), paying().layer))
    )
    const top = above("top", agent)
    const fiber = yield* Effect.forkChild(Effect.exit(Agent.run(top.agent, "go", { runId: "r" })))
    yield* Deferred.await(started)
    yield* Agent.cancel("r/c", "enough")
    yield* Fiber.join(fiber)
    expect(of(yield* journal("r/c"), "handoff")).toHaveLength(1)
    yield* Agent.resolve({ runId: "r/c", callId: "p" }, Agent.happened("$5 are gone"))
    expectTag((yield* resume(top.agent)).exit, "Completed")
    const stops = of(yield* journal("r/c"), "run_stopped")
    expect(stops).toHaveLength(2)
    for (const { detail, exhausted, reason } of stops) {
      expect({ detail, exhausted, reason }).toEqual({ detail: "enough", reason: "cancelled" })
    }
  })

  for (const [name, found, tag] of [
    ["that it did", () => ToolPolicy.happened("$5 are gone"), "Completed"],
    ["that it did not", () => ToolPolicy.didNotHappen, "Completed"],
    ["nothing", () => ToolPolicy.unknown, "OutcomeUnknown"]
  ] as const) {
    check(`is asked of the tool once, which finds ${name}`, function* () {
      let asked = 0
      const { agent, until } = payer(paying(), () => {
        asked++
        return found()
      })
      const top = above("top", agent)
      const fiber = yield* until(Agent.run(top.agent, "go", { runId: "r" }))
      yield* Agent.cancel("r/c", "enough")
      yield* Fiber.join(fiber)
      expect(asked).toBe(1)
      expect(yield* summary("r")).toMatchObject(
        tag === "Completed" ? { status: "completed" } : { reason: "unknown_outcome" }
      )
      expect((yield* Audit.run("r")).findings).toEqual([])
      if (tag === "Completed") return
      expectTag((yield* resume(top.agent)).exit, "OutcomeUnknown")
      expect(asked).toBe(2)
    })
  }
})

describe("a child that its parent cuts off in the middle of a call that may have happened", () => {
  const late = { reason: "cancelled", detail: "the time that run r gave it was up" }
  const itself = { reason: "unknown_outcome" }
  const timeout = { policy: { toolTimeout: "10 seconds" } } as const
  const deadline = { limits: { time: "10 seconds" } } as const
  // A child has less time than its parent, and may need more than that to clean up.
  const cases = [
    ["a tool timeout", timeout, 0, itself, "OutcomeUnknown"],
    ["its deadline", deadline, 0, itself, "OutcomeUnknown"],
    ["a tool timeout, while it cleans up", timeout, "3 seconds", late, "OutcomeUnknown"],
    ["its deadline, while it cleans up", deadline, "3 seconds", late, "BudgetExceeded"]
  ] as const

  for (const [name, options, cleaningUp, ended, tag] of cases) {
    check(`by ${name}: is not told to have failed, and goes on once that is found out`, function* () {
      const { agent, ran } = payer(paying(), undefined, cleaningUp)
      const { agent: top, bot } = above("top", agent, options)
      const { exit } = yield* withTime(finish(Agent.run(top, "go", { runId: "r" })))
      expectTag(exit, tag)
      expect(exit.run.messages.filter(({ role }) => role === "tool")).toEqual([])
      expect(yield* summary("r/c")).toMatchObject(ended)
      const more = { limits: { time: "1 hour" } }
      const { calls } = expectTag((yield* resume(top, more)).exit, "OutcomeUnknown")
      expect(calls).toMatchObject([{ runId: "r/c", callId: "p" }])
      yield* Agent.resolve(calls[0], Agent.didNotHappen)
      const { exit: end } = yield* resume(top)
      expectTag(end, "Completed")
      expect(resultOf(end, "c")).toMatchObject({ ok: true, content: "paid" })
      expect(ran).toEqual(["pay"])
      expect(bot.requests).toHaveLength(2)
    })
  }

  check("is found in the child of a child that fails for good", function* () {
    const { agent, ran } = payer(paying())
    const ask = Agent.asTool(agent, { name: "ask", description: "Asks." })
    const tools = Toolkit.make(reader("deny"))
    const denied = Effect.andThen(
      Effect.repeat(Effect.yieldNow, { until: () => ran.length > 0 }),
      Effect.fail(ToolFailure.permanent("denied"))
    )
    const middle = Agent.make("middle", {
      toolkit: Toolkit.merge(tools, Toolkit.make(ask.tool.annotate(Tool.Readonly, true)))
    }).pipe(
      Agent.provide(Layer.merge(ask.layer, tools.toLayer({ deny: () => denied }))),
      Agent.provide(
        model([Scripted.turn(Scripted.call("ask", { task: "go" }, { id: "c" }), call("deny", "d"))], "middle")
          .layer
      )
    )
    const { agent: top } = above("top", middle)
    const { exit } = yield* finish(Agent.run(top, "go", { runId: "r" }))
    const { calls } = expectTag(exit, "OutcomeUnknown")
    expect(calls).toMatchObject([{ runId: "r/c/c", callId: "p", tool: "pay" }])
    yield* Agent.resolve(calls[0], Agent.happened())
    const { exit: end } = yield* resume(top)
    expectTag(end, "Completed")
    expect(resultOf(end, "c").content).toContain("denied")
    expect(yield* summary("r/c")).toMatchObject({ status: "failed", reason: "tool_permanent" })
  })
})

describe("a child that its parent cuts off because its time is up, which nobody has stopped", () => {
  const up = (parentId: string) => `the time that run ${parentId} gave it was up`
  const lasting = () =>
    payer(model([call("read", "a"), Scripted.text("read")], "payer"), undefined, "3 seconds")

  for (const [name, options, tag] of [
    ["a tool timeout", { policy: { toolTimeout: "10 seconds" } }, "Completed"],
    ["its deadline", { limits: { time: "10 seconds" } }, "BudgetExceeded"]
  ] as const) {
    for (const [through, resolved] of [
      ["its handler", false],
      ["its toolkit's own `handle`", true]
    ] as const) {
      for (const levels of [2, 3]) {
        check(`by ${name}, ${levels} levels, through ${through}: all who hear of it hear that`, function* () {
          const { agent } = lasting()
          const below = levels === 3 ? above("middle", agent, { resolved }).agent : agent
          const top = above("top", below, { ...options, resolved })
          const { exit } = yield* withTime(finish(Agent.run(top.agent, "go", { runId: "r" })))
          const { run } = expectTag(exit, tag)
          const told = resultOf({ run }, "c").content
          expect(told).toContain("reached its time limit of 10000 ms")
          expect(Handoff.toMarkdown(Handoff.of(run))).toContain("reached its time limit of 10000 ms")
          const { state: child } = yield* RunStore.load("r/c")
          expect(child).toMatchObject({ reason: "cancelled", detail: up("r") })
          expect(Handoff.toMarkdown(Handoff.of(child))).toContain(up("r"))
          if (levels === 3) expect(yield* summary("r/c/c")).toMatchObject({ detail: up("r/c") })
          expect(JSON.stringify([run, child, yield* summary("r/c")])).not.toMatch(/run r(\/c)? was stopped/)
        })
      }
    }

    check(`by ${name}: also where its end could not be stored, so that its parent ends it`, function* () {
      const { agent } = lasting()
      const { agent: top } = above("top", agent, options)
      const store = yield* RunStore.RunStore
      let lost = 0
      const append: typeof store.append = (one) =>
        one.events.some(({ runId, type }) => runId === "r/c" && type === "run_stopped") && lost++ === 0
          ? Effect.fail(new RunStore.RunStoreError({ runId: "r/c", kind: "full", problem: "no room" }))
          : store.append(one)
      const run = finish(Agent.run(top, "go", { runId: "r" }))
      const { exit } = yield* withTime(Effect.provideService(run, RunStore.RunStore, { ...store, append }))
      expectTag(exit, tag)
      expect(lost).toBeGreaterThan(1)
      expect(yield* summary("r/c")).toMatchObject({ reason: "cancelled", detail: up("r") })
    })

    check(`by ${name}: goes on with its parent, if that has died before it could tell`, function* () {
      const { agent, ran } = lasting()
      const { agent: top } = above("top", agent, options)
      const dies = { before: ({ runId, type }) => runId === "r" && type === "tool_result" } satisfies Crash
      yield* withTime(Effect.exit(crashing(Agent.run(top, "go", { runId: "r" }), dies)))
      expect(yield* summary("r/c")).toMatchObject({ detail: up("r") })
      const before = ran.length
      const again = yield* Effect.forkChild(resume(top, { limits: { time: "1 hour" } }))
      yield* settle
      expect(ran.length, "it reads again").toBe(before + 1)
      yield* withTime(Fiber.interrupt(again))
    })
  }
})

describe("a child that is cancelled and has left nothing unknown", () => {
  const signing = () => model([call("sign", "s"), Scripted.text("signed")], "payer")

  check("while it runs: its parent is told the reason, and goes on", function* () {
    const { agent, until } = payer(model([call("read", "a"), Scripted.text("read")], "payer"))
    const { agent: top } = above("top", agent)
    const fiber = yield* until(Agent.run(top, "go", { runId: "r" }))
    yield* Agent.cancel("r/c", "not needed any more")
    yield* Fiber.join(fiber)
    const { state } = yield* RunStore.load("r")
    expect(state.status).toBe("completed")
    expect(resultOf({ run: state }, "c").content).toBe(
      "payer ended without an answer: it was cancelled: not needed any more. It had written nothing down."
    )
    expect((yield* Audit.run("r")).findings).toEqual([])
  })

  check("while it waits for a decision: its parent goes on without it, and nothing is signed", function* () {
    const bot = signing()
    const { agent, ran } = payer(bot)
    const { agent: top } = above("top", agent)
    expectTag((yield* finish(Agent.run(top, "go", { runId: "r" }))).exit, "ApprovalRequired")
    yield* Agent.cancel("r/c", "not needed any more")
    yield* Agent.decide({ runId: "r/c", callId: "s" }, Agent.approve())
    const { exit } = yield* resume(top)
    expectTag(exit, "Completed")
    expect(resultOf(exit, "c").content).toContain("it was cancelled: not needed any more")
    expect(ran).toEqual([])
    expect(bot.requests).toHaveLength(1)
  })

  check("and is then resumed by itself: its parent takes its answer", function* () {
    const { agent, ran } = payer(signing())
    const { agent: top } = above("top", agent)
    expectTag((yield* finish(Agent.run(top, "go", { runId: "r" }))).exit, "ApprovalRequired")
    yield* Agent.cancel("r/c", "not needed any more")
    yield* Agent.decide({ runId: "r/c", callId: "s" }, Agent.approve())
    expectTag((yield* finish(Agent.resume(agent, "r/c"))).exit, "Completed")
    const { exit } = yield* resume(top)
    expectTag(exit, "Completed")
    expect(resultOf(exit, "c")).toMatchObject({ ok: true, content: "signed" })
    expect(ran).toEqual(["sign"])
  })

  check("with its parent: a resume of that one takes it up", function* () {
    const { agent, ran } = payer(signing())
    const { agent: top } = above("top", agent)
    expectTag((yield* finish(Agent.run(top, "go", { runId: "r" }))).exit, "ApprovalRequired")
    yield* Agent.cancel("r", "not now")
    expect(yield* summary("r/c")).toMatchObject({ reason: "cancelled", detail: "run r was stopped" })
    yield* Agent.decide({ runId: "r/c", callId: "s" }, Agent.approve())
    const { exit } = yield* resume(top)
    expectTag(exit, "Completed")
    expect(ran).toEqual(["sign"])
    expect(resultOf(exit, "c").content).toBe("signed")
    yield* settle
  })
})

describe("whichever run of a family is cancelled, at whatever event", () => {
  /** Agents that ask the one below them again until they are told that it was paid; the last one pays. */
  const family = (levels: number, isPaid: () => Effect.Effect<string>) => {
    const tools = Toolkit.make(writer("pay"))
    const asking = (tool: string, id: string) => (turn: number, saw: boolean) =>
      saw || turn === 3
        ? Scripted.text("it was paid")
        : Scripted.call(tool, input(tool), { id: `${id}${turn}` })
    const input = (tool: string) => (tool === "pay" ? { q: "5" } : { task: "Pay." })
    const bot = (name: string, tool: string, id: string) =>
      model((turn, transcript) => asking(tool, id)(turn, transcript.saw("was paid")), name).layer
    const last: Runnable = Agent.make("payer", { toolkit: tools }).pipe(
      Agent.provide(Layer.merge(tools.toLayer({ pay: isPaid }), bot("payer", "pay", "p")))
    )
    return Array.from({ length: levels - 1 }).reduce<Runnable>((below, _, index) => {
      const ask = Agent.asTool(below, { name: "ask", description: "Asks." })
      return Agent.make(`asker${index}`, { toolkit: Toolkit.make(ask.tool) }).pipe(
        Agent.provide(Layer.merge(ask.layer, bot(`asker${index}`, "ask", "c")))
      )
    }, last)
  }

  for (const [levels, target] of [
    [2, ""],
    [2, "/c0"],
    [3, ""],
    [3, "/c0"],
    [3, "/c0/c0"]
  ] as const) {
    check(
      `${levels} levels, r${target}: nobody pays while nobody can tell whether it was paid`,
      function* () {
        const store = yield* RunStore.RunStore
        let unknowns = 0
        for (let at = 2; ; at++) {
          const runId = `r${at}`
          const early: Array<string> = []
          const pay = () =>
            Effect.gen(function* () {
              for (const run of yield* Effect.orDie(store.list())) {
                if (run.runId.startsWith(runId) && run.unknown.length > 0) early.push(run.runId)
              }
              yield* settle
              return "it was paid"
            })
          let stored = 0
          const append: typeof store.append = (one) =>
            Effect.tap(store.append(one), () => {
              const before = stored
              stored += one.events.length
              return before < at && stored >= at
                ? Effect.ignore(store.send(`${runId}${target}`, { type: "cancel", reason: "enough" }))
                : Effect.void
            })
          const top = family(levels, pay)
          yield* Effect.exit(Agent.run(top, "go", { runId })).pipe(
            Effect.provideService(RunStore.RunStore, { ...store, append })
          )
          const isOver = stored < at
          for (let times = 0; times < 8; times++) {
            const { reason, status, unknown } = yield* summary(runId)
            if (status === "completed") break
            expect(["cancelled", "unknown_outcome"], `${at}`).toContain(reason)
            for (const lost of unknown) {
              unknowns++
              yield* Agent.resolve(lost, times % 2 === 0 ? Agent.happened("it was paid") : Agent.didNotHappen)
            }
            yield* Effect.exit(Agent.resume(top, runId))
          }
          expect(early, `cancelled after event ${at}`).toEqual([])
          expect((yield* summary(runId)).status, `cancelled after event ${at}`).toBe("completed")
          expect(yield* store.list({ status: "running" })).toEqual([])
          expect((yield* Audit.run(runId)).findings, `cancelled after event ${at}`).toEqual([])
          if (isOver) break
        }
        expect(unknowns).toBeGreaterThan(0)
      }
    )
  }
})

describe("a child that waits for a person while its parent is stopped", () => {
  /** One that asks a sub-agent, which waits for a decision, and may read something for ever beside that. */
  const waiting = (...beside: ReadonlyArray<Scripted.Answer>) => {
    const below = payer(model([call("sign", "s"), Scripted.text("signed")], "payer"))
    const ask = Agent.asTool(below.agent, { name: "ask", description: "Asks." })
    const tools = Toolkit.make(ask.tool.annotate(Tool.Readonly, true), reader("read"))
    const handlers = Layer.merge(
      ask.layer,
      Toolkit.make(reader("read")).toLayer({ read: () => Effect.never })
    )
    const turn = Scripted.turn(Scripted.call("ask", { task: "go" }, { id: "c" }), ...beside)
    const bot = model([turn, Scripted.text("done")], "top")
    const agent = Agent.make("top", { toolkit: tools }).pipe(Agent.provide(Layer.merge(handlers, bot.layer)))
    return { agent, ran: below.ran }
  }

  for (const [when, beside] of [
    ["while something else runs in it", [call("read", "b")]],
    ["while nobody drives it", []]
  ] as const) {
    check(`is stopped with it, ${when}`, function* () {
      const { agent, ran } = waiting(...beside)
      const fiber = yield* Effect.forkChild(Effect.exit(Agent.run(agent, "go", { runId: "r" })))
      yield* settle
      expect(yield* summary("r/c")).toMatchObject({ status: "interrupted", reason: "approval" })
      yield* Agent.cancel("r", "enough")
      yield* Fiber.join(fiber)
      expect(yield* summary("r")).toMatchObject({ reason: "cancelled", detail: "enough" })
      expect(yield* summary("r/c")).toMatchObject({ reason: "cancelled", detail: "run r was stopped" })
      expect((yield* Audit.run("r")).findings).toEqual([])
      // It waits again once its parent goes on.
      yield* Agent.decide({ runId: "r/c", callId: "s" }, Agent.approve())
      const again = yield* Effect.forkChild(Effect.exit(Agent.resume(agent, "r")))
      yield* settle
      expect(yield* summary("r/c")).toMatchObject({ status: "completed" })
      expect(ran).toEqual(["sign"])
      yield* Fiber.interrupt(again)
    })
  }
})

describe("a child that was stopped with its parent, and whose own driver was dead by then", () => {
  check("goes on with its parent when that is resumed", function* () {
    const store = yield* RunStore.RunStore
    const below = Agent.make("leaf").pipe(
      Agent.provide(model([Scripted.text("dug"), Scripted.text("dug")], "leaf").layer)
    )
    const top = above("top", below)
    yield* Effect.exit(
      crashing(Agent.run(top.agent, "go", { runId: "r" }), {
        before: (event) => event.runId === "r/c" && event.type === "turn"
      })
    )
    // Longer than anybody waits for a driver that does not answer.
    const elsewhere = yield* Scope.make()
    yield* Effect.provideService(store.lease("r/c"), Scope.Scope, elsewhere)
    yield* withTime(Agent.cancel("r", "enough"))
    yield* Scope.close(elsewhere, Exit.void)
    expect(yield* summary("r")).toMatchObject({ reason: "cancelled" })
    expect(yield* summary("r/c")).toMatchObject({ status: "running" })

    const { exit } = yield* resume(top.agent)
    expect(resultOf(expectTag(exit, "Completed"), "c")).toMatchObject({ ok: true, content: "dug" })
  })
})

describe("a child that was stopped with its parent, and then by its id", () => {
  check("has ended, and its parent is told so when that is resumed", function* () {
    const { agent, ran, until } = payer(model([call("read", "p"), Scripted.text("read")], "payer"))
    const top = above("top", agent)
    const running = yield* until(Agent.run(top.agent, "go", { runId: "r" }))
    yield* Agent.cancel("r", "enough")
    yield* Fiber.join(running)
    yield* Agent.cancel("r/c", "never again")
    const { exit } = yield* resume(top.agent)
    const { content, ok } = resultOf(expectTag(exit, "Completed"), "c")
    expect(ok).toBe(false)
    expect(content).toContain("never again")
    expect(yield* summary("r/c")).toMatchObject({ reason: "cancelled", detail: "never again" })
    expect(ran).toEqual(["read"])
  })
})
