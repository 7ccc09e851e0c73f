/**
 * `checkrein demo figures`: every row of the published figures, measured.
 */
import { fileURLToPath } from "node:url"
import * as Effect from "effect/Effect"
import * as Figures from "../../demo/Figures.ts"
import * as Output from "../Output.ts"
import * as Store from "../Store.ts"
import type * as Commands from "./Commands.ts"

/** How this very program is started again. */
const again = (args: ReadonlyArray<string>): ReadonlyArray<string> => {
  const main = new URL(import.meta.url.endsWith(".ts") ? "../main.ts" : "../cli/main.js", import.meta.url)
  return [process.execPath, ...process.execArgv, fileURLToPath(main), ...args]
}

const verdict = ({ ok }: Figures.Row): string => (ok ? "ok     " : "differs")

const rowScreen = (row: Figures.Row): string =>
  [
    `${verdict(row)}  ${row.run}`,
    `         measured  ${row.measured}`,
    `         expected  ${row.expected}`
  ].join("\n")

/** Measures every row, and fails if one differs. */
export const measure = Effect.fnUntraced(function* ({ json, provider, store }: Commands.Figures) {
  const onRow = (row: Figures.Row) => (json ? Effect.void : Output.print(rowScreen(row)))
  const rows = yield* Figures.all({ provider, command: again, onRow }).pipe(
    Effect.provide(Store.layer(store))
  )
  const differ = rows.filter((row) => !row.ok).length
  const ok = differ === 0
  yield* Output.result(
    json,
    { ok, rows },
    ok ? `All ${rows.length} rows are as expected.` : `${differ} of ${rows.length} rows differ.`
  )
  if (!ok) return yield* Output.quit(Output.exitCodes.error)
})
