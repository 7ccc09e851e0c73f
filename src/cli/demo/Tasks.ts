/**
 * `checkrein demo tasks`: six tasks about the log analyst's files, for a real model.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as RuleModel from "../../demo/RuleModel.ts"
import * as Tasks from "../../demo/Tasks.ts"
import * as Scripted from "../../provider/Scripted.ts"
import { plain } from "../../run/PlainText.ts"
import * as Models from "../Models.ts"
import * as Output from "../Output.ts"
import * as Store from "../Store.ts"
import type * as Commands from "./Commands.ts"
import { spent } from "./Screen.ts"

/** The model of the tasks: the endpoint of the environment, or the model made of rules. */
const model = Models.endpointOr(
  Option.none(),
  Models.remarked(
    "LLM_BASE_URL is not set: a log analyst made of rules answers, and no model.",
    Scripted.layer(RuleModel.script)
  )
)

const taskScreen = (number: number, outcome: Tasks.Outcome): string =>
  [
    `${number}. ${outcome.task}`,
    `   ${outcome.answer === "" ? `no answer: ${plain(outcome.detail)}` : plain(outcome.answer)}`,
    `   ${spent(outcome)}`
  ].join("\n")

/** Puts the tasks to the model one by one, and says how it does. */
export const ask = Effect.fnUntraced(function* ({ json, store }: Commands.Tasks) {
  const outcomes: Array<Tasks.Outcome> = []
  yield* Effect.gen(function* () {
    for (const [index, task] of Tasks.tasks.entries()) {
      const outcome = yield* Tasks.run(task)
      outcomes.push(outcome)
      if (!json) yield* Output.print(taskScreen(index + 1, outcome))
      if (Tasks.isOver(outcome)) return
    }
  }).pipe(Effect.provide(Layer.provideMerge(model, Store.layer(store))))
  const answered = outcomes.filter(({ status }) => status === "completed").length
  yield* Output.result(
    json,
    { answered, tasks: outcomes },
    `${answered} of ${Tasks.tasks.length} tasks were answered. Whether an answer is right is for you to judge.`
  )
  if (answered < Tasks.tasks.length) return yield* Output.quit(Output.exitCodes.stopped)
})
