/**
 * What is asked of a model beside the prompt and the tools: temperature, output cap, stop sequences and the like.
 *
 * `effect/ai` carries none of these in its request options, so they travel as one `Context.Reference` that an adapter
 * reads when it builds a request. Set it around a whole run, around one agent, or around a single call.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import { picked } from "../run/Given.ts"

/**
 * Parameters of one model request. What is left out is left to the provider's default. An agent is not run with what is none
 * of these, or no number where one is asked for: it fails with `InvalidParams`.
 */
export interface RequestParams {
  /** Sampling temperature, usually 0 to 2. */
  readonly temperature?: number
  /** Nucleus sampling, 0 to 1. */
  readonly topP?: number
  /** The most tokens a reply may have, reasoning included. A reply that reaches it finishes with `length`. */
  readonly maxOutputTokens?: number
  /** Texts at which the model stops writing. */
  readonly stop?: ReadonlyArray<string>
  /** Asks for reproducible sampling, where the endpoint knows it. */
  readonly seed?: number
  /** How much a reasoning model should think. */
  readonly reasoningEffort?: "none" | "minimal" | "low" | "medium" | "high" | "xhigh"
  /** Whether the model may ask for several calls in one turn. */
  readonly parallelToolCalls?: boolean
  /** Further fields for the request body, passed on as they are; they win over the fields above. */
  readonly extra?: { readonly [field: string]: Schema.Json }
}

/**
 * The parameters in force; by default none.
 *
 * @example
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { RequestParams } from "checkrein/provider"
 *
 * declare const program: Effect.Effect<string>
 *
 * const cautious = program.pipe(
 *   Effect.provideService(RequestParams.RequestParams, { temperature: 0, maxOutputTokens: 2_000 })
 * )
 * ```
 */
export const RequestParams = Context.Reference<RequestParams>("checkrein/RequestParams", {
  defaultValue: (): RequestParams => ({})
})

/**
 * Whether the model in force keeps every reply within `maxOutputTokens`. The providers here say so; set it beside a
 * provider of your own that does, for `money: "hold"` relies on it. A model that comes with `Agent.provide` has to bring
 * its own; one that is put below another provider with `Effect.provide` inherits that one's, unless it brings `false`.
 *
 * @example
 * ```ts
 * import * as Layer from "effect/Layer"
 * import { RequestParams } from "checkrein/provider"
 *
 * const enforced = Layer.succeed(RequestParams.CapsOutput, true)
 * ```
 */
export const CapsOutput = Context.Reference<boolean>("checkrein/CapsOutput", { defaultValue: () => false })

const names = [
  "temperature",
  "topP",
  "maxOutputTokens",
  "stop",
  "seed",
  "reasoningEffort",
  "parallelToolCalls",
  "extra"
] as const

/**
 * Runs an effect with these parameters added to those in force; the ones given here win.
 *
 * @example
 * ```ts
 * import { Agent } from "checkrein"
 * import { RequestParams } from "checkrein/provider"
 *
 * declare const poet: Agent.Agent<string>
 *
 * const short = Agent.run(poet, "Why do logs rotate?").pipe(RequestParams.add({ maxOutputTokens: 200 }))
 * ```
 */
export const add =
  (params: RequestParams) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.updateService(effect, RequestParams, (current) => ({
      ...current,
      // What is misspelt stays in it, and is refused when an agent is run.
      ...params,
      ...picked(params, names)
    }))
