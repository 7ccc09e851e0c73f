/**
 * What came of a scenario, for people.
 */
import * as Effect from "effect/Effect"
import * as Catalogue from "../demo/Catalogue.ts"
import type * as Demo from "../demo/Demo.ts"
import type * as Handoff from "../run/Handoff.ts"
import type { Stored } from "../store/RunStore.ts"

const count = (tokens: number): string => tokens.toLocaleString("en-US")

const plural = (amount: number, one: string): string => `${amount} ${one}${amount === 1 ? "" : "s"}`

/** What a run has used, in one line. */
export const spent = (of: {
  readonly turns: number
  readonly toolRuns: number
  readonly promptTokens: number
  readonly completionTokens: number
  readonly costUsd: number
  readonly ms: number
}): string =>
  [
    plural(of.turns, "turn"),
    plural(of.toolRuns, "tool run"),
    `${count(of.promptTokens)} tokens in and ${count(of.completionTokens)} out`,
    `$${of.costUsd.toFixed(6)}`,
    `${count(Math.round(of.ms))} ms`
  ].join(", ")

// Said in other lines of the screen already.
const saidElsewhere = new Set(["task", "spend", "next"])

/** What is handed over, as far as the rest of the screen does not say it. */
const handedOver = (handoff: Handoff.Handoff): Effect.Effect<ReadonlyArray<string>> =>
  Effect.map(
    Effect.promise(() => import("../run/Handoff.ts")),
    ({ sections }) =>
      sections(handoff)
        .filter(({ name }) => !saidElsewhere.has(name))
        .flatMap(({ lines, title }) => [`${title}:`, ...lines.map((line) => `  ${line}`)])
  )

/** A result on the screen: how it ended, what it took, what is handed over, and how it goes on. */
export const screen = Effect.fnUntraced(function* (
  { answer, deleted, handoff, ...result }: Demo.Result,
  stored: Stored,
  store: string
) {
  const Ending = yield* Effect.promise(() => import("./Ending.ts"))
  const next = Ending.next(stored.state, {
    store,
    agent: undefined,
    root: result.runId
  })
  return [
    "",
    `${result.scenario}: ${Catalogue.shows[result.scenario]}`,
    `  ending   ${Ending.standing(stored.state)}`,
    `  answer   ${answer === "" ? "none" : answer}`,
    ...(deleted.length === 0 ? [] : [`  deleted  ${deleted.join(", ")}`]),
    `  used     ${spent(result)}`,
    ...(handoff === null ? [] : yield* handedOver(handoff)),
    ...(next.length > 0 && store !== "memory" ? ["To go on:", ...next.map((command) => `  ${command}`)] : [])
  ].join("\n")
})
