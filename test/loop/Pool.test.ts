import { describe, expect } from "@effect/vitest"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Model from "effect/ai/Model"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/testing/TestClock"
import {
  Agent,
  type Limits,
  PriceBook,
  RequestParams,
  type RunEvent,
  RunState,
  RunStore
} from "../../src/index.ts"
import * as Scripted from "../../src/provider/Scripted.ts"
import * as Tokens from "../../src/provider/Tokens.ts"
import * as BudgetPool from "../../src/store/BudgetPool.ts"
import * as MemoryBudgetPool from "../../src/store/MemoryBudgetPool.ts"
import * as Audit from "../../src/testing/Audit.ts"
import { ToolPolicy } from "../../src/tool/index.ts"
import {
  check,
  crashing,
  expectTag,
  finish,
  guarded,
  journal,
  model,
  of,
  reader,
  results,
  settle,
  usage,
  withTime
} from "./support.ts"

const Prices = PriceBook.layer({ bot: { input: 2, output: 12 } })
/** Ten tokens in and five out. */
const perTurn = 0.00008

const Note = Tool.make("note", { parameters: Schema.Struct({ q: Schema.String }), success: Schema.String })
  .annotate(Tool.Readonly, true)
  .annotate(ToolPolicy.Purpose, "handoff")
const tools = Toolkit.make(reader("read"), Note)

/** The tools, a script and its price; `ran` is what was executed. */
const world = (script: Parameters<typeof Scripted.layer>[0], ran: Array<string> = []) => {
  const saying = (name: string, q: string) =>
    Effect.as(
      Effect.sync(() => ran.push(`${name}${q}`)),
      q
    )
  const handlers = tools.toLayer({ read: ({ q }) => saying("", q), note: ({ q }) => saying("note ", q) })
  return Layer.mergeAll(handlers, Scripted.layer(script, { usage }), Prices)
}

const agentOf = (lines: ReadonlyArray<Scripted.Line>, ran?: Array<string>) =>
  Agent.make("bot", { toolkit: tools, policy: { repetition: "off" }, limits: { turns: 50 } }).pipe(
    Agent.provide(world(Scripted.make("bot", lines), ran))
  )

const reads = (n: number) =>
  Array.from({ length: n }, (_, i) => Scripted.call("read", { q: `${i}` }, { id: `c${i}` }))

const withPool =
  (limits: BudgetPool.PoolLimits) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>) =>
    Effect.provide(effect, MemoryBudgetPool.layer("team", limits))

/** A test with a pool of these limits. */
const pooled = (
  name: string,
  limits: BudgetPool.PoolLimits,
  body: () => Generator<
    Effect.Effect<unknown, unknown, RunStore.RunStore | BudgetPool.BudgetPool>,
    unknown,
    never
  >
): void =>
  check(name, function* () {
    yield* withPool(limits)(Effect.gen(body))
  })

const down = Effect.fail(
  new BudgetPool.BudgetPoolError({ pool: "team", kind: "unavailable", problem: "no connection" })
)

const status = Effect.flatMap(BudgetPool.BudgetPool, (pool) => pool.status)

describe("tool calls", () => {
  pooled(
    "runs of one pool together never run more calls than it has, and each is told in words",
    { toolCalls: 10 },
    function* () {
      const ran: Array<string> = []
      const runs = Array.from({ length: 6 }, (_, i) =>
        finish(Agent.run(agentOf([...reads(4), Scripted.text("done")], ran), "go", { runId: `r${i}` }))
      )
      const ends = yield* Effect.all(runs, { concurrency: "unbounded" })
      expect(ran.length).toBe(10)
      expect((yield* status).used.toolCalls).toBe(10)
      const refused = ends.flatMap(({ events }) => of(events, "tool_result")).filter((event) => event.short)
      expect(refused.length).toBeGreaterThan(0)
      for (const event of refused) {
        expect(event).toMatchObject({ disposition: "refused", short: "tool_calls" })
        expect(event.content).toContain("Not run")
      }
    }
  )

  pooled(
    "a model that was told and asks again is stopped, with the pool's name and numbers",
    { toolCalls: 2 },
    function* () {
      const { exit } = yield* finish(Agent.run(agentOf(reads(9)), "go", { runId: "r" }))
      const stopped = expectTag(exit, "BudgetExceeded")
      expect(stopped).toMatchObject({ resource: "tool_calls", used: 2, limit: 2 })
      expect(stopped.message).toContain("the budget pool team")
      expect(results(exit.run.messages).c2?.content).toContain("Not run")
    }
  )

  check("a run that it has stopped says so, and goes on as it is once there is room", function* () {
    const agent = agentOf([...reads(5), Scripted.text("done")])
    const stopped = expectTag(
      (yield* withPool({ toolCalls: 2 })(finish(Agent.run(agent, "go", { runId: "r" })))).exit,
      "BudgetExceeded"
    )
    expect(stopped.handoff.next).toEqual([
      { what: expect.stringContaining("the budget pool team"), api: 'Agent.resume(agent, "r")' }
    ])
    const { exit } = yield* withPool({ toolCalls: 9 })(finish(Agent.resume(agent, "r")))
    expect(expectTag(exit, "Completed").output).toBe("done")
  })

  pooled("its reserve is for handoff tools", { toolCalls: 3, reserve: { toolCalls: 2 } }, function* () {
    const ran: Array<string> = []
    const lines = [...reads(2), Scripted.call("note", { q: "found" }, { id: "n" }), Scripted.text("done")]
    const { exit } = yield* finish(Agent.run(agentOf(lines, ran), "go", { runId: "r" }))
    expectTag(exit, "BudgetExceeded")
    expect(exit.run.summary).toBe("done")
    expect(ran).toEqual(["0", "note found"])
  })

  pooled(
    "a repeated attempt after a crash is the same claim, and a taken-over run goes on",
    { toolCalls: 3 },
    function* () {
      const agent = agentOf([...reads(2), Scripted.text("done")])
      const dying = crashing(Effect.exit(Agent.run(agent, "go", { runId: "r" })), {
        before: (event) => event.type === "tool_start"
      })
      yield* dying
      const { exit } = yield* finish(Agent.resume(agent, "r"))
      expectTag(exit, "Completed")
      expect((yield* status).used.toolCalls).toBe(2)
    }
  )
})

describe("money and tokens", () => {
  pooled(
    "what runs spend adds up in the pool, to the nano-dollar",
    { usd: 1, tokens: 1_000_000 },
    function* () {
      const runs = Array.from({ length: 5 }, (_, i) =>
        finish(Agent.run(agentOf([...reads(3), Scripted.text("done")]), "go", { runId: `r${i}` }))
      )
      const ends = yield* Effect.all(runs, { concurrency: "unbounded" })
      const spent = ends.reduce((sum, { exit }) => sum + Math.round(exit.run.costUsd * 1e9), 0)
      expect(spent).toBe(20 * perTurn * 1e9)
      expect((yield* status).used).toEqual({ turns: 20, usd: spent / 1e9, tokens: 300, toolCalls: 15 })
      expect((yield* status).held).toMatchObject({ usd: 0, tokens: 0 })
    }
  )

  check("is passed by one turn for each model call at a time, and never in hold mode", function* () {
    const limits: BudgetPool.PoolLimits = { usd: perTurn * 3.5 }
    yield* withPool(limits)(
      Effect.gen(function* () {
        const { exit } = yield* finish(Agent.run(agentOf(reads(20)), "go", { runId: "r" }))
        expectTag(exit, "BudgetExceeded")
        expect(exit.run.costUsd).toBe(perTurn * 4)
      })
    )
    const hold: Limits.LimitsInput = { money: "hold", usd: 1 }
    yield* withPool({ usd: 0.01 })(
      Effect.gen(function* () {
        const agent = Agent.make("bot", { toolkit: tools, policy: { repetition: "off" }, limits: hold }).pipe(
          Agent.provide(
            Layer.mergeAll(
              tools.toLayer({ read: ({ q }) => Effect.succeed(q), note: ({ q }) => Effect.succeed(q) }),
              Scripted.layer(Scripted.make("bot", reads(40))),
              Prices,
              Layer.succeed(RequestParams.RequestParams, { maxOutputTokens: 40 })
            )
          )
        )
        const runs = Array.from({ length: 6 }, (_, i) => finish(Agent.run(agent, "go", { runId: `h${i}` })))
        const ends = yield* Effect.all(runs, { concurrency: "unbounded" })
        const total = ends.reduce((sum, { exit }) => sum + exit.run.costUsd, 0)
        expect(total).toBeLessThanOrEqual(0.01)
        expect((yield* status).used.usd).toBeCloseTo(total, 9)
      })
    )
  })

  pooled(
    "a reserve of the pool is for the handoff",
    { usd: perTurn * 5, reserve: { usd: perTurn * 2 } },
    function* () {
      const { events, exit } = yield* finish(Agent.run(agentOf(reads(20)), "go", { runId: "r" }))
      expectTag(exit, "BudgetExceeded")
      expect(of(events, "handoff").length).toBe(1)
      expect(of(events, "turn").length).toBe(5)
    }
  )

  pooled("a model call that a Stop cuts off counts at its estimate", { usd: 1 }, function* () {
    const agent = agentOf([...reads(1), Scripted.text("late", { latency: "1 hour" })])
    const fiber = yield* Effect.forkChild(Agent.run(agent, "go", { runId: "r" }), {
      startImmediately: true
    })
    yield* settle
    yield* TestClock.adjust("1 minute")
    yield* Fiber.interrupt(fiber)
    const events = yield* journal("r")
    expect((yield* status).used.usd).toBe(of(events, "run_stopped")[0]?.costUsd)
    expect((yield* status).used.turns).toBe(2)
  })

  pooled(
    "a model call that died with its process is settled when the run is taken up",
    { usd: 1 },
    function* () {
      const agent = agentOf([...reads(1), Scripted.text("done")])
      yield* crashing(Effect.exit(Agent.run(agent, "go", { runId: "r" })), {
        after: (event) => event.type === "turn_started" && event.turn === 2
      })
      const { exit } = yield* finish(Agent.resume(agent, "r"))
      expectTag(exit, "Completed")
      expect((yield* status).used.turns).toBe(exit.run.turns)
    }
  )

  pooled(
    "a run that is started again after it was deleted counts like any other",
    { usd: perTurn * 5, toolCalls: 3 },
    function* () {
      const store = yield* RunStore.RunStore
      const ran: Array<string> = []
      const agent = agentOf([...reads(1), Scripted.text("done")], ran)
      const again = Effect.gen(function* () {
        const { exit } = yield* finish(Agent.run(agent, "go", { runId: "r" }))
        yield* store.delete("r")
        yield* TestClock.adjust("1 second")
        return exit._tag
      })
      expect([yield* again, yield* again, yield* again, yield* again]).toEqual([
        ...["Completed", "Completed"],
        // Its second turn is not to be had.
        ...["BudgetExceeded", "BudgetExceeded"]
      ])
      expect(ran).toHaveLength(3)
      expect((yield* status).used).toMatchObject({ turns: 5, usd: perTurn * 5, toolCalls: 3 })
    }
  )

  for (const [what, crash] of [
    ["settled", { before: (event: RunEvent.RunEvent) => event.type === "tool_start" }],
    ["held", { after: (event: RunEvent.RunEvent) => event.type === "turn_started" }]
  ] as const)
    pooled(`what a build has ${what} that did not write its keys down counts once`, { usd: 1 }, function* () {
      const store = yield* RunStore.RunStore
      const pool = yield* BudgetPool.BudgetPool
      const oldKey = <A extends { readonly key: string }>(claim: A) => ({
        ...claim,
        key: claim.key.replace(/ \S+Z /, " ")
      })
      const keys: Array<string> = []
      const before = Layer.mergeAll(
        Layer.succeed(BudgetPool.BudgetPool, {
          ...pool,
          claimCall: (claim) => pool.claimCall(oldKey(claim)),
          hold: (claim) => {
            keys.push(oldKey(claim).key)
            return pool.hold(oldKey(claim))
          },
          settle: (spent) => pool.settle(oldKey(spent))
        }),
        Layer.succeed(RunStore.RunStore, {
          ...store,
          append: (append) => {
            const events = append.events.map((event) => {
              if (event.type !== "turn_started") return event
              const { key: _, ...rest } = event
              return rest
            })
            return store.append({ ...append, events })
          }
        })
      )
      const agent = agentOf([...reads(1), Scripted.text("done")])
      const dying = crashing(Effect.exit(Agent.run(agent, "go", { runId: "r" })), crash)
      yield* Effect.provide(dying, before)
      expect(keys).toEqual(["r model call 1"])
      const { exit } = yield* finish(Agent.resume(agent, "r"))
      expectTag(exit, "Completed")
      expect((yield* status).used).toMatchObject({ turns: exit.run.turns, usd: exit.run.costUsd })
    })

  pooled("a turn that a provider could not give counts when it is asked for anew", { usd: 1 }, function* () {
    let isDown = true
    const script = Scripted.make("bot", (turn) => (turn === 0 ? reads(1)[0] : Scripted.text("done")))
    const reply: typeof script.reply = (turn, transcript) =>
      turn === 1 && isDown ? Scripted.fail(500) : script.reply(turn, transcript)
    const agent = Agent.make("bot", { toolkit: tools }).pipe(Agent.provide(world({ ...script, reply })))
    const { exit } = yield* withTime(finish(Agent.run(agent, "go", { runId: "r" })))
    expectTag(exit, "ProviderUnavailable")
    isDown = false
    const { exit: end } = yield* finish(Agent.resume(agent, "r"))
    expectTag(end, "Completed")
    expect((yield* status).used).toMatchObject({ turns: 2, usd: end.run.costUsd })
  })

  pooled("a model call that breaks down counts as it does in the run", { usd: 1 }, function* () {
    const model = LanguageModel.make({
      generateText: () => Effect.die("broken"),
      streamText: () => Stream.die("broken")
    })
    const breaking = Agent.make("bot").pipe(
      Agent.provide(
        Layer.mergeAll(
          Layer.effect(LanguageModel.LanguageModel, model),
          Layer.succeed(Model.ModelName, "bot"),
          Prices
        )
      )
    )
    yield* crashing(Effect.exit(Agent.run(agentOf(reads(1)), "go", { runId: "r" })), {
      before: (event) => event.type === "turn_started" && event.turn === 2
    })
    const { exit } = yield* finish(Agent.resume(breaking, "r"))
    expectTag(exit, "RunFailed")
    expect(exit.run.turns).toBe(2)
    expect((yield* status).used).toMatchObject({ turns: 2, usd: exit.run.costUsd })
  })

  pooled("a Stop while a turn is being settled does not keep it from the pool", { usd: 1 }, function* () {
    const pool = yield* BudgetPool.BudgetPool
    const slow: BudgetPool.BudgetPool["Service"] = {
      ...pool,
      settle: (spent) => Effect.andThen(Effect.sleep("5 seconds"), pool.settle(spent))
    }
    const run = Agent.run(agentOf([Scripted.text("done")]), "go", { runId: "r" })
    const fiber = yield* Effect.forkChild(Effect.provideService(run, BudgetPool.BudgetPool, slow), {
      startImmediately: true
    })
    yield* settle
    yield* TestClock.adjust("1 second")
    yield* Effect.forkChild(Fiber.interrupt(fiber), { startImmediately: true })
    yield* settle
    yield* TestClock.adjust("10 seconds")
    yield* Fiber.await(fiber)
    const [stopped] = of(yield* journal("r"), "run_stopped")
    expect(stopped).toMatchObject({ turns: 1, costUsd: perTurn })
    expect((yield* status).used).toMatchObject({ turns: 1, usd: perTurn })
  })
})

describe("a pool is asked for nothing while something is not stored yet", () => {
  /** The pool of the surrounding test, with something done before each question. */
  const asking = (
    first: (what: "claimCall" | "hold" | "settle") => Effect.Effect<void, BudgetPool.BudgetPoolError>
  ) =>
    Layer.effect(
      BudgetPool.BudgetPool,
      Effect.map(BudgetPool.BudgetPool, (pool): BudgetPool.BudgetPool["Service"] => ({
        ...pool,
        claimCall: (claim) => Effect.andThen(first("claimCall"), pool.claimCall(claim)),
        hold: (hold) => Effect.andThen(first("hold"), pool.hold(hold)),
        settle: (spent) => Effect.andThen(first("settle"), pool.settle(spent))
      }))
    )
  const calls = (...ids: ReadonlyArray<string>) =>
    Scripted.turn(...ids.map((id) => Scripted.call("read", { q: id }, { id })))

  /** A model that fails once, after its first turn. `replies` is how often it was paid for. */
  const flaky = () => {
    const lines = [calls("a", "b"), calls("c"), Scripted.text("done")]
    const made = { replies: 0, down: true }
    const script = Scripted.make("bot", (turn) => {
      if (turn === 1 && made.down) {
        made.down = false
        return Scripted.fail(500)
      }
      made.replies++
      return lines[turn]
    })
    return { agent: Agent.make("bot", { toolkit: tools }).pipe(Agent.provide(world(script))), made }
  }

  /** What the pool has counted is what the run has. */
  const expectSame = Effect.fnUntraced(function* (runId: string, when?: string) {
    const { state } = yield* RunStore.load(runId)
    const { timeMs: _, ...used } = RunState.used(state)
    expect((yield* status).used, when).toEqual(used)
    expect((yield* status).held, when).toMatchObject({ turns: 0, usd: 0, tokens: 0 })
  })

  pooled("however long it takes, all that the run knows is stored", { usd: 1 }, function* () {
    const store = yield* RunStore.RunStore
    const asked: Array<string> = []
    const slow = asking((what) =>
      Effect.gen(function* () {
        const events = yield* Effect.orDie(store.read("r"))
        asked.push(`${what} after ${events.at(-1)?.type}`)
        yield* Effect.sleep("5 seconds")
      })
    )
    yield* withTime(Effect.provide(Agent.run(flaky().agent, "go", { runId: "r" }), slow))
    expect(asked).toEqual([
      "hold after run_started",
      "settle after turn",
      "claimCall after turn",
      "claimCall after turn",
      "hold after tool_result",
      "settle after turn_failed",
      "hold after turn_failed",
      "settle after turn",
      "claimCall after turn",
      "hold after tool_result",
      "settle after turn"
    ])
    yield* expectSame("r")
  })

  check("whenever it fails, nothing is paid twice, and it agrees with the run in the end", function* () {
    for (let at = 1; ; at++) {
      const finished = yield* withPool({ usd: 1 })(
        Effect.gen(function* () {
          const runId = `r${at}`
          let asked = 0
          const { agent, made } = flaky()
          const failing = asking(() => Effect.suspend(() => (++asked === at ? down : Effect.void)))
          const first = yield* Effect.exit(
            withTime(Effect.provide(Agent.run(agent, "go", { runId }), failing))
          )
          if (first._tag === "Success") return true
          const { exit } = yield* withTime(finish(Agent.resume(agent, runId)))
          expectTag(exit, "Completed")
          expect(made.replies, `question ${at}`).toBe(3)
          yield* expectSame(runId, `question ${at}`)
          return false
        })
      )
      if (!finished) continue
      expect(at).toBeGreaterThan(10)
      break
    }
  })

  check("a crash between what is stored and what it is told leaves both right", function* () {
    for (let at = 1; ; at++) {
      const finished = yield* withPool({ usd: 1 })(
        Effect.gen(function* () {
          const runId = `r${at}`
          let settled = 0
          let dead = false
          const { agent } = flaky()
          const dying = asking((what) =>
            Effect.suspend(() => {
              dead ||= what === "settle" && ++settled === at
              return dead ? down : Effect.void
            })
          )
          const first = yield* crashing(
            Effect.exit(withTime(Effect.provide(Agent.run(agent, "go", { runId }), dying))),
            { before: () => dead }
          )
          if (first._tag === "Success") return true
          expect((yield* journal(runId)).at(-1)?.type).toMatch(/^turn(_failed)?$/)
          // A cancel tells the pool as well, and that it has been told does not count twice.
          if (at % 2 === 0) yield* Agent.cancel(runId, "enough")
          if (at % 2 === 0) yield* expectSame(runId, `settled ${at}`)
          const { exit } = yield* withTime(finish(Agent.resume(agent, runId)))
          expectTag(exit, "Completed")
          yield* expectSame(runId, `settled ${at}`)
          return false
        })
      )
      if (!finished) continue
      expect(at).toBe(5)
      break
    }
  })
})

check("without a pool a turn with a call is three appends", function* () {
  const store = yield* RunStore.RunStore
  const appends: Array<ReadonlyArray<string>> = []
  const watched: RunStore.RunStore["Service"] = {
    ...store,
    append: (append) => {
      appends.push(append.events.map(({ type }) => type))
      return store.append(append)
    }
  }
  const run = Agent.run(agentOf([...reads(2), Scripted.text("done")]), "go", { runId: "r" })
  yield* Effect.provideService(run, RunStore.RunStore, watched)
  const turn = [["turn", "tool_start"], ["tool_result"], ["turn_started"]]
  expect(appends).toEqual([["run_started", "turn_started"], ...turn, ...turn, ["turn", "run_stopped"]])
})

check(
  "a pool that cannot be reached grants nothing: the run stops as its store would, and goes on later",
  function* () {
    const ran: Array<string> = []
    const agent = agentOf([...reads(1), Scripted.text("done")], ran)
    const broken = Layer.succeed(BudgetPool.BudgetPool, {
      pool: "team",
      claimCall: () => down,
      hold: () => Effect.void,
      settle: () => Effect.void,
      status: down
    })
    const error = yield* Effect.provide(Effect.flip(Agent.run(agent, "go", { runId: "r" })), broken)
    expect(error).toMatchObject({ _tag: "RunStoreError", kind: "unavailable", runId: "r" })
    expect(ran).toEqual([])
    const { exit } = yield* withPool({ usd: 1 })(finish(Agent.resume(agent, "r")))
    expectTag(exit, "Completed")
    expect(ran).toEqual(["0"])
  }
)

for (const what of ["claimCall", "hold", "settle"] as const) {
  check(
    `a pool whose ${what} interrupts itself has stopped nobody: the run stops as its store would`,
    function* () {
      const agent = agentOf([...reads(1), Scripted.text("done")])
      const broken = Layer.succeed(BudgetPool.BudgetPool, {
        pool: "team",
        claimCall: () => Effect.void,
        hold: () => Effect.void,
        settle: () => Effect.void,
        status: down,
        [what]: () => Effect.interrupt
      })
      const error = yield* Effect.provide(Effect.flip(Agent.run(agent, "go", { runId: "r" })), broken)
      expect(error).toMatchObject({ _tag: "RunStoreError", kind: "unavailable", runId: "r" })
      expect(of(yield* journal("r"), "run_stopped")).toEqual([])
      const { exit } = yield* withPool({ usd: 1 })(finish(Agent.resume(agent, "r")))
      expectTag(exit, "Completed")
    }
  )
}

describe("a run that spends from a pool, where there is none", () => {
  const agent = (ran?: Array<string>) => agentOf([...reads(2), Scripted.text("done")], ran)
  type Step = Effect.Effect<unknown, unknown, RunStore.RunStore>
  const killed = (type: RunEvent.RunEvent["type"]): Step =>
    Effect.exit(
      crashing(Agent.run(agent(), "go", { runId: "r" }), { before: (event) => event.type === type })
    )

  const stages: ReadonlyArray<readonly [name: string, until: Step]> = [
    ["has only been stored", Agent.create(agent(), "go", { runId: "r" })],
    ["was killed in its first model call", killed("turn")],
    ["was killed in a tool call", killed("tool_result")],
    ["has stopped at a limit", Effect.exit(Agent.run(agent(), "go", { runId: "r", limits: { turns: 1 } }))]
  ]
  for (const [name, until] of stages) {
    check(`and ${name}, is refused before it spends anything, and goes on with any pool`, function* () {
      yield* withPool({ usd: 1 })(until)
      const before = yield* journal("r")
      const ran: Array<string> = []
      const limits = { turns: 9 }
      for (const taken of [
        Agent.resume(agent(ran), "r", { limits }),
        Agent.run(agent(ran), "go", { runId: "r", limits })
      ]) {
        const refused = yield* Effect.flip(taken)
        expect(refused).toMatchObject({ _tag: "NoBudgetPool", runId: "r", pool: "team" })
        expect(refused.message).toContain("provide a BudgetPool, that one or another")
      }
      expect(ran).toEqual([])
      expect(yield* journal("r")).toEqual(before)
      const july = MemoryBudgetPool.layer("july", { usd: 1 })
      const used = Effect.gen(function* () {
        expectTag((yield* finish(Agent.resume(agent(ran), "r", { limits }))).exit, "Completed")
        return (yield* status).used
      })
      expect((yield* Effect.provide(used, july)).turns).toBeGreaterThan(0)
    })
  }
})

describe("a sub-agent with a shared budget of its own that cannot be had", () => {
  type Pool = Layer.Layer<BudgetPool.BudgetPool, BudgetPool.BudgetPoolError>
  const signing = Toolkit.make(guarded("sign"))

  /** As many levels of agents, each asking the one below it; the last one signs, and spends from this pool, if it has one. */
  const family = (levels: number, pool: Pool | undefined) => {
    const bot = model([Scripted.call("sign", { q: "x" }, { id: "s" }), Scripted.text("signed")], "bot")
    const own = pool ?? Layer.empty
    const last: Agent.Agent<string, BudgetPool.BudgetPoolError, RunStore.RunStore> = Agent.make("signer", {
      toolkit: signing
    }).pipe(
      Agent.provide(signing.toLayer({ sign: ({ q }) => Effect.succeed(q) })),
      Agent.provide(Layer.merge(bot.layer, own))
    )
    const asking = (below: Agent.Agent<string, unknown, RunStore.RunStore>, name: string) => {
      const ask = Agent.asTool(below, { name: "ask", description: "Asks." })
      const lines = [Scripted.call("ask", { task: "sign" }, { id: "c" }), Scripted.text("done")]
      return Agent.make(name, { toolkit: Toolkit.make(ask.tool) }).pipe(
        Agent.provide(Layer.merge(ask.layer, Scripted.layer(Scripted.make(name, lines), { usage })))
      )
    }
    const second = asking(last, "a1")
    return { bot, top: levels === 3 ? asking(second, "a0") : second }
  }

  const unmade: Pool = Layer.effect(BudgetPool.BudgetPool, down)
  const silent = (pool: BudgetPool.BudgetPool["Service"]): Pool =>
    Layer.succeed(BudgetPool.BudgetPool, { ...pool, status: down, hold: () => down, claimCall: () => down })
  const stuck = { _tag: "RunStoreError", kind: "unavailable", problem: expect.stringContaining("team") }
  const missing = { _tag: "NoBudgetPool", pool: "team" }

  for (const levels of [2, 3]) {
    for (const [when, starts] of [
      ["when it starts", true],
      ["when it is taken up", false]
    ] as const) {
      for (const [name, broken, problem] of [
        ["that cannot be made", () => unmade, stuck],
        ["that grants nothing", silent, stuck],
        ["that is not there", () => undefined, missing]
      ] as const) {
        // Without a pool a run may start: it spends from none.
        if (starts && problem === missing) continue
        check(
          `${levels} levels, one ${name} ${when}: stops the runs above, ends none of them, and they go on`,
          function* () {
            const team = yield* Layer.build(MemoryBudgetPool.layer("team", { turns: 9 }))
            const pool = Context.get(team, BudgetPool.BudgetPool)
            const whole = family(levels, Layer.succeed(BudgetPool.BudgetPool, pool))
            const { bot, top } = family(levels, broken(pool))
            const sign = Effect.gen(function* () {
              const { exit } = yield* finish(Agent.run(whole.top, "go", { runId: "r" }))
              yield* Agent.decide(expectTag(exit, "ApprovalRequired").calls[0], Agent.approve())
            })
            if (!starts) yield* sign
            const stops = of(starts ? [] : yield* journal("r"), "run_stopped")
            for (let times = 0; times < 2; times++) {
              expect(yield* Effect.flip(Agent.run(top, "go", { runId: "r" }))).toMatchObject(problem)
              const events = yield* journal("r")
              expect(of(events, "run_stopped")).toEqual(stops)
              expect(of(events, "turn")).toHaveLength(1)
              const settled = of(events, "tool_result").filter(
                ({ disposition }) => disposition !== "cancelled"
              )
              expect(settled).toEqual([])
              expect((yield* Audit.run("r")).findings).toEqual([])
            }
            expect(bot.requests).toEqual([])
            if (starts) yield* sign
            const { exit } = yield* finish(Agent.resume(whole.top, "r"))
            expect(expectTag(exit, "Completed").output).toBe("done")
            expect(results(exit.run.messages).c).toMatchObject({ ok: true })
            expect((yield* pool.status).used.turns).toBe(2)
            expect(whole.bot.requests).toHaveLength(2)
            expect(yield* RunStore.RunStore.use((store) => store.list({ status: "running" }))).toEqual([])
          }
        )
      }
    }
  }
})

describe("a usage that cannot be", () => {
  const impossible = [1e9 + 1, 1e15, Number.MAX_SAFE_INTEGER, 1e21, 1.5, -1]
  for (const tokens of impossible) {
    for (const [where, reported] of [
      ["prompt", { promptTokens: tokens, completionTokens: 5 }],
      ["completion", { promptTokens: 10, completionTokens: tokens }],
      ["both", { promptTokens: tokens, completionTokens: tokens }]
    ] as const) {
      check(`of ${tokens} tokens (${where}) is counted here, in the run and in the pool`, function* () {
        yield* Tokens.load
        const lines = [
          Scripted.call("read", { q: "x" }),
          Scripted.call("read", { q: "y" }),
          Scripted.text("done")
        ]
        const handlers = tools.toLayer({
          read: ({ q }) => Effect.succeed(q),
          note: ({ q }) => Effect.succeed(q)
        })
        const bot = Scripted.layer(Scripted.make("bot", lines), { usage: reported })
        const agent = Agent.make("a", { toolkit: tools }).pipe(
          Agent.provide(Layer.mergeAll(handlers, bot, Prices))
        )
        const used = Effect.gen(function* () {
          const { events, exit } = yield* withTime(finish(Agent.run(agent, "go", { runId: "r" })))
          const { run } = expectTag(exit, "Completed")
          expect(of(events, "turn").map(({ counted }) => counted)).toEqual([true, true, true])
          expect(RunState.totals(run).tokens).toBeLessThan(10_000)
          expect((yield* status).used.tokens).toBe(RunState.totals(run).tokens)
        })
        yield* Effect.provide(used, MemoryBudgetPool.layer("team", { turns: 9 }))
      })
    }
  }
})
