/**
 * Runs the handlers of a toolkit.
 *
 * A toolkit whose handlers are in the context is driven straight through them: no queue, no stream and no turn of the
 * event loop for a call that needs none, which halves what a turn costs; and the raw arguments never get onto a span.
 * One that brings its own `handle`, such as that of a remote server, is driven through it.
 */
import * as AiError from "effect/ai/AiError"
import type * as Prompt from "effect/ai/Prompt"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { duration } from "../run/Given.ts"
import { Timeout } from "../tool/ToolPolicy.ts"
import { ambient } from "./Ambient.ts"
import * as Author from "./Author.ts"
import * as Opaque from "./Opaque.ts"

/** A success of a tool, encoded, and what it wants the model to see instead. */
export interface Output {
  readonly encodedResult: unknown
  readonly modelOutput?: ReadonlyArray<Prompt.ToolModelOutputPart> | undefined
}

/** What a handler was asked, and what came: nothing has run if the arguments were wrong. */
export type Ran =
  | { readonly _tag: "Output"; readonly output: Output }
  | { readonly _tag: "WrongArguments"; readonly problem: string }
  | { readonly _tag: "Unencodable"; readonly problem: string }

/** The tools of an agent, and how a call is run. What the handler fails with is the failure, whatever the tool declares. */
export interface Tools {
  readonly tools: Record<string, Tool.Any>
  readonly run: (
    tool: Tool.Any,
    args: Schema.Json,
    callId: string,
    preliminary: (output: Output) => void
  ) => Effect.Effect<Ran, unknown>
}

/** Tools of which only the names are known. */
export type AnyToolkit = Toolkit.WithHandler<Record<string, Tool.Any>>

/** What an agent may be given as its tools. */
export type Given = AnyToolkit | Effect.Effect<AnyToolkit, unknown, unknown> | undefined

interface Codecs {
  readonly decode: (args: unknown) => Effect.Effect<unknown, Schema.SchemaError>
  /** Arguments as the tool's own schema encodes them, which is not always what JSON can carry. */
  readonly toEncoded: (args: unknown) => Effect.Effect<unknown, Schema.SchemaError>
  readonly encode: (result: unknown) => Effect.Effect<unknown, Schema.SchemaError>
  /** A result that the tool's own schema has encoded already, in the form that JSON can carry. */
  readonly toCarried: (result: unknown, encoded: unknown) => Effect.Effect<unknown>
}

const codecs = new WeakMap<Tool.Any, Codecs>()

/**
 * Arguments come as JSON, in the form that the tool's JSON Schema promises to take: a date is text there, and what may be
 * left out may be null.
 */
const parametersOf = (tool: Tool.Any): Pick<Codecs, "decode" | "toEncoded"> => {
  const { parametersSchema } = tool
  if (!Schema.isSchema(parametersSchema)) return { decode: Effect.succeed, toEncoded: Effect.succeed }
  const json = Schema.toCodecJson(parametersSchema)
  const decodeJson = Schema.decodeUnknownEffect(json)
  const decode = (args: unknown) => ambient(decodeJson(args))
  if (json.ast === parametersSchema.ast) return { decode, toEncoded: Effect.succeed }
  const encode = Schema.encodeUnknownEffect(parametersSchema)
  return { decode, toEncoded: (args) => Effect.flatMap(decode(args), (params) => ambient(encode(params))) }
}

/**
 * Results go out as JSON, as arguments come in. What a schema leaves open (`Unknown`) may hold what it cannot put into
 * JSON; then a result is encoded as the schema has it, and is what JSON makes of that.
 */
const resultOf = ({ successSchema }: Tool.Any): Pick<Codecs, "encode" | "toCarried"> => {
  const json = Schema.toCodecJson(successSchema)
  const plain = Schema.encodeUnknownEffect(successSchema)
  if (json.ast === successSchema.ast) {
    return { encode: (result) => ambient(plain(result)), toCarried: (_, encoded) => Effect.succeed(encoded) }
  }
  const inJson = Schema.encodeUnknownEffect(json)
  return {
    encode: (result) => ambient(Effect.catch(inJson(result), () => plain(result))),
    toCarried: (result, encoded) => ambient(Effect.orElseSucceed(inJson(result), () => encoded))
  }
}

const codecsOf = (tool: Tool.Any): Codecs => {
  const known = codecs.get(tool)
  if (known !== undefined) return known
  const made: Codecs = { ...parametersOf(tool), ...resultOf(tool) }
  codecs.set(tool, made)
  return made
}

/** Decodes the arguments of a tool, with a decoder that is made once. */
export const decode = (tool: Tool.Any, args: unknown): Effect.Effect<unknown, Schema.SchemaError> =>
  codecsOf(tool).decode(args)

const isPart = (part: unknown): boolean =>
  Predicate.hasProperty(part, "type") && part.type === "text"
    ? Predicate.hasProperty(part, "text") && typeof part.text === "string"
    : Predicate.hasProperty(part, "mediaType") && typeof part.mediaType === "string"

const isModelOutput = (value: unknown): value is NonNullable<Output["modelOutput"]> =>
  Array.isArray(value) && value.every(isPart)

/** A result with what its tool shows the model instead. A tool that shows nothing which could be read has done its work. */
const shown = (tool: Tool.Any, encodedResult: unknown, show: () => unknown): Effect.Effect<Output> => {
  const asked = { name: `toModelOutput of ${tool.name}`, what: "a list of parts", is: isModelOutput }
  const modelOutput = Author.yields(asked, show)
  return Result.isSuccess(modelOutput)
    ? Effect.succeed({ encodedResult, modelOutput: modelOutput.success })
    : Effect.as(Effect.logWarning(`${modelOutput.failure}, so the model reads the result`), { encodedResult })
}

const wrongArguments = ({ message }: Schema.SchemaError) =>
  Effect.succeed<Ran>({ _tag: "WrongArguments", problem: message })

const unencodable = (problem: string): Ran => ({
  _tag: "Unencodable",
  problem: `its result does not fit its \`success\` schema: ${problem}`
})

const throughHandler =
  (handler: Tool.Handler<string>): Tools["run"] =>
  (tool, args, callId, preliminary) => {
    const { decode, encode } = codecsOf(tool)
    const context: Toolkit.HandlerContext<Tool.Any> = {
      toolCallId: callId,
      preliminary: (result) =>
        Effect.match(encode(result), {
          onFailure: () => undefined,
          onSuccess: (encodedResult) => preliminary({ encodedResult })
        })
    }
    const { toModelOutput } = tool
    const encoded = (result: unknown) =>
      Effect.matchEffect(encode(result), {
        onFailure: ({ message }) => Effect.succeed(unencodable(message)),
        onSuccess: (encodedResult) =>
          toModelOutput === undefined
            ? Effect.succeed<Ran>({ _tag: "Output", output: { encodedResult } })
            : Effect.map(
                shown(tool, encodedResult, () => toModelOutput(result)),
                (output): Ran => ({ _tag: "Output", output })
              )
      })
    return Effect.matchEffect(decode(args), {
      onFailure: wrongArguments,
      onSuccess: (params) =>
        Effect.suspend(() => handler.handler(params, context)).pipe(
          // The caller's services win over those that were there when the handlers were made.
          Effect.updateContext((here: Context.Context<never>) => Context.merge(handler.context, here)),
          Effect.flatMap(encoded)
        )
    })
  }

/** A failure of `handle` that is about its arguments or its result, and not the handler's own. */
const ofHandle = (cause: Cause.Cause<unknown>): Effect.Effect<Ran, unknown> => {
  const origin = Context.get(Cause.annotations(cause), Toolkit.FailureOrigin)
  for (const reason of cause.reasons) {
    if (!Cause.isFailReason(reason) || !AiError.isAiError(reason.error)) continue
    const error = reason.error.reason
    if (origin === "parameters" && error._tag === "ToolParameterValidationError") {
      return Effect.succeed({ _tag: "WrongArguments", problem: error.description })
    }
    if (
      origin === "result" &&
      (error._tag === "ToolResultEncodingError" || error._tag === "InvalidToolResultError")
    ) {
      return Effect.succeed(unencodable(error.description))
    }
  }
  return Effect.failCause(cause)
}

const throughHandle =
  ({ handle }: AnyToolkit): Tools["run"] =>
  (tool, args, callId, preliminary) =>
    Effect.matchEffect(codecsOf(tool).toEncoded(args), {
      onFailure: wrongArguments,
      onSuccess: (encoded) => {
        const { toCarried } = codecsOf(tool)
        let last: Ran | undefined
        return ambient(handle(tool.name, encoded, callId)).pipe(
          Effect.flatMap((outputs) =>
            Stream.runForEach(outputs, (output) => {
              if (!output.isFailure) {
                const { modelOutput } = output
                return toCarried(output.result, output.encodedResult).pipe(
                  Effect.flatMap((encodedResult) =>
                    modelOutput === undefined
                      ? Effect.succeed<Output>({ encodedResult })
                      : shown(tool, encodedResult, () => modelOutput)
                  ),
                  Effect.flatMap((carried) => {
                    if (output.preliminary) preliminary(carried)
                    else last = { _tag: "Output", output: carried }
                    return Effect.void
                  })
                )
              }
              const origin = output.failureOrigin ?? "result"
              return Effect.failCause(
                Cause.annotate(Cause.fail(output.result), Context.make(Toolkit.FailureOrigin, origin))
              )
            })
          ),
          ambient,
          Effect.catchCause(ofHandle),
          Effect.map((ran) => ran ?? last ?? { _tag: "Unencodable", problem: "the tool put out no result" })
        )
      }
    })

/** Whether a toolkit is one whose handlers are found in the context. */
const isToolkit = (given: object): given is Toolkit.Toolkit<Record<string, Tool.Any>> =>
  "toHandlers" in given && "tools" in given && Effect.isEffect(given)

/** Whether tools come out of an effect of their author's, which may take its time and acquire something. */
export const areYielded = (given: Given): boolean =>
  given !== undefined && Effect.isEffect(given) && !isToolkit(given)

/** Whether the model's provider runs a tool itself, so that there is no handler of it. */
export const isProviders = (tool: Tool.Any): boolean => Tool.isProviderDefined(tool) && !tool.requiresHandler

const handlerOf = (tool: Tool.Any) => Context.Service<Tool.Handler<string>, Tool.Handler<string>>(tool.id)

/** The tools of a toolkit whose handlers are in the context. */
const fromContext = (toolkit: Toolkit.Toolkit<Record<string, Tool.Any>>): Effect.Effect<Tools> =>
  Effect.contextWith((context: Context.Context<never>) => {
    const runs = new Map<string, Tools["run"]>()
    const without: Array<string> = []
    for (const tool of Object.values(toolkit.tools)) {
      if (isProviders(tool)) continue
      const handler = Context.getOption(context, handlerOf(tool))
      if (handler._tag === "Some") runs.set(tool.name, throughHandler(handler.value))
      else without.push(tool.name)
    }
    // The types say so before, except where an agent is loaded from a module.
    if (without.length > 0) {
      const names = without.join(", ")
      return Effect.die(new TypeError(`no handler of ${names} is provided: add the layer of its toolkit`))
    }
    return Effect.succeed({
      tools: toolkit.tools,
      run: (tool, args, callId, preliminary) => {
        const run = runs.get(tool.name)
        return run === undefined
          ? Effect.die(new Error(`the tool ${tool.name} has no handler`))
          : run(tool, args, callId, preliminary)
      }
    })
  })

const ready = (given: Given): Effect.Effect<Tools, unknown, unknown> => {
  if (given === undefined) return fromContext(Toolkit.empty)
  if (isToolkit(given)) return fromContext(given)
  const resolved = Effect.isEffect(given) ? given : Effect.succeed(given)
  return Effect.map(resolved, (toolkit) => ({ tools: toolkit.tools, run: throughHandle(toolkit) }))
}

/** The time limits of tools are asked for where a call has been claimed already: there it would be too late. */
const checkTimeouts = (tools: ReadonlyArray<Tool.Any>): Effect.Effect<void> => {
  const wrong = tools.filter(({ annotations }) => {
    const own = Context.get(annotations, Timeout)
    return own !== undefined && !duration.is(own)
  })
  if (wrong.length === 0) return Effect.void
  const names = wrong.map(({ name }) => name).join(", ")
  return Effect.die(new TypeError(`the ToolPolicy.Timeout of ${names} is no duration, as "20 seconds" is`))
}

/** Makes the given tools ready to be run. */
export const make = (given: Given): Effect.Effect<Tools, unknown, unknown> =>
  Effect.tap(ready(given), ({ tools }) => {
    const ours = Object.values(tools).filter((tool) => !isProviders(tool))
    return Effect.andThen(checkTimeouts(ours), Opaque.warn(ours))
  })
