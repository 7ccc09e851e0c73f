/**
 * `checkrein runs list`: the stored runs as a table.
 */

import * as Clock from "effect/Clock"
import * as CliOutput from "effect/cli/CliOutput"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { cost, plain, words } from "../../run/PlainText.ts"
import { RunStore, type RunSummary } from "../../store/RunStore.ts"
import * as Output from "../Output.ts"
import * as ShellWords from "../ShellWords.ts"
import type * as Flags from "./Flags.ts"
import * as StoredRun from "./StoredRun.ts"

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
  const clean = rows.map((row) => row.map(plain))
  const widths = (clean[0] ?? []).map((_, column) =>
    Math.max(...clean.map((row) => CliOutput.displayWidth(row[column] ?? "")))
  )
  const padded = (cell: string, column: number) =>
    cell + " ".repeat((widths[column] ?? 0) - CliOutput.displayWidth(cell))
  return clean.map((row) => row.map(padded).join("  ").trimEnd()).join("\n")
}

const head = ["RUN", "STATUS", "REASON", "AGENT", "TURNS", "COST", "AGE"]

const row = (run: RunSummary, now: number): ReadonlyArray<string> => [
  run.runId,
  words(run.status),
  run.reason === undefined ? "" : words(run.reason),
  run.agent,
  String(run.turns),
  cost(run),
  age(now - Date.parse(run.updatedAt))
]

/** The runs as a table. Tags have a column where there are any. */
const screen = (runs: ReadonlyArray<RunSummary>, now: number): string => {
  const isTagged = runs.some(({ tags = [] }) => tags.length > 0)
  return table([
    isTagged ? [...head, "TAGS"] : head,
    ...runs.map((run) => (isTagged ? [...row(run, now), (run.tags ?? []).join(", ")] : row(run, now)))
  ])
}

/** Lists runs, newest first. */
export const list = ({ json, limit, store: where, ...wanted }: Flags.List) =>
  Effect.gen(function* () {
    const store = yield* RunStore
    const now = yield* Clock.currentTimeMillis
    const ago = (ms: number) => new Date(now - ms).toISOString()
    const runs = yield* store.list({
      status: Option.getOrUndefined(wanted.status),
      reason: Option.getOrUndefined(wanted.reason),
      agent: Option.getOrUndefined(wanted.of),
      tag: Option.getOrUndefined(wanted.tag),
      since: Option.getOrUndefined(Option.map(wanted.newerThan, ago)),
      until: Option.getOrUndefined(Option.map(wanted.olderThan, ago)),
      before: Option.isSome(wanted.after) ? yield* store.summary(wanted.after.value) : undefined,
      limit
    })
    yield* Output.result(json, { runs }, screen(runs, now))
    const last = runs.at(-1)
    if (last === undefined) yield* Output.note("No runs.")
    else if (runs.length === limit)
      yield* Output.note(
        `${limit === 1 ? "One run is" : `At most ${limit} runs are`} shown: --limit shows more, and --after ${ShellWords.quoted(last.runId)} the next ones.`
      )
  }).pipe(StoredRun.inStoreIfAny(where))
