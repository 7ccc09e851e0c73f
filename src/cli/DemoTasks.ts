/**
 * `checkrein demo tasks`: six tasks about the log analyst's files, for a real model.
 */

import * as Config from "effect/Config"
import * as Command from "effect/cli/Command"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Tasks from "../demo/Tasks.ts"
import { plain } from "../run/PlainText.ts"
import { spent } from "./DemoScreen.ts"
import * as Output from "./Output.ts"
import * as Store from "./Store.ts"

/** The model of the tasks: the endpoint of the environment, or the analyst made of rules. */
const model = Layer.unwrap(
  Effect.gen(function* () {
    const address = yield* Config.option(Config.String("LLM_BASE_URL")).pipe(
      Effect.orElseSucceed(Option.none)
    )
    if (Option.isSome(address) && address.value.trim() !== "") {
      const Models = yield* Effect.promise(() => import("./Models.ts"))
      return Models.layer(Option.none(), "nothing")
    }
    yield* Output.note("LLM_BASE_URL is not set: a log analyst made of rules answers, and no model.")
    const [RuleModel, Scripted] = yield* Effect.promise(() =>
      Promise.all([import("../demo/RuleModel.ts"), import("../provider/Scripted.ts")])
    )
    return Scripted.layer(RuleModel.script)
  })
)

const taskScreen = (number: number, outcome: Tasks.Outcome): string =>
  [
    `${number}. ${outcome.task}`,
    `   ${outcome.answer === "" ? `no answer: ${outcome.detail}` : plain(outcome.answer)}`,
    `   ${spent(outcome)}`
  ].join("\n")

/** The command. */
export const command = Command.make(
  "tasks",
  { store: Store.flag, json: Output.json },
  Effect.fnUntraced(function* ({ json, store }) {
    const Tasks = yield* Effect.promise(() => import("../demo/Tasks.ts"))
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
).pipe(
  Command.withDescription(
    "Put six tasks about the demo's files to the model at LLM_BASE_URL (LLM_MODEL, LLM_API_KEY), and print how it does."
  ),
  Command.withExamples([
    {
      command: "LLM_BASE_URL=http://localhost:11434/v1 LLM_MODEL=qwen3 checkrein demo tasks",
      description: "A model on this machine"
    }
  ])
)
