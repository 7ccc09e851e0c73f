import { describe, expect, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Result from "effect/Result"
import * as Scope from "effect/Scope"
import type { Purpose } from "../../src/run/Limits.ts"
import * as Money from "../../src/run/Money.ts"
import { BudgetPool, type Hold, type PoolLimits, type Status } from "../../src/store/BudgetPool.ts"
import * as MemoryBudgetPool from "../../src/store/MemoryBudgetPool.ts"
import * as NodeSqlite from "../../src/store/NodeSqlite.ts"
import * as SqlBudgetPool from "../../src/store/SqlBudgetPool.ts"
import { textOf } from "../../src/testing/conformance/Samples.ts"
import { amounts, describeDatabases, describePools } from "./budgetPools.ts"

type Pool = BudgetPool["Service"]

const calls = (pool: Pool, count: number, purpose: Purpose = "handoff") =>
  Effect.forEach(
    Array.from({ length: count }, (_, i) => i),
    (i) => pool.claimCall({ key: `used ${i}`, purpose }),
    { discard: true }
  )

/** What became of a claim: granted, or the resource that was short. */
const outcome = <A, E extends { readonly _tag: string }, R>(claim: Effect.Effect<A, E, R>) =>
  Effect.match(claim, {
    onSuccess: () => "granted",
    onFailure: (error) =>
      "exhausted" in error && typeof error.exhausted === "object" && error.exhausted !== null
        ? `refused: ${"resource" in error.exhausted ? error.exhausted.resource : ""}`
        : error._tag
  })

const hold = (key: string, some: Partial<Hold> = {}): Hold => ({
  key,
  purpose: "investigate",
  usd: 0,
  tokens: 0,
  ...some
})

const taken = ({ held, used }: Status) => ({
  turns: used.turns + held.turns,
  usd: Money.add(used.usd, held.usd),
  tokens: used.tokens + held.tokens
})

describePools((open) => {
  const test = (
    name: string,
    limits: PoolLimits,
    body: (pool: Pool) => Effect.Effect<void, unknown, Scope.Scope>,
    timeout?: number
  ) =>
    it.effect(
      name,
      () => Effect.provide(Effect.scoped(Effect.flatMap(BudgetPool, body)), open(limits)),
      timeout
    )

  test("keys that not every database can keep are refused, and claim nothing", {}, (pool) =>
    Effect.gen(function* () {
      for (const key of ["a\u0000", "a\ud800", "a".repeat(2_301)]) {
        const claims = [
          pool.claimCall({ key, purpose: "investigate" }),
          pool.hold(hold(key)),
          pool.settle({ key, usd: 0.01, tokens: 1 })
        ]
        for (const claim of claims) expect(yield* outcome(claim)).toBe("InvalidClaim")
      }
      expect(taken(yield* pool.status)).toEqual({ turns: 0, usd: 0, tokens: 0 })
    })
  )

  describe("tool calls: twelve, of which two are for the handoff", () => {
    const twelve = { toolCalls: 12, reserve: { toolCalls: 2 } }
    for (const [used, purpose, expected, count] of [
      [9, "investigate", "granted", 10],
      [10, "investigate", "refused: tool_calls", 10],
      [10, "handoff", "granted", 11],
      [11, "handoff", "granted", 12],
      [11, "investigate", "refused: tool_calls", 11],
      [12, "handoff", "refused: tool_calls", 12],
      [2, "investigate", "granted", 3],
      [0, "investigate", "granted", 1]
    ] as const) {
      test(`${used} used, ${purpose}: ${expected}`, twelve, (pool) =>
        Effect.gen(function* () {
          yield* calls(pool, used)
          expect(yield* outcome(pool.claimCall({ key: "one more", purpose }))).toBe(expected)
          const status = yield* pool.status
          expect(status.used).toEqual(amounts({ toolCalls: count }))
          expect(status.left).toEqual({ toolCalls: 12 - count })
        })
      )
    }

    test(
      "a refusal says what was short, how much of it was used, and for what it was claimed",
      twelve,
      (pool) =>
        Effect.gen(function* () {
          yield* calls(pool, 10)
          expect(yield* Effect.flip(pool.claimCall({ key: "a", purpose: "investigate" }))).toMatchObject({
            _tag: "ClaimRefused",
            purpose: "investigate",
            exhausted: { resource: "tool_calls", used: 10, limit: 12 }
          })
        })
    )

    test(
      "the same key is the same claim: it counts once, and is granted even when none is left",
      twelve,
      (pool) =>
        Effect.gen(function* () {
          yield* calls(pool, 12)
          for (const purpose of ["investigate", "handoff"] as const) {
            expect(yield* outcome(pool.claimCall({ key: "used 3", purpose }))).toBe("granted")
          }
          expect((yield* pool.status).used.toolCalls).toBe(12)
          expect(yield* outcome(pool.claimCall({ key: "used 12", purpose: "handoff" }))).toBe(
            "refused: tool_calls"
          )
        })
    )

    test("a claim that was refused has no key: it is granted to a handoff later", twelve, (pool) =>
      Effect.gen(function* () {
        yield* calls(pool, 10)
        expect(yield* outcome(pool.claimCall({ key: "a", purpose: "investigate" }))).toMatch(/refused/)
        expect(yield* outcome(pool.claimCall({ key: "a", purpose: "handoff" }))).toBe("granted")
        expect((yield* pool.status).used.toolCalls).toBe(11)
      })
    )

    test("any text is a key, and only the very same text is the same key", twelve, (pool) =>
      Effect.gen(function* () {
        const keys = ["", " ", "a", "A", "ä", "a/1", "a/1/2", "%", "_", "日本語 🐴", "'; DROP TABLE x; --"]
        for (const key of [...keys, ...keys]) yield* pool.claimCall({ key, purpose: "handoff" })
        expect((yield* pool.status).used.toolCalls).toBe(keys.length)
      })
    )

    test("a call and a turn of the same key are two things", twelve, (pool) =>
      Effect.gen(function* () {
        yield* pool.claimCall({ key: "a", purpose: "investigate" })
        yield* pool.hold(hold("a"))
        yield* pool.settle({ key: "a", usd: 0, tokens: 0 })
        yield* pool.claimCall({ key: "a", purpose: "investigate" })
        expect((yield* pool.status).used).toEqual(amounts({ toolCalls: 1, turns: 1 }))
      })
    )
  })

  test("without limits nothing is refused, and everything is counted", {}, (pool) =>
    Effect.gen(function* () {
      yield* calls(pool, 30, "investigate")
      yield* pool.hold(hold("a", { usd: 1000, tokens: 1_000_000_000 }))
      const status = yield* pool.status
      expect(status).toEqual({
        pool: "team-a",
        limits: {},
        used: amounts({ toolCalls: 30 }),
        held: amounts({ turns: 1, usd: 1000, tokens: 1_000_000_000 }),
        left: {}
      })
    })
  )

  test("a limit of nothing allows nothing", { toolCalls: 0, turns: 0 }, (pool) =>
    Effect.gen(function* () {
      expect(yield* outcome(pool.claimCall({ key: "a", purpose: "handoff" }))).toBe("refused: tool_calls")
      expect(yield* outcome(pool.hold(hold("a")))).toBe("refused: turns")
    })
  )

  describe("what a model call may cost is held before it is sent", () => {
    test("it fits to the very nano-dollar, and not one more", { usd: 1 }, (pool) =>
      Effect.gen(function* () {
        yield* pool.hold(hold("a", { usd: 0.3 }))
        yield* pool.hold(hold("b", { usd: 0.6 }))
        expect(yield* outcome(pool.hold(hold("c", { usd: 0.100000001 })))).toBe("refused: usd")
        expect((yield* pool.status).left.usd).toBe(0.1)
        expect(yield* outcome(pool.hold(hold("c", { usd: 0.1 })))).toBe("granted")
        expect(yield* pool.status).toMatchObject({ held: { usd: 1, turns: 3 }, left: { usd: 0 } })
        expect(yield* outcome(pool.hold(hold("d", { usd: 0 })))).toBe("refused: usd")
      })
    )

    test("tokens likewise", { tokens: 1000 }, (pool) =>
      Effect.gen(function* () {
        yield* pool.hold(hold("a", { tokens: 999 }))
        expect(yield* outcome(pool.hold(hold("b", { tokens: 2 })))).toBe("refused: tokens")
        expect(yield* outcome(pool.hold(hold("b", { tokens: 1 })))).toBe("granted")
        expect(yield* outcome(pool.hold(hold("c", { tokens: 0 })))).toBe("refused: tokens")
      })
    )

    test("a turn likewise", { turns: 2 }, (pool) =>
      Effect.gen(function* () {
        yield* pool.hold(hold("a"))
        yield* pool.settle({ key: "a", usd: 0, tokens: 0 })
        yield* pool.hold(hold("b"))
        expect(yield* outcome(pool.hold(hold("c")))).toBe("refused: turns")
        expect((yield* pool.status).left).toEqual({ turns: 0 })
      })
    )

    const reserved = { usd: 1, tokens: 1000, turns: 10, reserve: { usd: 0.1, tokens: 100, turns: 1 } }
    test("only a handoff may use the reserve", reserved, (pool) =>
      Effect.gen(function* () {
        expect(yield* outcome(pool.hold(hold("a", { usd: 0.900000001 })))).toBe("refused: usd")
        expect(yield* outcome(pool.hold(hold("a", { tokens: 901 })))).toBe("refused: tokens")
        yield* pool.hold(hold("a", { usd: 0.9, tokens: 900 }))
        expect(yield* outcome(pool.hold(hold("b")))).toBe("refused: usd")
        const rest = hold("b", { purpose: "handoff", usd: 0.1, tokens: 100 })
        expect(yield* outcome(pool.hold(rest))).toBe("granted")
        expect(yield* outcome(pool.hold(hold("c", { purpose: "handoff" })))).toBe("refused: usd")
      })
    )

    test("the last turns too", { turns: 3, reserve: { turns: 1 } }, (pool) =>
      Effect.gen(function* () {
        yield* pool.hold(hold("a"))
        yield* pool.hold(hold("b"))
        expect(yield* outcome(pool.hold(hold("c")))).toBe("refused: turns")
        expect(yield* outcome(pool.hold(hold("c", { purpose: "handoff" })))).toBe("granted")
      })
    )

    test(
      "no model is asked to investigate when only the reserve of tool calls is left",
      { toolCalls: 3, reserve: { toolCalls: 1 } },
      (pool) =>
        Effect.gen(function* () {
          yield* calls(pool, 2)
          expect(yield* outcome(pool.hold(hold("a")))).toBe("refused: tool_calls")
          expect(yield* outcome(pool.hold(hold("a", { purpose: "handoff" })))).toBe("granted")
        })
    )

    test(
      "without a reserve a model may still answer when the tool calls are used up",
      { toolCalls: 2 },
      (pool) =>
        Effect.gen(function* () {
          yield* calls(pool, 2)
          expect(yield* outcome(pool.hold(hold("a")))).toBe("granted")
        })
    )

    test("a refusal counts what others hold, and leaves nothing behind", { usd: 1 }, (pool) =>
      Effect.gen(function* () {
        yield* pool.hold(hold("a", { usd: 0.4 }))
        yield* pool.settle({ key: "a", usd: 0.2, tokens: 5 })
        yield* pool.hold(hold("b", { usd: 0.5 }))
        const before = yield* pool.status
        expect(yield* Effect.flip(pool.hold(hold("c", { usd: 0.4 })))).toMatchObject({
          _tag: "ClaimRefused",
          purpose: "investigate",
          exhausted: { resource: "usd", used: 0.7, limit: 1 }
        })
        expect(yield* pool.status).toEqual(before)
      })
    )

    test("the same key is the same hold, for as much as at first", { usd: 1 }, (pool) =>
      Effect.gen(function* () {
        yield* pool.hold(hold("a", { usd: 0.75, tokens: 10 }))
        yield* pool.hold(hold("a", { usd: 0.75, tokens: 10 }))
        yield* pool.hold(hold("a", { usd: 0.5, tokens: 20 }))
        expect((yield* pool.status).held).toEqual(amounts({ turns: 1, usd: 0.75, tokens: 10 }))
      })
    )

    test("it is given back when its scope closes, however that ends", { usd: 1 }, (pool) =>
      Effect.gen(function* () {
        const all = pool.hold(hold("a", { usd: 1 }))
        yield* Effect.scoped(all)
        expect((yield* pool.status).held).toEqual(amounts({}))
        yield* Effect.exit(Effect.scoped(Effect.andThen(all, Effect.die("broken"))))
        expect((yield* pool.status).held).toEqual(amounts({}))
        const holding = yield* Deferred.make<void>()
        const fiber = yield* Effect.forkChild(
          Effect.scoped(
            all.pipe(Effect.andThen(Deferred.succeed(holding, undefined)), Effect.andThen(Effect.never))
          )
        )
        yield* Deferred.await(holding)
        expect((yield* pool.status).held).toEqual(amounts({ turns: 1, usd: 1 }))
        yield* Fiber.interrupt(fiber)
        expect((yield* pool.status).held).toEqual(amounts({}))
        expect((yield* pool.status).used).toEqual(amounts({}))
        yield* all
      })
    )

    test("held again, it belongs to whoever asked last", { usd: 1 }, (pool) =>
      Effect.gen(function* () {
        const [first, second] = yield* Effect.all([Scope.make(), Scope.make()])
        yield* Scope.provide(pool.hold(hold("a", { usd: 1 })), first)
        yield* Scope.provide(pool.hold(hold("a", { usd: 1 })), second)
        yield* Scope.close(first, Exit.void)
        expect((yield* pool.status).held.usd).toBe(1)
        yield* Scope.close(second, Exit.void)
        expect((yield* pool.status).held.usd).toBe(0)
      })
    )
  })

  describe("what it has cost is counted when it is over", () => {
    test("in place of what was held", { usd: 1, tokens: 1000 }, (pool) =>
      Effect.gen(function* () {
        yield* pool.hold(hold("a", { usd: 0.8, tokens: 900 }))
        yield* pool.settle({ key: "a", usd: 0.1, tokens: 50 })
        expect(yield* pool.status).toMatchObject({
          used: { turns: 1, usd: 0.1, tokens: 50 },
          held: amounts({}),
          left: { usd: 0.9, tokens: 950 }
        })
        expect(yield* outcome(pool.hold(hold("b", { usd: 0.9 })))).toBe("granted")
      })
    )

    test(
      "more than was held is recorded, not hidden, and then nothing is left",
      { usd: 1, tokens: 100 },
      (pool) =>
        Effect.gen(function* () {
          yield* pool.hold(hold("a", { usd: 0.5, tokens: 50 }))
          yield* pool.settle({ key: "a", usd: 1.25, tokens: 150 })
          expect(yield* pool.status).toMatchObject({
            used: { usd: 1.25, tokens: 150 },
            left: { usd: 0, tokens: 0 }
          })
          expect(yield* outcome(pool.hold(hold("b", { purpose: "handoff" })))).toBe("refused: usd")
        })
    )

    test(
      "with nothing held each one that is under way may pass the limit, and no other begins",
      { usd: 1 },
      (pool) =>
        Effect.gen(function* () {
          for (const key of ["a", "b"]) yield* pool.hold(hold(key))
          for (const key of ["a", "b"]) yield* pool.settle({ key, usd: 0.999999999, tokens: 1 })
          expect((yield* pool.status).used.usd).toBe(1.999999998)
          expect(yield* outcome(pool.hold(hold("c")))).toBe("refused: usd")
        })
    )

    test("the same key counts once, and the first amount stands", {}, (pool) =>
      Effect.gen(function* () {
        yield* pool.hold(hold("a", { usd: 0.5 }))
        yield* pool.settle({ key: "a", usd: 0.25, tokens: 10 })
        yield* pool.settle({ key: "a", usd: 0.25, tokens: 10 })
        yield* pool.settle({ key: "a", usd: 7, tokens: 700 })
        expect((yield* pool.status).used).toEqual(amounts({ turns: 1, usd: 0.25, tokens: 10 }))
      })
    )

    test("also when nothing was held, or nothing is held any more", { usd: 1 }, (pool) =>
      Effect.gen(function* () {
        yield* pool.settle({ key: "a", usd: 0.25, tokens: 10 })
        yield* Effect.scoped(pool.hold(hold("b", { usd: 0.5 })))
        yield* pool.settle({ key: "b", usd: 0.25, tokens: 10 })
        expect(yield* pool.status).toMatchObject({
          used: { turns: 2, usd: 0.5, tokens: 20 },
          held: amounts({})
        })
      })
    )

    test("closing the scope gives back nothing of it", { usd: 1 }, (pool) =>
      Effect.gen(function* () {
        yield* Effect.scoped(
          Effect.andThen(pool.hold(hold("a", { usd: 1 })), pool.settle({ key: "a", usd: 1, tokens: 0 }))
        )
        expect((yield* pool.status).left.usd).toBe(0)
      })
    )

    test("a key that was settled holds nothing any more", { usd: 1 }, (pool) =>
      Effect.gen(function* () {
        yield* pool.settle({ key: "a", usd: 0.25, tokens: 10 })
        expect(yield* outcome(pool.hold(hold("a", { usd: 0.5 })))).toBe("granted")
        expect((yield* pool.status).held).toEqual(amounts({}))
      })
    )

    test("an attempt that failed is no turn, but costs what it has cost", { turns: 1 }, (pool) =>
      Effect.gen(function* () {
        yield* pool.hold(hold("a/1", { usd: 0.5 }))
        yield* pool.settle({ key: "a/1", usd: 0.125, tokens: 10, turns: 0 })
        expect((yield* pool.status).used).toEqual(amounts({ usd: 0.125, tokens: 10 }))
        expect(yield* outcome(pool.hold(hold("a/2")))).toBe("granted")
      })
    )

    test("sums carry no floating-point dust", { usd: 1 }, (pool) =>
      Effect.gen(function* () {
        for (let i = 0; i < 30; i++)
          yield* pool.settle({ key: `${i}`, usd: 0.000000001 + 0.1 * (i % 3), tokens: 0 })
        const { left, used } = yield* pool.status
        expect(used.usd).toBe(3.00000003)
        expect(left.usd).toBe(0)
      })
    )
  })

  describe("a claim that makes no sense is a typed error, and counts nothing", () => {
    for (const [name, wrong] of [
      ["a negative amount of money", { usd: -0.01 }],
      ["money that is no number", { usd: Number.NaN }],
      ["infinite money", { usd: Number.POSITIVE_INFINITY }],
      ["more money than can be counted", { usd: 1e10 }],
      ["negative tokens", { tokens: -1 }],
      ["half a token", { tokens: 0.5 }],
      ["tokens that are no number", { tokens: Number.NaN }]
    ] as const) {
      test(name, {}, (pool) =>
        Effect.gen(function* () {
          expect(yield* outcome(pool.hold(hold("a", wrong)))).toBe("InvalidClaim")
          expect(yield* outcome(pool.settle({ key: "a", usd: 0, tokens: 0, ...wrong }))).toBe("InvalidClaim")
          expect(yield* pool.status).toMatchObject({ used: amounts({}), held: amounts({}) })
        })
      )
    }

    test("an unknown purpose, also for a key that is known", { toolCalls: 1 }, (pool) =>
      Effect.gen(function* () {
        const purpose = "curiosity" as Purpose
        yield* pool.claimCall({ key: "a", purpose: "investigate" })
        expect(yield* outcome(pool.claimCall({ key: "a", purpose }))).toBe("InvalidClaim")
        expect(yield* outcome(pool.hold(hold("a", { purpose })))).toBe("InvalidClaim")
        expect((yield* pool.status).held).toEqual(amounts({}))
      })
    )

    test("half a turn", {}, (pool) =>
      Effect.gen(function* () {
        const turns = 0.5 as 0 | 1
        expect(yield* outcome(pool.settle({ key: "a", usd: 0, tokens: 0, turns }))).toBe("InvalidClaim")
      })
    )
  })

  describe("64 fibers on a thousand calls and one dollar", () => {
    const fibers = Array.from({ length: 64 }, (_, i) => i)

    test(
      "a thousand calls are granted, whoever repeats a claim, and not one more",
      { toolCalls: 1000 },
      (pool) =>
        Effect.gen(function* () {
          const granted = new Set<string>()
          const caller = (fiber: number) =>
            Effect.gen(function* () {
              for (let i = 0; ; i++) {
                const key = `${fiber}/${i}`
                const claim = Effect.result(pool.claimCall({ key, purpose: "investigate" }))
                // Two at once and one later with the same key, as after a lost answer.
                const results =
                  i % 10 === 0 ? yield* Effect.all([claim, claim], { concurrency: 2 }) : [yield* claim]
                if (i % 10 === 1) results.push(yield* claim)
                const tags = new Set(results.map((result) => result._tag))
                expect(tags.size).toBe(1)
                if (tags.has("Failure")) return
                granted.add(key)
              }
            })
          yield* Effect.forEach(fibers, caller, { concurrency: "unbounded", discard: true })
          expect(granted.size).toBe(1000)
          expect((yield* pool.status).used).toEqual(amounts({ toolCalls: 1000 }))
        }),
      120_000
    )

    test(
      "one dollar is held and spent to the last nano-dollar, and never passed",
      { usd: 1, reserve: { usd: 0.1 } },
      (pool) =>
        Effect.gen(function* () {
          let spent = 0
          let turns = 0
          const worst = 0.004
          const spender = (fiber: number) =>
            Effect.gen(function* () {
              for (let i = 0; ; i++) {
                const key = `${fiber}/${i}`
                const usd = [worst, 0.001234567, 0.003, 0][(fiber + i) % 4] ?? 0
                const result = yield* Effect.result(
                  Effect.scoped(
                    Effect.gen(function* () {
                      yield* pool.hold(hold(key, { usd: worst }))
                      if (i % 8 === 0) {
                        const total = taken(yield* pool.status).usd
                        expect(total).toBeLessThanOrEqual(0.9)
                        expect(total).toBeGreaterThanOrEqual(worst)
                      }
                      yield* Effect.yieldNow
                      yield* pool.settle({ key, usd, tokens: 1 })
                    })
                  )
                )
                if (Result.isFailure(result)) {
                  expect(result.failure).toMatchObject({
                    _tag: "ClaimRefused",
                    exhausted: { resource: "usd" }
                  })
                  return
                }
                spent += Money.toNanos(usd)
                turns += 1
              }
            })
          yield* Effect.forEach(fibers, spender, { concurrency: "unbounded", discard: true })
          const { held, used } = yield* pool.status
          expect(held).toEqual(amounts({}))
          expect(used).toEqual({ turns, usd: Money.fromNanos(spent), tokens: turns, toolCalls: 0 })
          expect(used.usd).toBeLessThanOrEqual(0.9)
          // Whoever was refused was refused for the sake of others, so the rest is still there for who asks alone.
          const rest = Money.subtract(0.9, used.usd)
          expect(yield* outcome(pool.hold(hold("rest", { usd: Money.add(rest, 0.000000001) })))).toBe(
            "refused: usd"
          )
          if (rest > 0) expect(yield* outcome(pool.hold(hold("rest", { usd: rest })))).toBe("granted")
        }),
      120_000
    )
  })
})

describe("limits that are written wrongly", () => {
  const written = (json: string): PoolLimits => JSON.parse(json)

  it.effect.each<{ readonly limits: PoolLimits; readonly problem: RegExp }>([
    { limits: { toolCalls: -1 }, problem: /toolCalls is -1/ },
    { limits: { usd: Number.NaN }, problem: /usd is NaN/ },
    { limits: { tokens: 1.5 }, problem: /tokens is 1.5/ },
    { limits: { turns: 3, reserve: { turns: 4 } }, problem: /reserve\.turns is 4, more than the limit of 3/ },
    { limits: { reserve: { usd: 1 } }, problem: /reserve\.usd is 1, more than the limit of none/ },
    {
      limits: written('{ "USD": 5 }'),
      problem: /no limit "USD": there are turns, usd, tokens, toolCalls, reserve/
    },
    { limits: written('{ "tool_calls": 10 }'), problem: /no limit "tool_calls"/ },
    { limits: written('{ "usd": 1, "time": "1 hour" }'), problem: /no limit "time"/ },
    { limits: written('{ "usd": 1, "deadline": "2030-01-31" }'), problem: /no limit "deadline"/ },
    { limits: written('{ "usd": 1, "money": "hold" }'), problem: /no limit "money"/ },
    { limits: written('{ "usd": 1, "reserve": { "USD": 1 } }'), problem: /no reserve of "USD"/ },
    { limits: written('{ "usd": 1, "reserve": { "time": 1 } }'), problem: /no reserve of "time"/ },
    { limits: written('{ "usd": 1, "reserve": null }'), problem: /reserve is null, and must be an object/ },
    { limits: written("null"), problem: /limits is null, and must be an object/ },
    { limits: written("5"), problem: /limits is 5, and must be an object/ }
  ])("$limits", ({ limits, problem }) =>
    Effect.gen(function* () {
      const inSql = Effect.provide(
        SqlBudgetPool.make("team-a", limits),
        NodeSqlite.layer({ filename: ":memory:" })
      )
      for (const made of [MemoryBudgetPool.make("team-a", limits), inSql]) {
        const failure = yield* Effect.flip(made)
        expect(failure._tag).toBe("InvalidLimits")
        expect(failure.message).toMatch(problem)
      }
    })
  )

  it.effect("count wherever an object has them", () =>
    Effect.gen(function* () {
      class Written {
        get usd() {
          return 1
        }
        reserve = Object.create({ usd: 0.5 })
      }
      const pool = yield* MemoryBudgetPool.make("team-a", new Written())
      expect((yield* pool.status).limits).toEqual({ usd: 1, reserve: { usd: 0.5 } })
    })
  )

  describeDatabases((database) =>
    it.effect("also those of a pool whose name not every database can keep", () =>
      Effect.gen(function* () {
        const client = yield* database
        for (const name of ["a\u0000", "a\ud800", "a".repeat(257)]) {
          const inSql = Effect.provide(SqlBudgetPool.make(name, { usd: 1 }), client)
          for (const made of [MemoryBudgetPool.make(name, { usd: 1 }), inSql]) {
            const failure = yield* Effect.flip(made)
            expect(failure._tag).toBe("InvalidLimits")
            expect(failure.message).toContain(JSON.stringify(name.slice(0, 40)))
          }
        }
      })
    )
  )

  describeDatabases((database) =>
    it.effect("a name and keys as long as may be are kept", () =>
      Effect.gen(function* () {
        const pool = yield* SqlBudgetPool.make(textOf(256), { usd: 1, toolCalls: 1 })
        const key = textOf(2_300)
        yield* pool.claimCall({ key, purpose: "investigate" })
        yield* pool.hold(hold(key))
        yield* pool.settle({ key, usd: 0.01, tokens: 1 })
        expect((yield* pool.status).used).toEqual({ turns: 1, usd: 0.01, tokens: 1, toolCalls: 1 })
      }).pipe(Effect.scoped, (effect) => Effect.flatMap(database, (client) => Effect.provide(effect, client)))
    )
  )
})
