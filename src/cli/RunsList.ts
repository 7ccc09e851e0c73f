/**
 * `checkrein runs list`: the stored runs as a table.
 */

import * as Clock from "effect/Clock"
import * as CliOutput from "effect/cli/CliOutput"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { RunStatus } from "../run/RunEvent.ts"
import { RunStore, type RunSummary } from "../store/RunStore.ts"
import { words } from "./Ending.ts"
import * as Output from "./Output.ts"
import * as Store from "./Store.ts"

/** What `checkrein runs list` was given. */
export interface Input {
  readonly status: Option.Option<RunStatus>
  readonly of: Option.Option<string>
  readonly limit: number
  readonly store: string
  readonly json: boolean
}

/** A time ago in its largest unit. */
export const age = (ms: number): string => {
  const seconds = Math.max(0, Math.floor(ms / 1000))
  if (seconds < 60) return `${seconds}s`
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m`
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)}h`
  return `${Math.floor(seconds / 86_400)}d`
}

/** Rows with their columns aligned; the first row is the head. */
export const table = (rows: ReadonlyArray<ReadonlyArray<string>>): string => {
  const clean = rows.map((row) => row.map(Output.plain))
  const widths = (clean[0] ?? []).map((_, column) =>
    Math.max(...clean.map((row) => CliOutput.displayWidth(row[column] ?? "")))
  )
  const padded = (cell: string, column: number) =>
    cell + " ".repeat((widths[column] ?? 0) - CliOutput.displayWidth(cell))
  return clean.map((row) => row.map(padded).join("  ").trimEnd()).join("\n")
}

const row = (run: RunSummary, now: number): ReadonlyArray<string> => [
  run.runId,
  words(run.status),
  run.reason === undefined ? "" : words(run.reason),
  run.agent,
  String(run.turns),
  `$${run.costUsd.toFixed(6)}`,
  age(now - Date.parse(run.updatedAt))
]

/** Lists runs, newest first. */
export const list = ({ json, limit, of, status, store: where }: Input) =>
  Effect.gen(function* () {
    const store = yield* RunStore
    const runs = yield* store.list({
      status: Option.getOrUndefined(status),
      agent: Option.getOrUndefined(of),
      limit
    })
    const now = yield* Clock.currentTimeMillis
    const head = ["RUN", "STATUS", "REASON", "AGENT", "TURNS", "COST", "AGE"]
    yield* Output.result(json, { runs }, table([head, ...runs.map((run) => row(run, now))]))
    if (runs.length === 0) yield* Output.note("No runs.")
    if (runs.length === limit) yield* Output.note(`At most ${limit} runs are shown; --limit shows more.`)
  }).pipe(Effect.provide(Store.existing(where)))
