/**
 * An agent as it was defined, its types erased, and how it is made ready to run where it is run.
 */
import * as Model from "effect/ai/Model"
import * as Telemetry from "effect/ai/Telemetry"
import * as Tool from "effect/ai/Tool"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as SchemaAST from "effect/SchemaAST"
import * as Spans from "../observe/Spans.ts"
import { PriceBook } from "../provider/PriceBook.ts"
import { RequestParams } from "../provider/RequestParams.ts"
import * as Tokens from "../provider/Tokens.ts"
import * as Limits from "../run/Limits.ts"
import { callsOf, textOf } from "../run/Message.ts"
import type { RunState } from "../run/RunState.ts"
import type { RunNotFound } from "../store/RunStore.ts"
import { ambient } from "./Ambient.ts"
import type { Contract, Job } from "./Job.ts"
import type * as Policy from "./Policy.ts"
import type * as ToolRunner from "./ToolRunner.ts"
import * as Words from "./Words.ts"

/** A money limit is set, and the price of the model is not known: put it into `PriceBook`. */
export class UnpricedModel extends Schema.TaggedError<UnpricedModel>()("UnpricedModel", {
  agent: Schema.String,
  model: Schema.String
}) {
  override get message(): string {
    return `${this.agent} has a money limit, but the price of the model ${this.model} is not known: add it to PriceBook`
  }
}

/** The stored run is not one of this agent: another agent's, or its result no longer fits this one's output. */
export class AgentMismatch extends Schema.TaggedError<AgentMismatch>()("AgentMismatch", {
  runId: Schema.String,
  agent: Schema.String,
  problem: Schema.String
}) {
  override get message(): string {
    return `run ${this.runId} cannot be taken up by ${this.agent}: ${this.problem}`
  }
}

/** What is refused before anything has run. */
export type Refused = UnpricedModel | AgentMismatch | Limits.InvalidLimits | RunNotFound

/** An agent as it was defined. */
export interface Definition {
  readonly name: string
  readonly instructions: string | undefined
  readonly tools: Effect.Effect<ToolRunner.Tools, unknown, unknown>
  /** The schema of what has to be submitted; `undefined` where the answer is text. */
  readonly output: Schema.Top | undefined
  /** The tools that `output` adds, made once. */
  readonly contract: ReadonlyArray<Tool.Any>
  readonly limits: Limits.LimitsInput
  readonly policy: Policy.Policy
  readonly stopWhen: ReadonlyArray<(state: RunState) => string | undefined>
  /** Provides what `Agent.provide` was given. */
  readonly provided: <A, E>(effect: Effect.Effect<A, E, unknown>) => Effect.Effect<A, unknown, unknown>
}

const Question = Schema.Struct({
  question: Schema.String.annotate({
    description: "The question, complete in itself."
  })
})

const askAPerson = Tool.make(Words.inputTool, {
  description:
    "Asks a person. Use it only for what no tool can find out: a decision, a preference, a fact that nobody wrote down.",
  parameters: Question,
  success: Schema.String
})

/**
 * What a model submits: the output itself where that is an object, else an object around it; in the form that JSON can
 * carry, so that a date, say, is submitted as text.
 */
const submissionOf = (output: Schema.Top): Schema.Top => {
  const json = Schema.toCodecJson(output)
  return isObject(json) ? json : Schema.Struct({ result: json })
}

const isObject = (schema: Schema.Top): boolean => SchemaAST.isObjects(SchemaAST.toEncoded(schema.ast))

const submitResult = (parameters: Schema.Top) =>
  Tool.make(Words.submitTool, {
    description:
      "Submits the result. The task is complete when a valid result was submitted, and not before.",
    parameters,
    success: Schema.String
  })

const contractOf = (output: Schema.Top): Contract => {
  const decode = Schema.decodeUnknownEffect(submissionOf(output))
  return {
    check: (args) =>
      Effect.match(ambient(decode(args)), {
        onFailure: (error) => error.message,
        onSuccess: () => undefined
      })
  }
}

/**
 * The agent's tools with those that a contract adds. These are settled by the loop; their handlers only answer what it
 * left to them: a second submission, or a question that is none.
 */
const withContract = (own: ToolRunner.Tools, contract: ReadonlyArray<Tool.Any>): ToolRunner.Tools => ({
  tools: { ...own.tools, ...Object.fromEntries(contract.map((tool) => [tool.name, tool])) },
  run: (tool, args, callId, preliminary) => {
    if (!contract.includes(tool)) return own.run(tool, args, callId, preliminary)
    const answer = tool.name === Words.submitTool ? Words.alreadySubmitted : Words.notAsked
    return Effect.match(ambient(Schema.decodeUnknownEffect(tool.parametersSchema)(args)), {
      onFailure: ({ message }): ToolRunner.Ran => ({ _tag: "WrongArguments", problem: message }),
      onSuccess: (): ToolRunner.Ran => ({ _tag: "Output", output: { encodedResult: answer } })
    })
  }
})

/** The tools that a contract adds. */
export const contractTools = (output: Schema.Top | undefined): ReadonlyArray<Tool.Any> =>
  output === undefined ? [] : [submitResult(submissionOf(output)), askAPerson]

/** Reads a run's result as the agent's output. */
export const readOutput = (
  definition: Definition,
  state: RunState
): Effect.Effect<unknown, AgentMismatch> => {
  const { output } = definition
  if (output === undefined) return Effect.succeed(state.result ?? "")
  const schema = submissionOf(output)
  return ambient(Schema.decodeUnknownEffect(schema)(state.result)).pipe(
    Effect.map((decoded) =>
      isObject(Schema.toCodecJson(output)) ||
      typeof decoded !== "object" ||
      decoded === null ||
      !("result" in decoded)
        ? decoded
        : decoded.result
    ),
    Effect.mapError(
      (error) =>
        new AgentMismatch({
          runId: state.runId,
          agent: definition.name,
          problem: `its stored result does not fit the agent's output: ${error.message}`
        })
    )
  )
}

/** The limits of a run: the agent's, and on top of them those given for the run. */
export const limitsOf = (
  definition: Definition,
  over: Limits.LimitsInput = {}
): Effect.Effect<Limits.Limits, Limits.InvalidLimits> =>
  Effect.fromResult(Limits.fromInput(Limits.override(definition.limits, over)))

/** The name of the model that is in force here, if the provider tells it. */
const modelHere = Effect.map(Effect.serviceOption(Model.ModelName), Option.getOrUndefined)

/** Makes an agent ready to run with the services that are here. */
export const prepare = Effect.fnUntraced(function* (definition: Definition, streaming: boolean) {
  const own = yield* definition.tools
  const taken = definition.contract.find(({ name }) => Object.hasOwn(own.tools, name))
  if (taken !== undefined) {
    return yield* Effect.die(
      new TypeError(`${definition.name} has an output, so ${taken.name} is the harness's tool`)
    )
  }
  const { output } = definition
  const tools = output === undefined ? own : withContract(own, definition.contract)
  const model = yield* modelHere
  const book = yield* PriceBook
  const provider = Option.getOrUndefined(yield* Effect.serviceOption(Model.ProviderName))
  const { maxOutputTokens, temperature, topP } = yield* RequestParams
  const before = Option.getOrUndefined(yield* Effect.serviceOption(Telemetry.CurrentSpanTransformer))
  const priceOf: Job["priceOf"] = (name) =>
    (name === undefined ? undefined : book.get(name)) ?? (model === undefined ? undefined : book.get(model))
  const job: Job = {
    agent: definition.name,
    tools,
    contract: output === undefined ? undefined : contractOf(output),
    rules: {
      repetition: definition.policy.repetition,
      stopWhen: definition.stopWhen
    },
    policy: definition.policy,
    streaming,
    model,
    priceOf,
    chatSpan: Spans.chat({ provider, model, temperature, topP, maxOutputTokens }, before),
    count: (prompt, tools, reply) => {
      const message = { role: "assistant" as const, content: reply.content }
      return Effect.zipWith(
        Tokens.countRequest(prompt.content, tools),
        Tokens.countReply(textOf(message), callsOf(message)),
        (promptTokens, completionTokens) => ({
          promptTokens,
          completionTokens
        })
      )
    }
  }
  return job
})
