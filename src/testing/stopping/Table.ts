/**
 * A report for people: a table with a line for each case, and below it what should not have happened.
 */
import type * as StoppingReport from "../StoppingReport.ts"

const columns = [
  ["succeeded", "succeeded"],
  ["unfinished", "unfinished"],
  ["callsOverLimit", "over limit"],
  ["actionsAfterEnd", "after end"],
  ["permissionsOverstepped", "overstepped"],
  ["wrongClaims", "wrong claims"]
] as const

const words = (name: string): string => name.replaceAll("_", " ")

const ending = ({ reason, status }: StoppingReport.Row): string =>
  reason === undefined ? words(status) : `${words(status)} (${words(reason)})`

/** Cells as lines of text: the first two columns to the left, numbers to the right. */
const aligned = (rows: ReadonlyArray<ReadonlyArray<string>>): ReadonlyArray<string> => {
  const widths = (rows[0] ?? []).map((_, index) => Math.max(...rows.map((row) => row[index]?.length ?? 0)))
  return rows.map((row) =>
    row
      .map((cell, index) => (index < 2 ? cell.padEnd(widths[index] ?? 0) : cell.padStart(widths[index] ?? 0)))
      .join("  ")
      .trimEnd()
  )
}

/**
 * A report as text: one line for each case with its ending and its six counts, the totals, and every problem by name.
 *
 * @example
 * ```ts
 * import { StoppingReport } from "checkrein/testing"
 *
 * console.log(StoppingReport.toText(StoppingReport.judge("log-analyst", [])))
 * ```
 */
export const toText = ({ agent, problems, rows, totals }: StoppingReport.Report): string => {
  const numbers = (counts: StoppingReport.Counts) => columns.map(([name]) => String(counts[name]))
  const lines = aligned([
    [agent, "ending", ...columns.map(([, title]) => title)],
    ...rows.map((row) => [row.name, ending(row), ...numbers(row)]),
    [rows.length === 1 ? "1 case" : `${rows.length} cases`, "", ...numbers(totals)]
  ])
  const wrong = problems.map(({ problem, runId, seq }) => {
    const where = seq === undefined ? `run ${runId}` : `run ${runId}, event ${seq}`
    return `${where}: ${problem}`
  })
  return [...lines, ...(wrong.length === 0 ? [] : ["", ...wrong])].join("\n")
}
