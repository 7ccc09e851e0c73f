/**
 * What a run lacks, told as it is put right at the command line: by a flag, by the environment, or in the module of the
 * agent. In code it would be put right in other ways, of which the library's own sentences tell.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { HoldUnavailable, NoBudgetPool, NoModel, UnpricedModel } from "../loop/Refused.ts"
import { InvalidLimits } from "../run/Limits.ts"
import * as LimitFlags from "./LimitFlags.ts"
import { CommandFailed, sentenceOf, UsageError } from "./Output.ts"
import { quoted } from "./ShellWords.ts"

/** With what a run is driven, as far as it explains what is missing. */
interface Given extends LimitFlags.Values {
  readonly agent: Option.Option<string>
}

const noModel =
  "the agent has no model: have its module export a `layer` that provides a LanguageModel, or set LLM_BASE_URL and LLM_MODEL"

const unpriced = (model: string, { agent }: Given): string => {
  const problem = `the price of the model ${model} is not known, so money cannot be limited`
  const inEnvironment = "LLM_PRICE_INPUT and LLM_PRICE_OUTPUT (USD per million tokens)"
  const entry = `PriceBook.layer({ ${JSON.stringify(model)}: { input, output } })`
  return Option.isNone(agent)
    ? `${problem}: set ${inEnvironment}`
    : `${problem}: set ${inEnvironment} with LLM_MODEL=${quoted(model)}, or have the module's \`layer\` provide ${entry}`
}

const unheld = ({ problem }: HoldUnavailable, { agent }: Given): string =>
  Option.isNone(agent)
    ? "the worst case of a model call is not known, so it cannot be held: set LLM_MAX_OUTPUT_TOKENS, the most tokens that a reply may have"
    : `the worst case of a model call is not known, so it cannot be held: ${problem} (LLM_MAX_OUTPUT_TOKENS sets maxOutputTokens)`

const noPool = ({ pool, runId }: NoBudgetPool): string =>
  `run ${runId} spends from the budget pool ${pool}: give a module with --agent that exports \`budget\`, or whose \`layer\` provides a BudgetPool, that one or another`

// The compiler says so before, but not of an agent whose module was loaded by its name: effect's own words, and ours.
const lacks = /^(?:Service not found: |no handler of )/

/** What is wrong, in the words of the command line; what needs none is given back as it is. */
export const hint =
  (given: Given) =>
  (error: unknown): unknown => {
    const failed = (message: string) => new CommandFailed({ message })
    if (error instanceof NoModel) return failed(noModel)
    if (error instanceof UnpricedModel && error.model !== undefined)
      return failed(unpriced(error.model, given))
    if (error instanceof HoldUnavailable) return failed(unheld(error, given))
    if (error instanceof NoBudgetPool) return failed(noPool(error))
    if (error instanceof InvalidLimits && Object.keys(LimitFlags.toLimits(given)).length > 0)
      return new UsageError({ message: error.message })
    return Option.isSome(given.agent) && error instanceof Error && lacks.test(error.message)
      ? failed(
          `the agent module ${given.agent.value} is not complete (${sentenceOf(error)}): what its agent needs belongs into the \`layer\` that it exports`
        )
      : error
  }

/** Has a command fail in these words, also with what would be a defect in code, since its types say that it is there. */
export const explained =
  (given: Given) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, unknown, R> =>
    Effect.catchCause(effect, (cause) => {
      const error = Cause.squash(cause)
      const said = hint(given)(error)
      return said === error ? Effect.failCause(cause) : Effect.fail(said)
    })
