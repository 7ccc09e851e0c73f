/**
 * What `checkrein` does without arguments: every way in which a run can end, for real and on one screen. The model is
 * scripted, everything else is as it is with a real one, the store on disk included.
 */

import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import type * as Catalogue from "../../demo/Catalogue.ts"
import * as Demo from "../../demo/Demo.ts"
import { colorsOn } from "../../observe/Pretty.ts"
import * as RunTrace from "../../observe/RunTrace.ts"
import { plain } from "../../run/PlainText.ts"
import { load } from "../../store/RunStore.ts"
import * as Ending from "../Ending.ts"
import * as Output from "../Output.ts"
import * as Store from "../Store.ts"

interface Stop {
  readonly title: string
  /** Why it ends this way, for somebody who sees it for the first time. */
  readonly why: string
  readonly scenario: Catalogue.Name
  readonly options: Demo.Options
}

const unlimited = Number.POSITIVE_INFINITY

const stops: ReadonlyArray<Stop> = [
  {
    title: "1. completed",
    why: "The model looks, reads and answers.",
    scenario: "plan",
    options: {}
  },
  {
    title: "2. max_turns_exceeded",
    why: "A model that does nothing but list files, with 5 turns.",
    scenario: "runaway",
    options: { limits: { turns: 5 } }
  },
  {
    title: "3. budget_exceeded",
    why: "The same model without a limit of turns, but with $0.005.",
    scenario: "runaway",
    options: { limits: { turns: unlimited, usd: 0.005 } }
  },
  {
    title: "4 a. interrupted: it waits for a decision",
    why: "The model wants to delete a file, which waits for a person.",
    scenario: "destructive",
    options: {}
  },
  {
    title: "4 b. interrupted: somebody pressed Stop",
    why: "A slow tool, and somebody who presses Stop after 1.2 s.",
    scenario: "slow",
    options: { stopAfter: "1200 millis" }
  },
  {
    title: "5. failed",
    why: "A permission is denied for good: asking again would only cost money.",
    scenario: "denied",
    options: {}
  }
]

/** Live lines on stdout, for here they are the answer. */
const watching = (colors: boolean) =>
  Effect.map(Console.Console, (console): RunTrace.Sink => {
    return {
      write: (event) => {
        const line = RunTrace.pretty(event, { colors })
        if (line !== undefined) console.log(`   ${line}`)
      }
    }
  })

const shown = Effect.fnUntraced(function* ({ options, scenario, title, why }: Stop, store: string) {
  const colors = yield* colorsOn("stdout")
  yield* Output.print(`\n${colors ? `\u001b[1m${title}\u001b[0m` : title}\n   ${why}`)
  const { runId } = yield* Demo.run(scenario, options).pipe(
    Effect.provideServiceEffect(RunTrace.RunTrace, watching(colors))
  )
  const { state } = yield* load(runId)
  const answer = Ending.answerOf(state)
  if (answer !== "") yield* Output.print(`   It answers: ${plain(answer)}`)
  const [next, other] = Ending.next(state, {
    store,
    agent: undefined,
    root: runId
  })
  if (next !== undefined) yield* Output.print(`   To go on: ${next}`)
  if (other !== undefined) yield* Output.print(`   or:       ${other}`)
})

const intro = (store: string) =>
  [
    "Checkrein runs an agent in a loop with tools, and every run ends in one of five ways, for a reason that is written down.",
    `Here is each of them: a scripted model before three log files. The runs are stored in ${store}.`
  ].join("\n")

const outro = (store: string) =>
  [
    "",
    "All of these runs are stored. What to try next:",
    `  ${Output.self} runs list${Store.repeated(store)}`,
    `  ${Output.self} demo plan --kill-after 2      a process that dies in mid-run, and how the run goes on`,
    `  ${Output.self} demo figures                  the published figures, measured`,
    `  ${Output.self} run "Which file mentions a timeout?" --root DIR`,
    `  ${Output.self} --help`
  ].join("\n")

/** Shows every ending, and keeps the runs in a store. Takes about three seconds. */
export const run = Effect.fnUntraced(function* (store: string) {
  yield* Output.print(intro(store))
  yield* Effect.forEach(stops, (stop) => shown(stop, store), {
    discard: true
  }).pipe(Effect.provide(Store.layer(store)))
  yield* Output.print(outro(store))
})
