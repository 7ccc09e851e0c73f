/**
 * What a model call is claimed at before it is sent: at an estimate, or, where the limits hold the worst case, at that.
 */
import type * as Prompt from "effect/ai/Prompt"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Tokens from "../provider/Tokens.ts"
import * as Limits from "../run/Limits.ts"
import * as Money from "../run/Money.ts"
import type { Estimate } from "../run/RunEvent.ts"
import type { RunState } from "../run/RunState.ts"
import * as State from "../run/RunState.ts"
import type { Job } from "./Job.ts"

/**
 * What the next call is expected to use if it never comes back: the size of the last one, without a tokeniser. The
 * first call of a run counts nothing.
 */
const estimate = (job: Job, state: RunState): Estimate => {
  const { completionTokens, promptTokens } = state.lastUsage
  const usage = { promptTokens: promptTokens + completionTokens, completionTokens }
  const price = job.priceOf(job.model)
  return { usage, costUsd: price === undefined ? 0 : Money.costOf(price, usage) }
}

/** The most that a call with this prompt can use. */
const worst = Effect.fnUntraced(function* (job: Job, prompt: ReadonlyArray<Prompt.Message>) {
  const promptTokens = yield* Tokens.countRequest(prompt, Object.values(job.tools.tools))
  const usage = { promptTokens, completionTokens: job.maxOutputTokens ?? 0 }
  const price = job.priceOf(job.model)
  const held: Estimate = { usage, costUsd: price === undefined ? 0 : Money.worstCostOf(price, usage) }
  return held
})

/** Claims the next model call; `ClaimRefused` if its worst case has to be held and does not fit. */
export const make = (
  job: Job,
  state: RunState,
  prompt: () => ReadonlyArray<Prompt.Message>,
  purpose: Limits.Purpose
): Effect.Effect<Result.Result<Estimate, Limits.ClaimRefused>> =>
  Effect.suspend(() => {
    if (state.limits.money !== "hold") return Effect.succeed(Result.succeed(estimate(job, state)))
    return Effect.map(worst(job, prompt()), (held) => {
      const needed = { usd: held.costUsd, tokens: Money.tokensOf(held.usage) }
      return Result.map(Limits.hold(state.limits, State.used(state), needed, purpose), () => held)
    })
  })

/** Whether a turn has used more than was held for it: another tokeniser has counted more than ours. */
export const exceeded = ({ claim, limits }: RunState, usage: Money.Usage, costUsd: number): boolean =>
  limits.money === "hold" &&
  claim !== undefined &&
  (costUsd > claim.estimate.costUsd || Money.tokensOf(usage) > Money.tokensOf(claim.estimate.usage))
