/** What a turn costs on SQLite over a turn in memory, and what the machine's own fsync costs. */
import { closeSync, fdatasyncSync, mkdtempSync, openSync, rmSync, writeSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { Agent } from "../../src/index.ts"
import { RunStore } from "../../src/store/RunStore.ts"
import { median } from "./measure.ts"
import * as Workload from "./workload.ts"

type Store = RunStore["Service"]

const rounds = 45
const short = 20
const long = 120

/** Milliseconds of the median append of 500 bytes to a file that is then brought to the disk. */
export const fsync = (): number => {
  const folder = mkdtempSync(join(tmpdir(), "checkrein-bench-"))
  const file = openSync(join(folder, "file"), "a")
  try {
    const page = Buffer.alloc(500)
    const times = Array.from({ length: 200 }, () => {
      const start = performance.now()
      writeSync(file, page)
      fdatasyncSync(file)
      return performance.now() - start
    })
    return median(times)
  } finally {
    closeSync(file)
    rmSync(folder, { recursive: true })
  }
}

/** Milliseconds that SQLite itself takes for the three transactions of a turn, written by hand: what no store can save. */
export const byHand = (): number => {
  const folder = mkdtempSync(join(tmpdir(), "checkrein-bench-"))
  const db = new DatabaseSync(join(folder, "runs.db"))
  try {
    db.exec("PRAGMA page_size = 2048; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL")
    db.exec("CREATE TABLE runs (run_no INTEGER PRIMARY KEY, run_id TEXT UNIQUE, seq INTEGER, summary TEXT)")
    db.exec("CREATE TABLE events (run_no INTEGER, seq INTEGER, body TEXT, PRIMARY KEY (run_no, seq))")
    const summary = "x".repeat(250)
    const body = "x".repeat(280)
    db.prepare("INSERT INTO runs VALUES (1, 'run', 0, ?)").run(summary)
    const begin = db.prepare("BEGIN IMMEDIATE")
    const move = db.prepare("UPDATE runs SET seq = ?, summary = ? WHERE run_id = 'run' AND seq = ?")
    const add = db.prepare("INSERT INTO events VALUES (1, ?, ?)")
    const commit = db.prepare("COMMIT")
    let seq = 0
    const append = (events: number): void => {
      begin.run()
      move.run(seq + events, summary, seq)
      for (const end = seq + events; seq < end; seq++) add.run(seq, body)
      commit.run()
    }
    const many = 2_000
    const start = performance.now()
    for (let turn = 0; turn < many; turn++) for (const events of [1, 2, 1]) append(events)
    // The mean: now and then a commit also brings what is written to its place in the file.
    return (performance.now() - start) / many
  } finally {
    db.close()
    rmSync(folder, { recursive: true })
  }
}

/** What a store costs over another, in milliseconds: a turn, and the beginning and the end of a run. */
interface Cost {
  readonly turn: number
  readonly run: number
}

/**
 * What a store costs over another, with a tool that only reads and with one that writes. A run's beginning and end are told
 * from its turns by the difference between a short run and a long one.
 */
export const over = (store: Store, base: Store) =>
  Effect.gen(function* () {
    const models = { [short]: Workload.model(short), [long]: Workload.model(long) }
    const drive = (on: Store, agent: typeof Workload.analyst, turns: typeof short | typeof long) =>
      Effect.gen(function* () {
        const start = performance.now()
        yield* Effect.provideService(Agent.run(agent, Workload.task), RunStore, on)
        return performance.now() - start
      }).pipe(Effect.provide(models[turns]))
    const excess = (agent: typeof Workload.analyst) =>
      Effect.gen(function* () {
        const more: Array<number> = []
        const few: Array<number> = []
        for (let round = 0; round < rounds; round++) {
          const one = (yield* drive(store, agent, short)) - (yield* drive(base, agent, short))
          const two = (yield* drive(store, agent, long)) - (yield* drive(base, agent, long))
          // The first third warms the compiler up.
          if (round < rounds / 3) continue
          few.push(one)
          more.push(two)
        }
        const turn = (median(more) - median(few)) / (long - short)
        const cost: Cost = { turn, run: median(few) - turn * short }
        return cost
      })
    return { reading: yield* excess(Workload.analyst), writing: yield* excess(Workload.writer) }
  }).pipe(Effect.provide(Layer.mergeAll(Workload.handlers, Workload.prices)))
