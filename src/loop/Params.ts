/**
 * The request parameters in force, looked at before anything runs: JSON makes `null` of a temperature of `NaN`, and the worst
 * case of a reply of `NaN` tokens can be held by nobody.
 */
import * as Effect from "effect/Effect"
import { RequestParams } from "../provider/RequestParams.ts"
import * as Given from "../run/Given.ts"
import { InvalidParams } from "./Refused.ts"

const kinds: Given.Kinds<RequestParams> = {
  temperature: Given.upTo(Number.POSITIVE_INFINITY),
  topP: Given.upTo(1),
  maxOutputTokens: Given.whole(1),
  stop: {
    what: "a list of texts",
    is: (value) => Array.isArray(value) && value.every((text) => typeof text === "string")
  },
  seed: { what: "a whole number", is: Number.isSafeInteger },
  reasoningEffort: Given.oneOf("none", "minimal", "low", "medium", "high", "xhigh"),
  parallelToolCalls: { what: "true or false", is: (value) => typeof value === "boolean" },
  extra: { what: "an object", is: Given.isRecord }
}

/** The parameters with which an agent's models are asked, if they can be asked with them. */
export const usable = (agent: string): Effect.Effect<RequestParams, InvalidParams> =>
  Effect.flatMap(RequestParams, (params) => {
    const problem = Given.problemOf(params, "RequestParams", kinds)
    return problem === undefined ? Effect.succeed(params) : Effect.fail(new InvalidParams({ agent, problem }))
  })
