/**
 * `checkrein run`: starts a run and drives it to its end.
 */
import { randomInt } from "node:crypto"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Agent from "../Agent.ts"
import { HoldUnavailable, NoModel, UnpricedModel } from "../loop/Refused.ts"
import { InvalidLimits } from "../run/Limits.ts"
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
  readonly repetition: Option.Option<"on" | "off">
  readonly tag: ReadonlyArray<string>
}

/** What is said of an agent that has no model. */
const noModel =
  "the agent has no model: have its module export a `layer` that provides a LanguageModel, or set LLM_BASE_URL and LLM_MODEL"

// No vowels and nothing that looks like something else: ids are typed by people, and should spell no words.
const letters = "bcdfghjkmnpqrstvwxz23456789"

/** A new run id: short enough to be typed, long enough not to come twice. */
export const newRunId = (): string =>
  Array.from({ length: 10 }, () => letters[randomInt(letters.length)]).join("")

/** What a run lacks is given in another way here than in code, and limits that contradict each other are flags. */
export const hint =
  (input: LimitFlags.Values) =>
  (error: unknown): unknown => {
    if (error instanceof NoModel) return new CommandFailed({ message: noModel })
    if (error instanceof UnpricedModel && error.model !== undefined) {
      const message = `the price of the model ${error.model} is not known, so money cannot be limited: set LLM_PRICE_INPUT and LLM_PRICE_OUTPUT (USD per million tokens)`
      return new CommandFailed({ message })
    }
    if (error instanceof HoldUnavailable) {
      const message = `the worst case of a model call is not known, so it cannot be held: set LLM_MAX_OUTPUT_TOKENS, the most tokens that a reply may have`
      return new CommandFailed({ message })
    }
    return error instanceof InvalidLimits && Object.keys(LimitFlags.toLimits(input)).length > 0
      ? new UsageError({ message: error.message })
      : error
  }

/** Runs a task. */
export const run = (input: Input) =>
  Effect.gen(function* () {
    if (Option.isSome(input.agent) && Option.isSome(input.root)) {
      const message =
        "--root is for the built-in log analyst, and --agent names another agent: use one of them"
      return yield* new UsageError({ message })
    }
    if (Option.isSome(input.agent) && Option.isSome(input.repetition)) {
      const message =
        "--repetition is for the built-in log analyst, and the agent of --agent has a policy of its own"
      return yield* new UsageError({ message })
    }
    if (input.task.trim() === "") return yield* new UsageError({ message: "the task is empty" })
    const { agent, standIn } = Option.isSome(input.agent)
      ? yield* AgentOf.ofModule(input.agent.value)
      : yield* AgentOf.logAnalyst(
          Option.getOrElse(input.root, () => "."),
          Option.getOrUndefined(input.repetition)
        )
    const root = newRunId()
    const where = {
      store: input.store,
      agent: Option.getOrUndefined(input.agent),
      root
    }
    const running = Agent.run(agent, input.task, {
      runId: root,
      limits: LimitFlags.toLimits(input),
      ...(input.tag.length === 0 ? undefined : { tags: input.tag })
    })
    yield* Drive.drive(running, {
      json: input.json,
      trace: input.trace,
      where
    }).pipe(Effect.provide(Layer.provideMerge(Models.layer(input.model, standIn), Store.layer(input.store))))
  }).pipe(Effect.mapError(hint(input)))
