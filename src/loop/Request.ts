/**
 * One request to the model, and what came of it: parts of a reply, and an error if it ended in one. It never fails, for
 * whatever a provider reports, or a model fails with, is an error of its kind.
 */
import * as AiError from "effect/ai/AiError"
import * as LanguageModel from "effect/ai/LanguageModel"
import type * as Prompt from "effect/ai/Prompt"
import type * as Response from "effect/ai/Response"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Stream from "effect/Stream"
import * as EvidenceIndex from "../run/EvidenceIndex.ts"
import * as Json from "./Json.ts"
import type * as ReplyTurn from "./ReplyTurn.ts"
import type { AnyToolkit } from "./ToolRunner.ts"

/** What is asked of the model. */
export interface Options {
  readonly prompt: Prompt.Prompt
  readonly toolkit: AnyToolkit
  readonly disableToolCallResolution: true
  readonly toolCallValidation: "deferred"
  readonly toolChoice: LanguageModel.ToolChoice<string>
}

const internalError = (description: string): AiError.AiError =>
  AiError.make({
    module: "checkrein",
    method: "ModelCall",
    reason: new AiError.InternalProviderError({ description })
  })

const jsonOf = (value: unknown): string =>
  JSON.stringify(Json.kept(value, null)) ?? "something that is no JSON"

/** What a provider reports as a part of its stream, or a model fails with whatever its type says, as an error of its kind. */
const reportedError = (error: unknown): AiError.AiError => {
  if (AiError.isAiError(error)) return error
  const words = error instanceof Error ? String(error) : typeof error === "string" ? error : jsonOf(error)
  return internalError(`the provider reported an error: ${EvidenceIndex.cut(words, 300)}`)
}

/** Asks for a stream. `parts` is where what arrives is put, so that it is known however the request ends. */
export const streamed = (options: Options, parts: Array<Response.AnyPart>, onText: (delta: string) => void) =>
  LanguageModel.streamText(options).pipe(
    Stream.runForEach((part) => {
      // It does not fail the stream by itself.
      if (part.type === "error") return Effect.fail(reportedError(part.error))
      parts.push(part)
      if (part.type === "text-delta") onText(part.delta)
      return Effect.void
    }),
    Effect.match({
      onFailure: (error): ReplyTurn.Attempt => ({ parts, error: reportedError(error) }),
      onSuccess: (): ReplyTurn.Attempt => ({ parts, error: undefined })
    })
  )

/** Asks for the reply as a whole. */
export const whole = (options: Options) =>
  LanguageModel.generateText(options).pipe(
    Effect.match({
      onFailure: (error): ReplyTurn.Attempt => ({ parts: [], error: reportedError(error) }),
      onSuccess: ({ content }): ReplyTurn.Attempt => ({
        parts: content,
        error: undefined
      })
    })
  )

/** What a request came to that has ended by itself. An interruption from inside is a failure: nobody has stopped the run. */
export const attemptOf = (
  exit: Exit.Exit<ReplyTurn.Attempt>,
  parts: ReadonlyArray<Response.AnyPart>
): Exit.Exit<ReplyTurn.Attempt> => {
  if (Exit.isSuccess(exit)) return exit
  const others = exit.cause.reasons.filter((reason) => !Cause.isInterruptReason(reason))
  return others.length > 0
    ? Exit.failCause(Cause.fromReasons(others))
    : Exit.succeed({ parts, error: internalError("the model call was interrupted from inside") })
}
