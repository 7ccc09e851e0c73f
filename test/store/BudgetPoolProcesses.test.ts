import { spawn } from "node:child_process"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { describe, expect, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import type * as SqlClient from "effect/sql/SqlClient"
import * as NodeSqlite from "../../src/store/NodeSqlite.ts"
import * as Postgres from "../../src/store/Postgres.ts"
import * as SqlBudgetPool from "../../src/store/SqlBudgetPool.ts"
import { amounts } from "./budgetPools.ts"
import { folder } from "./folders.ts"
import { describePostgres, url } from "./postgres.ts"

const script = fileURLToPath(new URL("./spender.ts", import.meta.url))

/** A process on the pool: what it has said so far, and how it is spoken to. */
const spender = Effect.fnUntraced(function* (...args: ReadonlyArray<string>) {
  const ended = yield* Deferred.make<void, string>()
  const lines: Array<string> = []
  let waiting: Array<() => void> = []
  const child = yield* Effect.acquireRelease(
    Effect.sync(() => spawn(process.execPath, ["--no-warnings", script, ...args])),
    (child) => Effect.sync(() => child.kill("SIGKILL"))
  )
  let rest = ""
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => {
    const [last = "", ...whole] = `${rest}${chunk}`.split("\n").toReversed()
    rest = last
    lines.push(...whole.toReversed())
    const woken = waiting
    waiting = []
    for (const wake of woken) wake()
  })
  let complaint = ""
  child.stderr.on("data", (chunk) => (complaint += chunk))
  child.on("close", (code, signal) => {
    const well = code === 0 || signal === "SIGKILL"
    Deferred.doneUnsafe(ended, well ? Effect.void : Effect.fail(complaint || `exit ${code}`))
  })
  const news = Effect.callback<void>((resume) => {
    waiting.push(() => resume(Effect.void))
  })
  const until = (holds: () => boolean): Effect.Effect<void, string> =>
    Effect.suspend(() =>
      holds() ? Effect.void : Effect.andThen(Effect.raceFirst(news, Deferred.await(ended)), until(holds))
    )
  const got = (what: "call" | "spent") => lines.filter((line) => line.startsWith(`${what} `))
  return {
    got,
    /** Waits until it has said this. */
    said: (line: string) => until(() => lines.includes(line)),
    /** Waits until it has claimed so many calls. */
    claimed: (count: number) => until(() => got("call").length >= count),
    go: Effect.sync(() => child.stdin.write("go\n")),
    kill: Effect.sync(() => child.kill("SIGKILL")),
    ended: Deferred.await(ended)
  }
})

const test = (
  name: string,
  database: Effect.Effect<string, never, Scope.Scope>,
  client: (database: string) => Layer.Layer<SqlClient.SqlClient>
) =>
  it.live(
    name,
    () =>
      Effect.gen(function* () {
        const at = yield* database
        const doomed = yield* spender(at, "doomed", "doomed")
        const others = yield* Effect.forEach(["one", "two", "three"], (other) => spender(at, other))
        const all = [doomed, ...others]
        yield* Effect.forEach(all, ({ said }) => said("ready"))
        yield* doomed.go
        yield* doomed.said("holding")
        yield* Effect.forEach(all, ({ go }) => go)
        yield* doomed.claimed(20)
        yield* doomed.kill
        yield* Effect.forEach(all, ({ ended }) => ended)

        const { held, used } = yield* SqlBudgetPool.make("team-a", { toolCalls: 1000, usd: 1 }).pipe(
          Effect.flatMap((pool) => pool.status),
          Effect.provide(client(at))
        )
        // The calls of the dead stay counted; its half dollar came back, and was spent by the others.
        expect(used).toEqual({ toolCalls: 1000, turns: 100, usd: 1, tokens: 700 })
        expect(held).toEqual(amounts({}))
        for (const [what, count] of [
          ["call", 1000],
          ["spent", 100]
        ] as const) {
          const got = all.flatMap((one) => one.got(what))
          expect(new Set(got).size).toBe(got.length)
          expect(got.length).toBeLessThanOrEqual(count)
          // What each of the dead's four fibers was granted last, it may not have had the time to tell.
          expect(got.length).toBeGreaterThanOrEqual(count - 4)
        }
        for (const one of all) expect(one.got("call").length).toBeGreaterThan(0)
      }).pipe(Effect.scoped),
    120_000
  )

describe("four processes on one pool, one of which is killed", () => {
  test(
    "in a SQLite file",
    Effect.map(folder, (path) => join(path, "budgets.db")),
    (filename) => NodeSqlite.layer({ filename }).pipe(Layer.orDie)
  )
  describePostgres("with a server", () => {
    test("on Postgres", url, (url) => Postgres.layer({ url }).pipe(Layer.orDie))
  })
})
