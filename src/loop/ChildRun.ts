/**
 * How a run that was started inside a tool call reaches the run around it: what it may tell while it runs, and the
 * three ways in which its end is more than a tool's failure. They are raised as defects, which pass any handler, and
 * only the loop knows them.
 */
import * as Context from "effect/Context"
import type { Suspension } from "../run/RunEvent.ts"
import type { RunBusy, RunStoreError } from "../store/RunStore.ts"
import type { Refused } from "./Definition.ts"

/** What the call of a parent run offers to a child run. */
export interface ChildLink {
  /** Tells what the child has cost so far, in USD: a total, not a difference. */
  readonly charge: (totalUsd: number) => void
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

/** The child has ended without an answer. These are the harness's words, so no policy rewords them. */
export class ChildEnded {
  readonly words: string
  constructor(words: string) {
    this.words = words
  }
}

/** The child could not be driven at all, and so the parent cannot go on: nothing is known that could be told a model. */
export class ChildStuck {
  readonly error: RunBusy | RunStoreError | Refused
  constructor(error: RunBusy | RunStoreError | Refused) {
    this.error = error
  }
}
