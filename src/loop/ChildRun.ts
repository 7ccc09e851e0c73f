/**
 * How a run that was started inside a tool call reaches the run around it.
 */
import * as Context from "effect/Context"
import type { Suspension } from "../run/RunEvent.ts"

/** What the call of a parent run offers to a child run. */
export interface ChildLink {
  /** Tells what the child has cost so far, in USD: a total, not a difference. */
  readonly charge: (totalUsd: number) => void
}

/** The parent's call; `undefined` outside a run. */
export const ChildLink = Context.Reference<ChildLink | undefined>("checkrein/loop/ChildLink", {
  defaultValue: () => undefined
})

/**
 * Raised, as a defect that only the loop knows, by the handler of a sub-agent whose run waits for somebody: the
 * parent's call is suspended with it.
 */
export class ChildSuspended {
  readonly suspension: Suspension
  constructor(suspension: Suspension) {
    this.suspension = suspension
  }
}
