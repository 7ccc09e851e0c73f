/**
 * `checkrein run`: starts a run and drives it to its end.
 */
import { randomInt } from "node:crypto"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Agent from "../Agent.ts"
import * as AgentOf from "./AgentOf.ts"
import * as Drive from "./Drive.ts"
import * as Hint from "./Hint.ts"
import * as LimitFlags from "./LimitFlags.ts"
import * as Models from "./Models.ts"
import { UsageError } from "./Output.ts"
import type { Input } from "./RunCommand.ts"
import * as Store from "./Store.ts"

// No vowels and nothing that looks like something else: ids are typed by people, and should spell no words.
const letters = "bcdfghjkmnpqrstvwxz23456789"

/** A new run id: short enough to be typed, long enough not to come twice. */
export const newRunId = (): string =>
  Array.from({ length: 10 }, () => letters[randomInt(letters.length)]).join("")

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
    const root = newRunId()
    const { agent, standIn } = Option.isSome(input.agent)
      ? yield* AgentOf.ofModule(input.agent.value, { runId: root, tags: input.tag })
      : yield* AgentOf.logAnalyst(
          Option.getOrElse(input.root, () => "."),
          Option.getOrUndefined(input.repetition)
        )
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
  }).pipe(Hint.explained(input))
