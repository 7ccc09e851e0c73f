/**
 * The audit against journals with one fault: it finds every fault that breaks a law, and takes nothing else for one.
 */
import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as RunEvent from "../../src/run/RunEvent.ts"
import * as Audit from "../../src/testing/Audit.ts"
import { journals } from "../run/events.ts"
import { altered } from "./audit/alterations.ts"
import { runs } from "./audit/journals.ts"
import { misplaced, tampered } from "./audit/misplaced.ts"
import type { Mutant } from "./audit/places.ts"

/** What became of the mutants of one kind. */
interface Score {
  breaks: number
  found: number
  harmless: number
  quiet: number
  open: number
}

interface Judged {
  /** What the audit has missed, or taken for a fault. */
  readonly wrong: Array<string>
  readonly scores: Map<string, Score>
  /** The kinds of faults that break a law, with what they were made on. */
  readonly broken: Set<string>
}

const nothing = (): Judged => ({ wrong: [], scores: new Map(), broken: new Set() })

const inWords = (mutant: Mutant, findings: ReadonlyArray<Audit.Finding>): string => {
  const { events, kind, seq, verdict, what } = mutant
  const around = events.slice(Math.max(0, seq - 8), seq + 4).map((event) => `\n  ${JSON.stringify(event)}`)
  const said = findings[0] === undefined ? "nothing was found" : JSON.stringify(findings[0])
  return `${kind} ${what} at event ${seq}: it ${verdict}, and ${said}${around.join("")}`
}

const judge = (judged: Judged, mutants: ReadonlyArray<Mutant>): Judged => {
  for (const mutant of mutants) {
    const { events, kind, verdict, what } = mutant
    const findings = Audit.audit(events, { graceMs: 0 })
    const isFound = findings.length > 0
    const score = judged.scores.get(kind) ?? { breaks: 0, found: 0, harmless: 0, quiet: 0, open: 0 }
    judged.scores.set(kind, score)
    score[verdict]++
    if (verdict === "breaks" && isFound) score.found++
    if (verdict === "harmless" && !isFound) score.quiet++
    if (verdict === "breaks") judged.broken.add(`${kind} ${what}`)
    if (verdict !== "open" && isFound !== (verdict === "breaks")) judged.wrong.push(inWords(mutant, findings))
  }
  return judged
}

const few = { arbitrary: { runs: 25, size: 400 } } as const

describe("a generated journal", () => {
  it.prop(
    "with an event less, one twice, or two in the other order is found wherever that breaks a law",
    { journal: journals() },
    ({ journal: { events } }) => {
      expect(judge(nothing(), misplaced(events)).wrong).toEqual([])
    },
    few
  )

  it.prop(
    "with a field altered is found wherever that breaks a law",
    { journal: journals() },
    ({ journal: { events } }) => {
      expect(judge(nothing(), altered(events)).wrong).toEqual([])
    },
    few
  )

  it.prop(
    "that was tampered with in the store is found, unless only its end is missing",
    { journal: journals() },
    ({ journal: { events } }) => {
      expect(judge(nothing(), tampered(events)).wrong).toEqual([])
    },
    few
  )
})

/** A run that repeats itself has nothing new to show after this. */
const enough = 60

describe("the journals of runs that were lived through", () => {
  const all = Effect.gen(function* () {
    const found: Array<ReadonlyArray<RunEvent.RunEvent>> = []
    for (const run of runs) {
      const { children, events } = yield* run
      found.push(events, ...children)
    }
    return found.filter(({ length }) => length <= enough)
  })

  it.effect(
    "are found with any one fault that breaks a law, and with none that does not",
    () =>
      Effect.gen(function* () {
        const judged = nothing()
        for (const events of yield* all) judge(judged, [...misplaced(events), ...altered(events)])
        expect(judged.wrong).toEqual([])
        const scores = [...judged.scores]
        expect(scores.map(([kind]) => kind).toSorted()).toEqual(["alter", "drop", "reorder", "repeat"])
        for (const [, score] of scores) {
          expect(score.found).toBe(score.breaks)
          expect(score.quiet).toBe(score.harmless)
          // Where only a second look could tell, the mutant proves nothing: there are few of those.
          expect(score.open).toBeLessThan(0.1 * score.breaks)
        }
        const touched = (kind: string) => {
          const made = [...judged.broken].filter((one) => one.startsWith(`${kind} `))
          return [...new Set(made.map((one) => one.slice(kind.length + 1).replace(/\..*/, "")))].toSorted()
        }
        const but = (...harmless: ReadonlyArray<RunEvent.RunEvent["type"]>) =>
          Object.keys(RunEvent.RunEvent.cases)
            .filter((type) => !harmless.some((one) => one === type))
            .toSorted()
        expect(touched("alter")).toEqual(but())
        // Without these a journal is that of a run which was asked less, had other limits, or whose process has died.
        expect(touched("drop")).toEqual(but("input_required", "limits_changed", "run_stopped"))
        // A run may be taken up, and a question asked, any number of times; what somebody has said is taken in once.
        expect(touched("repeat")).toEqual(but("run_resumed", "limits_changed", "input_required"))
      }),
    120_000
  )
})
