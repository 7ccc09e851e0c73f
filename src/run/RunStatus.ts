/**
 * Where a run stands, and why it stopped there. Part of `RunEvent`, which is how users import it.
 */
import * as Schema from "effect/Schema"

/** The five ways in which a run ends. */
export const Stopped = Schema.Literals([
  "completed",
  "failed",
  "max_turns_exceeded",
  "budget_exceeded",
  "interrupted"
])

/** Where a run stands. */
export const RunStatus = Schema.Literals(["running", ...Stopped.literals])
/** Where a run stands: it runs, or has ended in one of the five ways. */
export type RunStatus = typeof RunStatus.Type

/** Why a run stopped. */
export const Reason = Schema.Literals([
  "answered",
  "submitted",
  "max_turns",
  "max_budget",
  "approval",
  "input",
  "provider",
  "unknown_outcome",
  "stalled",
  "stop_condition",
  "cancelled",
  "provider_refused",
  "tool_fatal",
  "tool_permanent",
  "defect"
])
/** Why a run stopped: the word beside its status. */
export type Reason = typeof Reason.Type
