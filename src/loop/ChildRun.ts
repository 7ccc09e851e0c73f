/**
 * How a run that was started inside a tool call reaches the run around it: what it may tell while it runs, and the
 * three ways in which its end is more than a tool's failure. They are raised as defects, which pass any handler, and
 * only the loop knows them.
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
 * What a parent lets a child use in all: what the parent knows that it has used, and what is held for it beside that.
 * Absent where the parent has no limit.
 */
export interface Allowance {
  readonly usd?: number | undefined
  readonly tokens?: number | undefined
  /** Whether the parent holds the worst case of each model call: then its children do so, too. */
  readonly hold: boolean
}

/** What the call of a parent run offers to a child run. */
export interface ChildLink {
  readonly allowance: Allowance
  /** What the child had used when this call was started. */
  readonly before: ChildUse
  /** Tells what the child has used so far. */
  readonly charge: (use: ChildUse) => void
}

/** The parent's call; `undefined` outside a run. */
export const ChildLink = Context.Reference<ChildLink | undefined>("checkrein/loop/ChildLink", {
  defaultValue: () => undefined
})

/** Whether a tool is an agent: whatever it is annotated with, its run may have changed something. */
export const IsAgent = Context.Reference<boolean>("checkrein/loop/IsAgent", {
  defaultValue: () => false
})

/** The child waits for somebody: the parent's call is suspended with it. */
export class ChildSuspended {
  readonly suspension: Suspension
  constructor(suspension: Suspension) {
    this.suspension = suspension
  }
}

/** The child was told to leave off, as its parent is: the call goes on when the parent is resumed. */
export class ChildLeftOff {}

/** The child has ended without an answer. These are the harness's words, so no policy rewords them. */
export class ChildEnded {
  readonly words: string
  /** For the journal alone. */
  readonly detail: string
  constructor(words: string, detail: string) {
    this.words = words
    this.detail = detail
  }
}

/** The child's store failed, or somebody else drives it: nothing is known that could be told a model. */
export class ChildStuck {
  readonly error: RunBusy | RunStoreError
  constructor(error: RunBusy | RunStoreError) {
    this.error = error
  }
}

/** The child was refused before anything ran: how its agent was made or is run is wrong, and trying again is no use. */
export class ChildRefused {
  readonly error: Refused
  constructor(error: Refused) {
    this.error = error
  }
}
