/**
 * `checkrein demo figures`: every row of the published figures, measured.
 */
import { fileURLToPath } from "node:url"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Effect from "effect/Effect"
import type * as Figures from "../demo/Figures.ts"
import * as Output from "./Output.ts"
import * as Store from "./Store.ts"

/** `--provider in-process|http`. */
export const provider = Flag.Literals("provider", ["in-process", "http"]).pipe(
  Flag.withDescription("Where the scripted model is: in this process, or behind an endpoint on loopback"),
  Flag.withDefault("in-process")
)

/** How this very program is started again. */
const again = (args: ReadonlyArray<string>): ReadonlyArray<string> => {
  const main = new URL(import.meta.url.endsWith(".ts") ? "./main.ts" : "../cli/main.js", import.meta.url)
  return [process.execPath, ...process.execArgv, fileURLToPath(main), ...args]
}

const verdict = ({ ok }: Figures.Row): string => (ok ? "ok     " : "differs")

const rowScreen = (row: Figures.Row): string =>
  [
    `${verdict(row)}  ${row.run}`,
    `         measured  ${row.measured}`,
    `         expected  ${row.expected}`
  ].join("\n")

/** The command. */
export const command = Command.make(
  "figures",
  {
    provider,
    store: Store.flagOf("memory"),
    json: Output.json
  },
  Effect.fnUntraced(function* ({ json, provider, store }) {
    const Figures = yield* Effect.promise(() => import("../demo/Figures.ts"))
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
).pipe(
  Command.withDescription(
    "Run every row of the published figures, and print what was measured beside what is expected. Takes about 10 seconds."
  ),
  Command.withExamples([
    {
      command: "checkrein demo figures",
      description: "Fails if any row differs"
    },
    {
      command: "checkrein demo figures --provider http",
      description: "The same over an endpoint on loopback"
    }
  ])
)
