/**
 * What became of the runs that `checkrein runs recover` has looked at, for people and for programs.
 */

import * as Effect from "effect/Effect"
import { plain } from "../../run/PlainText.ts"
import type { RunState } from "../../run/RunState.ts"
import { load, type RunStore, type RunSummary } from "../../store/RunStore.ts"
import * as Ending from "../Ending.ts"
import * as Output from "../Output.ts"

/**
 * A run was taken over and driven, by the agent of a module if one is named; or left alone, since there was nothing to
 * do about it; or could not be driven, for want of its agent say.
 */
export type Outcome =
  | { readonly _tag: "Driven"; readonly run: RunSummary; readonly module: string | undefined }
  | { readonly _tag: "Left"; readonly run: RunSummary; readonly why: string }
  | { readonly _tag: "Failed"; readonly run: RunSummary; readonly error: unknown }

/** A run that was taken over, as it stands now. */
interface Recovered {
  readonly state: RunState
  readonly where: Ending.Where
}

/** All runs, each by what became of it. */
export interface Report {
  readonly recovered: ReadonlyArray<Recovered>
  readonly left: ReadonlyArray<{ readonly runId: string; readonly agent: string; readonly why: string }>
  readonly failed: ReadonlyArray<{
    readonly runId: string
    readonly agent: string
    readonly error: { readonly tag: string; readonly message: string }
  }>
}

/** Looks up how the runs stand that were driven. */
export const reportOf = (
  outcomes: ReadonlyArray<Outcome>,
  store: string
): Effect.Effect<Report, never, RunStore> =>
  Effect.gen(function* () {
    const recovered: Array<Recovered> = []
    const left: Array<Report["left"][number]> = []
    const failed: Array<Report["failed"][number]> = []
    for (const outcome of outcomes) {
      const { agent, runId } = outcome.run
      const failure = (error: unknown) => failed.push({ runId, agent, error: Output.errorOf(error) })
      switch (outcome._tag) {
        case "Driven": {
          const where = { store, agent: outcome.module, root: runId }
          yield* Effect.match(load(runId), {
            onFailure: failure,
            onSuccess: ({ state }) => recovered.push({ state, where })
          })
          break
        }
        case "Left":
          left.push({ runId, agent, why: outcome.why })
          break
        case "Failed":
          failure(outcome.error)
      }
    }
    return { recovered, left, failed }
  })

/** The report for a program. */
export const toJson = ({ failed, left, recovered }: Report) => ({
  recovered: recovered.map(({ state, where }) => Ending.toJson(state, where)),
  left,
  failed
})

const part = (
  title: (runs: string) => string,
  runs: ReadonlyArray<{
    readonly runId: string
    readonly says: string
    readonly next?: ReadonlyArray<string>
  }>
): ReadonlyArray<string> =>
  runs.length === 0
    ? []
    : [
        `${title(runs.length === 1 ? "1 run" : `${runs.length} runs`)}:`,
        ...runs.flatMap(({ next = [], runId, says }) => [
          `  ${plain(runId)}  ${plain(says)}`,
          ...next.map((command) => `    ${command}`)
        ])
      ]

/** The report for people: how each run has ended, with the commands by which it goes on. */
export const screen = ({ failed, left, recovered }: Report): string =>
  [
    ...part(
      (runs) => `Took over ${runs}`,
      recovered.map(({ state, where }) => ({
        runId: state.runId,
        says: Ending.standing(state),
        next: Ending.next(state, where)
      }))
    ),
    ...part(
      (runs) => `Could not drive ${runs}`,
      failed.map(({ error, runId }) => ({ runId, says: error.message }))
    ),
    ...part(
      (runs) => `Left ${runs} alone`,
      left.map(({ runId, why }) => ({ runId, says: why }))
    )
  ].join("\n")

/** How the command ends: with an error if a run could not be driven, else as the runs have ended. */
export const exitCode = ({ failed, recovered }: Report): Output.ExitCode => {
  if (failed.length > 0) return Output.exitCodes.error
  const isShort = recovered.some(({ state }) => state.status !== "completed")
  return isShort ? Output.exitCodes.stopped : Output.exitCodes.ok
}
