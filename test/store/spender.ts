/**
 * Another process on the same pool. Waits for a line, then uses up what it can get, and says what it got: `call KEY` for
 * each tool call, `spent KEY` for each cent. With `doomed` it first holds half a dollar that it never settles.
 *
 * `node spender.ts DATABASE NAME [doomed]`, where the database is a file or a URL.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { BudgetPool } from "../../src/store/BudgetPool.ts"
import * as NodeSqlite from "../../src/store/NodeSqlite.ts"
import * as Postgres from "../../src/store/Postgres.ts"
import * as SqlBudgetPool from "../../src/store/SqlBudgetPool.ts"

const [database = "", name = "", doomed] = process.argv.slice(2)

const say = (line: string) => Effect.sync(() => process.stdout.write(`${line}\n`))

const told = Effect.callback<void>((resume) => {
  process.stdin.once("data", () => resume(Effect.void))
})

const purpose = "investigate"
const fibers = [0, 1, 2, 3]

const program = Effect.gen(function* () {
  const pool = yield* BudgetPool

  const caller = Effect.fnUntraced(function* (fiber: number) {
    for (let i = 0; ; i++) {
      const key = `${name}/${fiber}/${i}`
      const granted = yield* pool.claimCall({ key, purpose }).pipe(
        Effect.as(true),
        Effect.catchTag("ClaimRefused", () => Effect.succeed(false))
      )
      if (!granted) return
      yield* say(`call ${key}`)
    }
  })

  const spender = Effect.fnUntraced(function* (fiber: number) {
    for (let i = 0; ; i++) {
      const key = `${name}/${fiber}/${i}`
      const granted = yield* Effect.scoped(
        Effect.gen(function* () {
          yield* pool.hold({ key, purpose, usd: 0.01, tokens: 10 })
          yield* pool.settle({ key, usd: 0.01, tokens: 7 })
        })
      ).pipe(
        Effect.as(true),
        Effect.catchTag("ClaimRefused", () => Effect.succeed(false))
      )
      if (granted) yield* say(`spent ${key}`)
      else if ((yield* pool.status).held.turns === 0) return
      else yield* Effect.sleep("100 millis")
    }
  })

  yield* say("ready")
  yield* told
  if (doomed !== undefined) {
    for (const fiber of fibers) {
      yield* pool.hold({ key: `${name}/lost/${fiber}`, purpose, usd: 0.125, tokens: 0 })
    }
    yield* say("holding")
    yield* told
  }
  yield* Effect.forEach([...fibers.map(caller), ...fibers.map(spender)], (loop) => loop, {
    concurrency: "unbounded",
    discard: true
  })
  yield* Effect.sync(() => process.stdin.destroy())
})

const client = /^postgres:/.test(database)
  ? Postgres.layer({ url: database })
  : NodeSqlite.layer({ filename: database, busyTimeout: "60 seconds" })

await Effect.runPromise(
  Effect.scoped(program).pipe(
    Effect.provide(
      SqlBudgetPool.layer("team-a", { toolCalls: 1000, usd: 1 }, { lease: "2 seconds" }).pipe(
        Layer.provide(client)
      )
    )
  )
)
