/**
 * Six tasks about the same three files, for whatever model is there: how a real one does where the scenarios' scripts
 * only play their part.
 */
import * as Effect from "effect/Effect"
import * as Agent from "../Agent.ts"
import { load } from "../store/RunStore.ts"
import * as Catalogue from "./Catalogue.ts"
import * as Demo from "./Demo.ts"
import * as Fixture from "./Fixture.ts"
import * as LogTools from "./LogTools.ts"
import * as Scenario from "./Scenario.ts"

/** What is asked. */
export const tasks: ReadonlyArray<string> = [
  LogTools.task,
  "How many files are there?",
  "What does the notes file say?",
  "List the files, read each of them, and say what they contain.",
  "Which file is the largest?",
  "Is there a file about rotating logs?"
]

/** What came of one task. */
export interface Outcome extends Demo.Outcome {
  readonly task: string
}

/** Puts one task to the model. */
export const run = Effect.fnUntraced(function* (task: string) {
  const agent = Scenario.agent(Catalogue.defaults, Fixture.make())
  const { run } = yield* Agent.outcome(Agent.run(agent, task))
  const outcome: Outcome = { task, ...Demo.outcomeOf(yield* load(run.runId)) }
  return outcome
})

/** Whether there is no use in asking this model anything else. */
export const isOver = ({ reason }: Outcome): boolean => reason === "provider" || reason === "provider_refused"
