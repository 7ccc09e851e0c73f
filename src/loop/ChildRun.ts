/**
 * How a run that was started inside a tool call reaches the run around it: what it may tell while it runs, and how it
 * ends.
 */
import * as Context from "effect/Context"
import type { Suspension } from "../run/RunEvent.ts"
import * as RunState from "../run/RunState.ts"
import type { RunBusy, RunStoreError } from "../store/RunStore.ts"
import type { Refused } from "./Refused.ts"

/** What a child run has used, its own children included: totals, not differences. */
export interface ChildUse {
  readonly childCostUsd: number
  readonly childTokens: number
  /** Some of its turns have no known price, and count as free. */
  readonly childUnpriced?: true
}

/** What a child run has used by its own books. */
export const useOf = (child: RunState.RunState): ChildUse => {
  const { tokens, usd } = RunState.used(child)
  return {
    childCostUsd: usd,
    childTokens: tokens,
    ...(child.unpriced === true ? { childUnpriced: true } : undefined)
  }
}

/**
 * What a parent lets a child use. Of money and tokens in all: what the parent knows that it has used, and what is held for
 * it beside that; absent where the parent has no limit.
 */
export interface Allowance {
  readonly usd?: number | undefined
  readonly tokens?: number | undefined
  /** How long the child may be driven from now on, in milliseconds; `Infinity` without a limit. */
  readonly timeLeftMs: () => number
  /** Whether that is the time until a date, which is then the child's too. */
  readonly untilDate: () => boolean
  /** Whether the parent holds the worst case of each model call: then its children do so, too. */
  readonly hold: boolean
}

/** What the call of a parent run offers to a child run. */
export interface ChildLink {
  readonly allowance: Allowance
  /** Tells what the child has used so far. */
  readonly charge: (use: ChildUse) => void
  /** Whether it was cut off because the time of the call is up, and not because its parent is stopped. */
  readonly isLate: () => boolean
}

/** The parent's call; `undefined` outside a run. */
export const ChildLink = Context.Reference<ChildLink | undefined>("checkrein/loop/ChildLink", {
  defaultValue: () => undefined
})

/** Whether a tool is an agent: whatever it is annotated with, its run may have changed something. */
export const IsAgent = Context.Reference<boolean>("checkrein/loop/IsAgent", {
  defaultValue: () => false
})

/**
 * What the end of a child run is for the call that has started it, where that is more than a tool's failure:
 *
 * - `Suspended`: it waits for somebody, and so does the call
 * - `ChildLeftOff`: it was told to leave off, as its parent is, and the call goes on when the parent is resumed
 * - `ChildEnded`: it has no answer. `content` are the harness's words, which no policy rewords; `detail` is for the journal
 * - `ChildStuck`: its store or its shared budget cannot be had, somebody else drives it, or it has begun and cannot be taken
 *   up as its agent is now; nothing is known that could be told a model, and both runs go on once that is mended
 * - `ChildRefused`: how its agent was made or is run is wrong, so that nothing has begun, and trying again is no use
 */
export type ChildOutcome =
  | { readonly _tag: "Suspended"; readonly suspension: Suspension }
  | { readonly _tag: "ChildLeftOff" }
  | { readonly _tag: "ChildEnded"; readonly content: string; readonly detail: string }
  | { readonly _tag: "ChildStuck"; readonly error: RunBusy | RunStoreError | Refused }
  | { readonly _tag: "ChildRefused"; readonly problem: string }

/** Such an end on its way to the loop: a defect, for that passes any handler in between. */
export class ChildSignal {
  readonly outcome: ChildOutcome
  constructor(outcome: ChildOutcome) {
    this.outcome = outcome
  }
}
