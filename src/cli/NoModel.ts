/**
 * An agent without a model is refused, and told where to get one.
 *
 * Which model an agent has is only known where it is driven, within the layers that it brings. Whoever drives a run takes
 * its lease first, in that very context, and before anything is stored: so that is the place to look. What is found there
 * is no failure of the store, whose type has no room for it: it goes past the store as a defect, and `refused` makes it
 * the failure of the command that it is.
 */
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { RunStore } from "../store/RunStore.ts"
import { CommandFailed } from "./Output.ts"

/** What is said of an agent that has no model. */
export const noModel =
  "the agent has no model: have its module export a `layer` that provides a LanguageModel, or set LLM_BASE_URL and LLM_MODEL"

/** Only this module dies of it, so that `refused` takes no other defect for it. */
class Refused extends Data.Error<{ readonly message: string }> {}

/** A store that gives no lease to an agent whose model is the one that stands around the store, which is none. */
export const refusing = Layer.effect(
  RunStore,
  Effect.gen(function* () {
    const none = yield* LanguageModel.LanguageModel
    const store = yield* RunStore
    // A run that has its answer asks no model, and is only read.
    const hasCompleted = (runId: string) =>
      store.summary(runId).pipe(
        Effect.map(({ status }) => status === "completed"),
        Effect.catchTag("RunNotFound", () => Effect.succeed(false))
      )
    return RunStore.of({
      ...store,
      lease: Effect.fnUntraced(function* (runId) {
        const model = Option.getOrUndefined(yield* Effect.serviceOption(LanguageModel.LanguageModel))
        if (model === none && !(yield* hasCompleted(runId)))
          return yield* Effect.die(new Refused({ message: noModel }))
        return yield* store.lease(runId)
      })
    })
  })
)

/** A run whose agent has no model fails so. Nothing of it was stored, or it stays as it was. */
export const refused = <A, E, R>(running: Effect.Effect<A, E, R>): Effect.Effect<A, E | CommandFailed, R> =>
  Effect.catchDefect(running, (defect) =>
    defect instanceof Refused ? new CommandFailed({ message: defect.message }) : Effect.die(defect)
  )
