/**
 * What the stores cost: each turn as a run grows, opening a long run, asking about one, a page of a list, and the disk.
 */
import * as Effect from "effect/Effect"
import * as MemoryRunStore from "../../src/store/MemoryRunStore.ts"
import type { RunStore } from "../../src/store/RunStore.ts"
import * as Databases from "./databases.ts"
import * as Durability from "./durability.ts"
import * as Growth from "./growth.ts"
import { pages } from "./listing.ts"
import * as Workload from "./workload.ts"

/** One thing that was measured; `allowed` in the same unit, if there is a limit. */
export interface Figure {
  readonly what: string
  readonly measured: string
  readonly allowed?: string
  readonly within?: boolean
}

const runs = 100_000

const ms = (value: number) => `${value.toFixed(value < 10 ? 2 : 0)} ms`

const limited = (what: string, measured: number, allowed: number): Figure => ({
  what,
  measured: ms(measured),
  allowed: ms(allowed),
  within: measured <= allowed
})

const growth = Effect.fnUntraced(function* (name: string, store: RunStore["Service"]) {
  const figures: Array<Figure> = []
  const measured = yield* Effect.forEach([100, 1_000, 5_000], (turns) => Growth.perTurn(store, turns))
  for (const { bytes, ms: each, turns } of measured)
    figures.push({ what: `${name}, ${turns} turns: a turn`, measured: `${ms(each)}, ${bytes.toFixed(0)} B` })
  const [short, , long] = measured
  if (short !== undefined && long !== undefined) {
    const ratio = long.bytes / short.bytes
    figures.push({
      what: `${name}: bytes per turn at 5,000 turns over 100`,
      measured: `${ratio.toFixed(2)} times`,
      allowed: "1.1 times",
      within: ratio <= 1.1
    })
  }
  const { first, later } = yield* Growth.opening(store, 5_000)
  figures.push(limited(`${name}: opening a run of 5,000 turns`, first, 200))
  figures.push({ what: `${name}: the same once more`, measured: ms(later) })
  const few = yield* Growth.questions(store, 5)
  const many = yield* Growth.questions(store, 5_000)
  for (const question of ["status", "list", "decide"] as const) {
    figures.push({
      what: `${name}: ${question}, for 5 and for 5,000 turns`,
      measured: `${ms(few[question])}, ${ms(many[question])}`,
      allowed: "the same",
      // What is measured is far less than what a busy machine adds.
      within: many[question] <= few[question] * 2 + 0.5
    })
  }
  return figures
})

const listed = Effect.fnUntraced(function* (database: Databases.Database) {
  const figures: Array<Figure> = []
  for (const { list, ms: page } of yield* pages(database, runs))
    figures.push(limited(`${database.name}: a page of ${runs.toLocaleString("en")} runs, ${list}`, page, 50))
  return figures
})

/** Everything, on SQLite and, if a server answers, on Postgres. */
export const figures: Effect.Effect<ReadonlyArray<Figure>, unknown> = Effect.gen(function* () {
  const all: Array<Figure> = []
  const memory = yield* MemoryRunStore.make
  all.push({ what: "raw: write and fdatasync", measured: ms(Durability.fsync()) })
  all.push({ what: "raw: the three transactions of a turn, by hand", measured: ms(Durability.byHand()) })
  const { store } = yield* Databases.sqlite
  const reading = yield* Effect.promise(() => Durability.over(store, memory, Workload.analyst))
  const writing = yield* Effect.promise(() => Durability.over(store, memory, Workload.writer))
  all.push(limited("SQLite over memory: a turn that reads", reading.turn, 0.25))
  all.push(limited("SQLite over memory: a turn that writes", writing.turn, 0.6))
  all.push({ what: "SQLite over memory: the beginning and the end of a run", measured: ms(reading.run) })
  all.push(...(yield* growth("memory", memory)))
  all.push(...(yield* growth("SQLite", store)))
  all.push(...(yield* Effect.scoped(Effect.flatMap(Databases.sqlite, listed))))
  if (!(yield* Databases.postgresAnswers)) {
    all.push({ what: "Postgres", measured: "no server" })
    return all
  }
  all.push(
    ...(yield* Effect.scoped(Effect.flatMap(Databases.postgres, ({ store }) => growth("Postgres", store))))
  )
  all.push(...(yield* Effect.scoped(Effect.flatMap(Databases.postgres, listed))))
  return all
}).pipe(Effect.scoped)
