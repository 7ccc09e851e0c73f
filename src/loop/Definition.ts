/**
 * An agent as it was defined, its types erased, and how it is made ready to run where it is run.
 */
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Model from "effect/ai/Model"
import * as Telemetry from "effect/ai/Telemetry"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as RunSpans from "../observe/RunSpans.ts"
import { PriceBook } from "../provider/PriceBook.ts"
import { CapsOutput } from "../provider/RequestParams.ts"
import * as Tokens from "../provider/Tokens.ts"
import * as Limits from "../run/Limits.ts"
import { callsOf, textOf } from "../run/Message.ts"
import type * as RunExit from "../run/RunExit.ts"
import type { RunState } from "../run/RunState.ts"
import { BudgetPool } from "../store/BudgetPool.ts"
import * as Contract from "./Contract.ts"
import type { Job } from "./Job.ts"
import * as Params from "./Params.ts"
import type * as Policy from "./Policy.ts"
import * as PoolClaims from "./PoolClaims.ts"
import { Probe } from "./Probe.ts"
import { HoldUnavailable, NoModel, OutputMismatch, UnpricedModel } from "./Refused.ts"
import type * as ToolRunner from "./ToolRunner.ts"

/** An agent as it was defined. */
export interface Definition {
  readonly name: string
  readonly instructions: string | undefined
  readonly tools: Effect.Effect<ToolRunner.Tools, unknown, unknown>
  /** Whether making the tools is the author's code, and not a look at what is around the run. */
  readonly toolsAreYielded: boolean
  /** The schema of what has to be submitted; `undefined` where the answer is text. */
  readonly output: Schema.Top | undefined
  /** What `output` asks for. */
  readonly contract: Contract.Contract | undefined
  readonly limits: Limits.LimitsInput
  readonly policy: Policy.Policy
  readonly stopWhen: ReadonlyArray<(state: RunState) => string | undefined>
  /**
   * Builds what `Agent.provide` was given, and yields what a run sees then: that, and what is around it. `undefined` where
   * that is all.
   */
  readonly provided:
    | ((scope: Scope.Scope) => Effect.Effect<Context.Context<never>, unknown, unknown>)
    | undefined
}

/** Reads a run's result as the agent's output. */
const readOutput = (definition: Definition, state: RunState): Effect.Effect<unknown, OutputMismatch> => {
  const { contract } = definition
  if (contract === undefined) return Effect.succeed(state.result ?? "")
  return contract.read(state.result).pipe(
    Effect.mapError(
      (error) =>
        new OutputMismatch({
          runId: state.runId,
          agent: definition.name,
          problem: error.message
        })
    )
  )
}

/** What a completed run comes to. */
export const completed = (
  definition: Definition,
  run: RunState
): Effect.Effect<RunExit.Completed<unknown>, OutputMismatch> =>
  Effect.map(readOutput(definition, run), (output) => ({ _tag: "Completed", output, run }))

// Reading limits takes as long as a tenth of a turn, and most runs have those of their agent.
const read = new WeakMap<Definition, ReturnType<typeof Limits.fromInput>>()

const ownLimits = (definition: Definition) => {
  const known = read.get(definition)
  if (known !== undefined) return known
  const limits = Limits.fromInput(definition.limits)
  read.set(definition, limits)
  return limits
}

/** The limits of a run: the agent's, and on top of them those given for the run. */
export const limitsOf = (
  definition: Definition,
  over?: Limits.LimitsInput
): Effect.Effect<Limits.Limits, Limits.InvalidLimits> =>
  Effect.fromResult(
    over === undefined ? ownLimits(definition) : Limits.fromInput(Limits.override(definition.limits, over))
  )

/** The name of the model that is in force here, if the provider tells it. */
const modelHere = Effect.map(Effect.serviceOption(Model.ModelName), Option.getOrUndefined)

/**
 * What a run with these limits has here, whatever its tools are. Refuses an agent that has no model here, or parameters
 * with which none can be asked; one whose worst case would have to be held and cannot be told; and one whose cost is
 * limited and has no price.
 */
export const means = Effect.fnUntraced(function* (
  { name: agent }: Pick<Definition, "name">,
  { money, usd }: Limits.Limits
) {
  if (Option.isNone(yield* Effect.serviceOption(LanguageModel.LanguageModel)))
    return yield* new NoModel({ agent })
  const params = yield* Params.usable(agent)
  if (money === "hold") {
    if (params.maxOutputTokens === undefined) {
      const problem = "set RequestParams.maxOutputTokens, so that a reply has a largest size"
      return yield* new HoldUnavailable({ agent, problem })
    }
    if (!(yield* CapsOutput)) {
      const problem =
        "its provider does not say that it enforces maxOutputTokens; see RequestParams.CapsOutput"
      return yield* new HoldUnavailable({ agent, problem })
    }
  }
  const model = yield* modelHere
  const book = yield* PriceBook
  const priceOf: Job["priceOf"] = (name) =>
    (name === undefined ? undefined : book.get(name)) ?? (model === undefined ? undefined : book.get(model))
  const pool = Option.getOrUndefined(yield* Effect.serviceOption(BudgetPool))
  if (priceOf(model) === undefined) {
    const limited = usd === undefined ? yield* PoolClaims.ofMoney({ pool }) : undefined
    if (usd !== undefined || limited !== undefined) {
      return yield* new UnpricedModel({
        agent,
        ...(model === undefined ? undefined : { model }),
        ...(limited === undefined ? undefined : { pool: limited })
      })
    }
  }
  return { model, params, pool, priceOf }
})

/** What is known of an agent whose tools are not there. */
export const knownOf = Effect.fnUntraced(function* ({ contract, name: agent }: Definition) {
  const pool = Option.getOrUndefined(yield* Effect.serviceOption(BudgetPool))
  return { agent, contract, pool }
})

/** Makes an agent ready for a run with these limits; refuses one that has not the means for it. */
export const ready = Effect.fnUntraced(function* (
  definition: Definition,
  isStreamed: () => boolean,
  limits: Limits.Limits
) {
  const { model, params, pool, priceOf } = yield* means(definition, limits)
  const probe = yield* Probe
  const own = probe.tools(yield* definition.tools)
  const { contract } = definition
  const taken = [contract?.submit.name, contract?.ask.name].find(
    (name) => name !== undefined && Object.hasOwn(own.tools, name)
  )
  if (taken !== undefined) {
    return yield* Effect.die(
      new TypeError(`${definition.name} has an output, so ${taken} is the harness's tool`)
    )
  }
  const tools = contract === undefined ? own : Contract.addTo(contract, own)
  const provider = Option.getOrUndefined(yield* Effect.serviceOption(Model.ProviderName))
  const { maxOutputTokens, temperature, topP } = params
  const before = Option.getOrUndefined(yield* Effect.serviceOption(Telemetry.CurrentSpanTransformer))
  const job: Job = {
    agent: definition.name,
    tools,
    contract,
    rules: {
      repetition: definition.policy.repetition,
      stopWhen: definition.stopWhen
    },
    policy: definition.policy,
    isStreamed,
    probe,
    model,
    maxOutputTokens,
    pool,
    priceOf,
    chatSpan: RunSpans.chat({ provider, model, temperature, topP, maxOutputTokens }, before),
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
