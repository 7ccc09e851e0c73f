/**
 * What a run has to come to when its agent has an `output`: the tool with which the result is submitted, the one with
 * which a person is asked, and how a submitted result is read.
 */
import * as Tool from "effect/ai/Tool"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as SchemaAST from "effect/SchemaAST"
import type * as RunEvent from "../run/RunEvent.ts"
import { Purpose } from "../tool/ToolPolicy.ts"
import * as Json from "./Json.ts"
import * as ToolRunner from "./ToolRunner.ts"

import * as Words from "./Words.ts"

/** A contract, made once for an agent. */
export interface Contract {
  /** Its arguments are the result. */
  readonly submit: Tool.Any
  readonly ask: Tool.Any
  /** Reads the arguments of a submission as the output. */
  readonly read: (submission: unknown) => Effect.Effect<unknown, Schema.SchemaError>
  /** What a journal says of it. */
  readonly inJournal: () => RunEvent.Contract
}

const ask = Tool.make(Words.inputTool, {
  description:
    "Asks a person. Use it only for what no tool can find out: a decision, a preference, a fact that nobody wrote down.",
  parameters: Schema.Struct({
    question: Schema.String.annotate({ description: "The question, complete in itself." })
  }),
  success: Schema.String
})

/** The longest JSON Schema of a result that a journal holds, in characters. */
const longestSchema = 8000

/** What a tool takes as a JSON Schema, unless that is long, or the tool's parameters have none. */
const schemaOf = (tool: Tool.Any): Schema.Json | undefined => {
  const schema = Result.try(() => Json.kept(Tool.getJsonSchema(tool), null))
  if (Result.isFailure(schema) || schema.success === undefined) return undefined
  return JSON.stringify(schema.success).length > longestSchema ? undefined : schema.success
}

const lazily = <A>(make: () => A): (() => A) => {
  let made: { readonly value: A } | undefined
  return () => {
    made ??= { value: make() }
    return made.value
  }
}

/**
 * The contract of an output. It is submitted in the form that JSON can carry, so that a date, say, is text: itself where
 * that is an object, else in an object around it.
 */
export const make = (output: Schema.Top): Contract => {
  const json = Schema.toCodecJson(output)
  const isObject = SchemaAST.isObjects(SchemaAST.toEncoded(json.ast))
  // A result is worth a reserve as much as a handoff is.
  const submit = Tool.make(Words.submitTool, {
    description:
      "Submits the result. The task is complete when a valid result was submitted, and not before.",
    parameters: isObject ? json : Schema.Struct({ result: json }),
    success: Schema.String
  }).annotate(Purpose, "handoff")
  const inside = (decoded: unknown): unknown =>
    typeof decoded === "object" && decoded !== null && "result" in decoded ? decoded.result : decoded
  return {
    submit,
    ask,
    read: (submission) => {
      const decoded = ToolRunner.decode(submit, submission)
      return isObject ? decoded : Effect.map(decoded, inside)
    },
    inJournal: lazily(() => {
      const schema = schemaOf(submit)
      return { tool: submit.name, ...(schema === undefined ? undefined : { schema }) }
    })
  }
}

/**
 * An agent's tools with those of its contract. These are settled by the loop; run, they only answer what it left to them:
 * a second submission, or a question that is none.
 */
export const addTo = ({ ask, submit }: Contract, own: ToolRunner.Tools): ToolRunner.Tools => ({
  tools: { ...own.tools, [submit.name]: submit, [ask.name]: ask },
  run: (tool, args, callId, preliminary) => {
    if (tool !== submit && tool !== ask) return own.run(tool, args, callId, preliminary)
    const answer = tool === submit ? Words.alreadySubmitted : Words.notAsked
    return Effect.match(ToolRunner.decode(tool, args), {
      onFailure: ({ message }): ToolRunner.Ran => ({ _tag: "WrongArguments", problem: message }),
      onSuccess: (): ToolRunner.Ran => ({ _tag: "Output", output: { encodedResult: answer } })
    })
  }
})
