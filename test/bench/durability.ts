/** What a turn costs on SQLite over a turn in memory, and what the machine's own fsync costs. */
import { closeSync, fdatasyncSync, mkdtempSync, openSync, rmSync, writeSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import * as Layer from "effect/Layer"
import * as ManagedRuntime from "effect/ManagedRuntime"
import { Agent } from "../../src/index.ts"
import { RunStore } from "../../src/store/RunStore.ts"
import { inBlocks, median } from "./measure.ts"
import * as Workload from "./workload.ts"

type Store = RunStore["Service"]

const rounds = 96
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
 * What a store costs over another, for an agent. A run's beginning and end are told from its turns by the difference between
 * a short run and a long one.
 */
export const over = async (store: Store, base: Store, agent: typeof Workload.analyst): Promise<Cost> => {
  const runtimeOf = (on: Store, turns: number) =>
    ManagedRuntime.make(
      Layer.mergeAll(Workload.handlers, Workload.prices, Workload.model(turns), Layer.succeed(RunStore, on))
    )
  const runtimes = {
    few: runtimeOf(store, short),
    fewBase: runtimeOf(base, short),
    more: runtimeOf(store, long),
    moreBase: runtimeOf(base, long)
  }
  const drive = (on: keyof typeof runtimes) => () => runtimes[on].runPromise(Agent.run(agent, Workload.task))
  try {
    const samples = await inBlocks(
      { few: drive("few"), fewBase: drive("fewBase"), more: drive("more"), moreBase: drive("moreBase") },
      rounds
    )
    const few = median(samples.few) - median(samples.fewBase)
    const turn = (median(samples.more) - median(samples.moreBase) - few) / (long - short)
    return { turn, run: few - turn * short }
  } finally {
    await Promise.all(Object.values(runtimes).map((runtime) => runtime.dispose()))
  }
}
