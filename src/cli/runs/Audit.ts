/**
 * `checkrein runs audit`: holds a stored run, and every run below it, to the laws.
 */

import * as Effect from "effect/Effect"
import { plain } from "../../run/PlainText.ts"
import * as Audit from "../../testing/Audit.ts"
import * as Output from "../Output.ts"
import type * as Flags from "./Flags.ts"
import * as StoredRun from "./StoredRun.ts"

const count = (n: number, one: string, many: string): string => `${n} ${n === 1 ? one : many}`

const looked = ({ children, events }: Audit.Report): string =>
  `${count(events, "event", "events")}, ${count(children, "child", "children")}`

const line =
  (runId: string) =>
  (finding: Audit.Finding): string => {
    const of = finding.runId === runId ? "" : ` of ${finding.runId}`
    return `  event ${finding.seq}${of}: ${finding.problem}`
  }

/** Each law that is broken, with the events that break it. */
const broken = ({ findings, runId }: Audit.Report): ReadonlyArray<string> =>
  [...Map.groupBy(findings, ({ law }) => law)]
    .sort(([a], [b]) => a - b)
    .flatMap(([law, events]) => ["", `Law ${law}: ${Audit.laws[law]}`, ...events.map(line(runId))])

/** A report for people. */
const screen = (report: Audit.Report): string => {
  const { findings, runId } = report
  const verdict =
    findings.length === 0
      ? "no law is broken"
      : `the laws are broken ${findings.length === 1 ? "once" : `${findings.length} times`}`
  return [`${runId}: ${verdict}: ${looked(report)}`, ...broken(report)].map(plain).join("\n")
}

/** Audits a run; ends with 3 if a law is broken. */
export const audit = ({ id, json, store }: Flags.Audit) =>
  Effect.gen(function* () {
    const report = yield* Audit.run(id)
    yield* Output.result(json, { ...report }, screen(report))
    if (report.findings.length > 0) return yield* Output.quit(Output.exitCodes.stopped)
  }).pipe(StoredRun.inStore(store))
