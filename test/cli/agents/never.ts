/** An agent whose model never answers, with nothing that keeps a process alive. */
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import * as Agent from "../../../src/Agent.ts"

export const agent = Agent.make("never", { limits: { turns: 3 } })

export const layer = Layer.effect(
  LanguageModel.LanguageModel,
  LanguageModel.make({ generateText: () => Effect.never, streamText: () => Stream.never })
)
