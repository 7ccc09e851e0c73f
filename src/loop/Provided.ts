/**
 * What an agent brings along: a layer that stands between what is around its runs and what they see.
 */
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Model from "effect/ai/Model"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import { CapsOutput } from "../provider/RequestParams.ts"
import { ambient } from "./Ambient.ts"

/** What is said of a model beside it: of another one it says nothing. */
const withoutModel = Context.omit(
  LanguageModel.LanguageModel,
  Model.ModelName,
  Model.ProviderName,
  CapsOutput
)

/**
 * Builds a layer, and runs an effect with what it provides. A model in it stands for itself: the name, the
 * provider and the output cap around the effect are those of another model.
 */
export const within = <A, E, RO, LE, RI>(
  effect: Effect.Effect<A, E, unknown>,
  layer: Layer.Layer<RO, LE, RI>,
  scope: Scope.Scope
): Effect.Effect<A, E | LE, RI> =>
  Effect.flatMap(Layer.buildWithScope(layer, scope), (given) => {
    const bringsModel = Option.isSome(Context.getOption(given, LanguageModel.LanguageModel))
    return Effect.updateContext(ambient(effect), (around: Context.Context<never>) =>
      Context.merge(bringsModel ? withoutModel(around) : around, given)
    )
  })
