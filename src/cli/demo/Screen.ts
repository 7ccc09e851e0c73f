/**
 * What came of a scenario, for people.
 */
import * as Catalogue from "../../demo/Catalogue.ts"
import type * as Demo from "../../demo/Demo.ts"
import { cost } from "../../run/PlainText.ts"
import type { Stored } from "../../store/RunStore.ts"
import * as Ending from "../Ending.ts"
import * as HandoffScreen from "../HandoffScreen.ts"
import * as Store from "../Store.ts"

const count = (tokens: number): string => tokens.toLocaleString("en-US")

const plural = (amount: number, one: string): string => `${amount} ${one}${amount === 1 ? "" : "s"}`

type Spent = Pick<
  Demo.Outcome,
  "turns" | "toolRuns" | "promptTokens" | "completionTokens" | "costUsd" | "unpriced" | "ms"
>

/** What a run has used, in one line. */
export const spent = (of: Spent): string =>
  [
    plural(of.turns, "turn"),
    plural(of.toolRuns, "tool run"),
    `${count(of.promptTokens)} tokens in and ${count(of.completionTokens)} out`,
    cost(of),
    `${count(Math.round(of.ms))} ms`
  ].join(", ")

// Other lines of the screen say these.
const saidElsewhere: ReadonlySet<HandoffScreen.Part> = new Set(["task", "spend", "next"])

/** A result on the screen: how it ended, what it took, what is handed over, and how it goes on. */
export const screen = (
  { answer, deleted, handoff, ...result }: Demo.Result,
  stored: Stored,
  where: Ending.Where
): string => {
  const next = Ending.next(stored.state, where)
  const parts = handoff === null ? [] : HandoffScreen.parts(handoff, saidElsewhere)
  return [
    "",
    `${result.scenario}: ${Catalogue.shows[result.scenario]}`,
    `  ending   ${Ending.standing(stored.state)}`,
    `  answer   ${answer === "" ? "none" : answer}`,
    ...(deleted.length === 0 ? [] : [`  deleted  ${deleted.join(", ")}`]),
    `  used     ${spent(result)}`,
    ...parts.flatMap(({ lines, title }) => [`${title}:`, ...lines.map((line) => `  ${line}`)]),
    ...(next.length === 0 ? [] : ["To go on:", ...next.map((command) => `  ${command}`)]),
    ...(Store.isFleeting(where.store) && result.status !== "completed" ? [Store.endsHere] : [])
  ].join("\n")
}
