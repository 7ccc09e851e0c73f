/**
 * A model that stands in for those of effect's own provider packages: it is given `effect/ai` messages, and writes the
 * results of tools onto the wire as these packages do.
 */
import * as LanguageModel from "effect/ai/LanguageModel"
import type * as Prompt from "effect/ai/Prompt"
import type * as Response from "effect/ai/Response"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"

export const finish = (reason: Response.FinishReason): Response.FinishPartEncoded => ({
  type: "finish",
  reason,
  usage: {
    inputTokens: { uncached: 100, total: 100, cacheRead: 0, cacheWrite: 0 },
    outputTokens: { total: 10, text: 10, reasoning: 0 }
  },
  response: undefined
})

/** A reply of text. */
export const says = (text: string): ReadonlyArray<Response.PartEncoded> => [
  { type: "text", text },
  finish("stop")
]

/** A reply of calls, by their ids: the tool and the arguments of each. */
export const calls = (
  asked: Record<string, readonly [name: string, params?: unknown]>
): ReadonlyArray<Response.PartEncoded> => [
  ...Object.entries(asked).map(
    ([id, [name, params = {}]]): Response.PartEncoded => ({ type: "tool-call", id, name, params })
  ),
  finish("tool-calls")
]

/** The tool results of a prompt. */
const resultsOf = (prompt: Prompt.Prompt): ReadonlyArray<Prompt.ToolResultPart> =>
  prompt.content.flatMap((message) =>
    message.role === "tool" ? message.content.filter((part) => part.type === "tool-result") : []
  )

/** A model with these replies, one for each request. */
export const packageModel = (replies: ReadonlyArray<ReadonlyArray<Response.PartEncoded>>) => {
  const prompts: Array<Prompt.Prompt> = []
  const next = (prompt: Prompt.Prompt) => [...(replies[prompts.push(prompt) - 1] ?? says("done"))]
  return {
    prompts,
    /** What stands for each result on the wire of the last request, by call id, where all of it is JSON. */
    wire: (): Record<string, string> =>
      Object.fromEntries(
        prompts
          .slice(-1)
          .flatMap(resultsOf)
          .map(({ id, result }) => [id, JSON.stringify(result)])
      ),
    layer: Layer.effect(
      LanguageModel.LanguageModel,
      LanguageModel.make({
        generateText: ({ prompt }) => Effect.sync(() => next(prompt)),
        streamText: ({ prompt }) =>
          Stream.suspend(() =>
            Stream.fromIterable(
              next(prompt).flatMap((part): ReadonlyArray<Response.StreamPartEncoded> => {
                if (part.type !== "text") return part.type === "reasoning" ? [] : [part]
                return [
                  { type: "text-start", id: "t" },
                  { type: "text-delta", id: "t", delta: part.text },
                  { type: "text-end", id: "t" }
                ]
              })
            )
          )
      })
    )
  }
}
