/**
 * Whether a model goes in circles: how often the same call has brought the same result since there was new evidence.
 */
import * as Schema from "effect/Schema"
import type { Purpose } from "./Limits.ts"
import type { Of } from "./RunEvent.ts"

/**
 * The counts of a run. `epoch` rises with every result that was never seen before, and a count of an older epoch is
 * void; `worst` is the highest of this epoch.
 */
export const Repetition = Schema.Struct({
  epoch: Schema.Natural,
  seen: Schema.Record(Schema.String, Schema.Struct({ epoch: Schema.Natural, count: Schema.Natural })),
  worst: Schema.optionalKey(Schema.Struct({ tool: Schema.String, count: Schema.Natural }))
})
/** How often a run has repeated itself since it last saw something new. */
export type Repetition = typeof Repetition.Type

/** Nothing seen yet. */
export const none = (): Repetition => ({ epoch: 0, seen: {} })

/** What of a call makes it the same as another. */
interface Call {
  readonly tool: string
  readonly argsDigest: string
  readonly purpose: Purpose
}

// Wrong arguments are the same mistake whatever they are.
const keyOf = ({ argsDigest, tool }: Call, digest: string, wrongArguments: boolean | undefined): string =>
  wrongArguments === true ? `${tool} !` : `${tool} ${argsDigest} ${digest}`

// What only observes work that goes on may say the same thing many times, but not get it wrong many times.
const counts = ({ purpose }: Call, wrongArguments: boolean | undefined): boolean =>
  purpose === "investigate" || wrongArguments === true

const countAfter = ({ epoch, seen }: Repetition, key: string): number => {
  const before = seen[key]
  return before === undefined || before.epoch !== epoch ? 1 : before.count + 1
}

/**
 * How often this call will have brought this result since the last new evidence, this time included. 0 for a call that
 * does not count: what only observes work that goes on may say the same thing many times.
 */
export const repeats = (
  repetition: Repetition,
  call: Call,
  digest: string,
  wrongArguments?: boolean
): number => (counts(call, wrongArguments) ? countAfter(repetition, keyOf(call, digest, wrongArguments)) : 0)

/**
 * The counts after a result. What was seen is one record for the whole run, added to in place: a copy for every result
 * would cost more with every turn.
 */
export const observe = (repetition: Repetition, call: Call, event: Of<"tool_result">): Repetition => {
  const told = event.disposition === "executed" || event.wrongArguments === true
  if (!told || !counts(call, event.wrongArguments)) return repetition
  const key = keyOf(call, event.digest ?? "", event.wrongArguments)
  const { epoch, seen, worst } = repetition
  const fresh = seen[key] === undefined && event.wrongArguments !== true
  const now = fresh ? epoch + 1 : epoch
  const count = countAfter({ epoch: now, seen }, key)
  const counted: Record<string, { epoch: number; count: number }> = seen
  counted[key] = { epoch: now, count }
  const still = fresh ? undefined : worst
  return {
    epoch: now,
    seen: counted,
    ...(still === undefined || count > still.count ? { worst: { tool: call.tool, count } } : { worst: still })
  }
}
