/**
 * A handoff as the command line shows it: fit for a terminal, in whole or in part.
 */

import * as Handoff from "../run/Handoff.ts"
import { plain, plainLines } from "../run/PlainText.ts"

/** The names of the parts of a handoff. */
export type Part = Handoff.Section["name"]

/** A part on the screen. */
export interface Shown {
  readonly title: string
  readonly lines: ReadonlyArray<string>
}

const shortened = (lines: ReadonlyArray<string>, most: number): ReadonlyArray<string> =>
  lines.length <= most ? lines : [...lines.slice(0, most - 1), `… ${lines.length - most + 1} more lines`]

/** The parts of a handoff that the rest of a screen does not say already, each of at most so many lines. */
export const parts = (
  handoff: Handoff.Handoff,
  saidElsewhere: ReadonlySet<Part>,
  most = Number.POSITIVE_INFINITY
): ReadonlyArray<Shown> =>
  Handoff.sections(handoff)
    .filter(({ name }) => !saidElsewhere.has(name))
    .map(({ lines, title }) => ({ title, lines: shortened(lines, most).map(plain) }))

/** The whole handoff as Markdown. */
export const markdown = (handoff: Handoff.Handoff): string =>
  plainLines(Handoff.toMarkdown(handoff).trimEnd())
