/**
 * `checkrein run`: starts a run and drives it to its end.
 */
import { randomInt } from "node:crypto"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Agent from "../Agent.ts"
import { UnpricedModel } from "../loop/Definition.ts"
import * as AgentOf from "./AgentOf.ts"
import * as Drive from "./Drive.ts"
import * as LimitFlags from "./LimitFlags.ts"
import * as Models from "./Models.ts"
import { CommandFailed, UsageError } from "./Output.ts"
import * as Store from "./Store.ts"

/** What `checkrein run` was given. */
export interface Input extends LimitFlags.Values {
  readonly task: string
  readonly root: Option.Option<string>
  readonly agent: Option.Option<string>
  readonly model: Option.Option<string>
  readonly store: string
  readonly json: boolean
  readonly trace: Option.Option<string>
}

// No vowels and nothing that looks like something else: ids are typed by people, and should spell no words.
const letters = "bcdfghjkmnpqrstvwxz23456789"

/** A new run id: short enough to be typed, long enough not to come twice. */
export const newRunId = (): string =>
  Array.from({ length: 10 }, () => letters[randomInt(letters.length)]).join("")

/** An unknown price is set in another way here than in code. */
export const priceHint = (error: unknown): unknown =>
  error instanceof UnpricedModel
    ? new CommandFailed({
        message: `the price of the model ${error.model} is not known, so money cannot be limited: set LLM_PRICE_INPUT and LLM_PRICE_OUTPUT (USD per million tokens)`
      })
    : error

/** Runs a task. */
export const run = (input: Input) =>
  Effect.gen(function* () {
    if (Option.isSome(input.agent) && Option.isSome(input.root)) {
      const message =
        "--root is for the built-in log analyst, and --agent names another agent: use one of them"
      return yield* new UsageError({ message })
    }
    if (input.task.trim() === "") return yield* new UsageError({ message: "the task is empty" })
    const { agent, standIn } = Option.isSome(input.agent)
      ? yield* AgentOf.ofModule(input.agent.value)
      : yield* AgentOf.logAnalyst(Option.getOrElse(input.root, () => "."))
    const root = newRunId()
    const where = {
      store: input.store,
      agent: Option.getOrUndefined(input.agent),
      root
    }
    const running = Agent.run(agent, input.task, {
      runId: root,
      limits: LimitFlags.toLimits(input)
    })
    yield* Drive.drive(running, {
      json: input.json,
      trace: input.trace,
      where
    }).pipe(Effect.provide(Layer.merge(Models.layer(input.model, standIn), Store.layer(input.store))))
  }).pipe(Effect.mapError(priceHint))
