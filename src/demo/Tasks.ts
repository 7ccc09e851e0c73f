/**
 * Six tasks about the same three files, for whatever model is there: how a real one does where the scenarios' scripts
 * only play their part.
 */
import type * as LanguageModel from "effect/ai/LanguageModel"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Agent from "../Agent.ts"
import type { RunState } from "../run/RunState.ts"
import type { RunStore } from "../store/RunStore.ts"
import * as Catalogue from "./Catalogue.ts"
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

/** What came of one task. Money in USD, time in milliseconds. */
export interface Outcome {
  readonly task: string
  readonly runId: string
  readonly status: RunState["status"]
  readonly reason: RunState["reason"]
  readonly detail: string
  readonly turns: number
  readonly toolRuns: number
  readonly promptTokens: number
  readonly completionTokens: number
  readonly costUsd: number
  /** The price of the model is not known, and it counts as free. */
  readonly unpriced?: true
  readonly ms: number
  /** The model's answer; empty when there is none. */
  readonly answer: string
}

/** Puts one task to the model. */
export const run = (
  task: string
): Effect.Effect<
  Outcome,
  Exclude<Agent.Failure<never>, { readonly run: RunState }>,
  LanguageModel.LanguageModel | RunStore
> =>
  Effect.gen(function* () {
    const agent = Scenario.agent(Catalogue.defaults, Fixture.make())
    const before = yield* Clock.monotonicTimeNanos
    const { run: state } = yield* Agent.outcome(Agent.run(agent, task))
    const after = yield* Clock.monotonicTimeNanos
    return {
      task,
      runId: state.runId,
      status: state.status,
      reason: state.reason,
      detail: state.detail ?? "",
      turns: state.turns,
      toolRuns: state.toolCalls,
      promptTokens: state.usage.promptTokens,
      completionTokens: state.usage.completionTokens,
      costUsd: state.costUsd,
      ...(state.unpriced === undefined ? undefined : { unpriced: state.unpriced }),
      ms: Number((after - before) / 10_000n) / 100,
      answer: typeof state.result === "string" ? state.result : ""
    }
  })

/** Whether there is no use in asking this model anything else. */
export const isOver = ({ reason }: Outcome): boolean => reason === "provider" || reason === "provider_refused"
