/**
 * The ways in which a run ends short of an answer, each a typed failure with the whole state in it.
 *
 * | status | failures |
 * |---|---|
 * | `max_turns_exceeded` | `MaxTurnsExceeded` |
 * | `budget_exceeded` | `BudgetExceeded` |
 * | `interrupted` | `ApprovalRequired`, `InputRequired`, `ProviderUnavailable`, `OutcomeUnknown`, `RunStalled`, `StopConditionMet`; or fiber interruption |
 * | `failed` | `RunFailed` |
 *
 * The fifth, `completed`, is the success `Completed`.
 *
 * The two exits at a limit carry a `handoff` for whoever takes the work over, with or without a reserve: there is always a
 * task and a way to go on. That of any other state is `Handoff.of`.
 */
import * as Schema from "effect/Schema"
import { WaitingCall } from "./Call.ts"
import * as Handoff from "./Handoff.ts"
import * as Limits from "./Limits.ts"
import * as State from "./RunState.ts"
import { approvalsOf, questionOf, unknownOf } from "./Waiting.ts"

/** What a stopped run waits for from people. */
export { approvalsOf, questionOf, unknownOf } from "./Waiting.ts"

/** A run that came to its end: the typed answer, and the state it ended in. */
export interface Completed<out A> {
  readonly _tag: "Completed"
  readonly output: A
  readonly run: State.RunState
}

const run = { run: State.RunState }

const sentence = (state: State.RunState): string =>
  `run ${state.runId} stopped: ${state.detail ?? state.reason ?? ""}`

/** The turn limit was reached. Resume with a higher one; calls of the last turn are still pending and will run. */
export class MaxTurnsExceeded extends Schema.TaggedError<MaxTurnsExceeded>()("MaxTurnsExceeded", {
  ...run,
  limit: Schema.Finite
}) {
  readonly status = "max_turns_exceeded"
  readonly resumable = true
  /** What the run leaves to whoever takes the work over; worked out from `run` each time it is asked for. */
  get handoff(): Handoff.Handoff {
    return Handoff.of(this.run)
  }
  override get message(): string {
    return sentence(this.run)
  }
}

/**
 * Money (USD), tokens, tool calls or time (ms) ran out: `used` of `limit`, of a shared budget as of when the run was
 * refused more. Resume with a higher limit, or, if a shared budget was used up (`run.exhausted.pool`), once that has more.
 */
export class BudgetExceeded extends Schema.TaggedError<BudgetExceeded>()("BudgetExceeded", {
  ...run,
  resource: Limits.Resource,
  used: Schema.Finite,
  limit: Schema.Finite
}) {
  readonly status = "budget_exceeded"
  readonly resumable = true
  /** What the run leaves to whoever takes the work over; worked out from `run` each time it is asked for. */
  get handoff(): Handoff.Handoff {
    return Handoff.of(this.run)
  }
  override get message(): string {
    return sentence(this.run)
  }
}

/** Calls wait for a decision: `Agent.decide` each, then resume the run. A call may belong to a child run. */
export class ApprovalRequired extends Schema.TaggedError<ApprovalRequired>()("ApprovalRequired", {
  ...run,
  calls: Schema.NonEmptyArray(WaitingCall)
}) {
  readonly status = "interrupted"
  readonly resumable = true
  override get message(): string {
    return sentence(this.run)
  }
}

/** The model asked a person a question: resume with the answer as `message`. */
export class InputRequired extends Schema.TaggedError<InputRequired>()("InputRequired", {
  ...run,
  runId: Schema.String,
  callId: Schema.String,
  question: Schema.String
}) {
  readonly status = "interrupted"
  readonly resumable = true
  override get message(): string {
    return `run ${this.run.runId} asks: ${this.question}`
  }
}

/**
 * The model could not be reached, turned a running agent away, or said nothing several times in a row. Nothing is lost:
 * resume when it is back.
 */
export class ProviderUnavailable extends Schema.TaggedError<ProviderUnavailable>()(
  "ProviderUnavailable",
  run
) {
  readonly status = "interrupted"
  readonly resumable = true
  override get message(): string {
    return sentence(this.run)
  }
}

/** Calls that change the world were started and never answered. Find out, `Agent.resolve` each, then resume. */
export class OutcomeUnknown extends Schema.TaggedError<OutcomeUnknown>()("OutcomeUnknown", {
  ...run,
  calls: Schema.NonEmptyArray(WaitingCall)
}) {
  readonly status = "interrupted"
  readonly resumable = true
  override get message(): string {
    return sentence(this.run)
  }
}

/** The model kept making the same call with the same result, although it was told. */
export class RunStalled extends Schema.TaggedError<RunStalled>()("RunStalled", {
  ...run,
  tool: Schema.String,
  count: Schema.Natural
}) {
  readonly status = "interrupted"
  readonly resumable = true
  override get message(): string {
    return sentence(this.run)
  }
}

/** A `stopWhen` condition held. */
export class StopConditionMet extends Schema.TaggedError<StopConditionMet>()("StopConditionMet", {
  ...run,
  condition: Schema.String
}) {
  readonly status = "interrupted"
  readonly resumable = true
  override get message(): string {
    return sentence(this.run)
  }
}

/** The run cannot go on: see `reason`. It is resumed only with `force`. */
export class RunFailed extends Schema.TaggedError<RunFailed>()("RunFailed", {
  ...run,
  reason: Schema.Literals(["provider_refused", "tool_fatal", "tool_permanent", "defect"]),
  detail: Schema.String
}) {
  readonly status = "failed"
  readonly resumable = false
  override get message(): string {
    return `run ${this.run.runId} failed: ${this.detail}`
  }
}

/** Every way in which a run ends short of an answer, interruption of the fiber apart. */
export const RunExit = Schema.Union([
  MaxTurnsExceeded,
  BudgetExceeded,
  ApprovalRequired,
  InputRequired,
  ProviderUnavailable,
  OutcomeUnknown,
  RunStalled,
  StopConditionMet,
  RunFailed
])
/** One of the failures with which a run stops short of an answer. */
export type RunExit = typeof RunExit.Type

/**
 * Whether a value is one of the exits.
 *
 * @example
 * ```ts
 * import { RunExit } from "checkrein"
 *
 * RunExit.isRunExit(new Error("something else")) // => false
 * ```
 */
export const isRunExit: (u: unknown) => u is RunExit = Schema.is(RunExit)

const isNonEmpty = <A>(items: ReadonlyArray<A>): items is readonly [A, ...Array<A>] => items.length > 0

/**
 * The exit that a stopped run stands for. `undefined` for a run that completed, that was cancelled (which is fiber
 * interruption) or that has not stopped.
 *
 * @example
 * ```ts
 * import { RunExit, type RunState } from "checkrein"
 *
 * declare const run: RunState.RunState
 *
 * const exit = RunExit.fromState(run)
 * const tag = exit?._tag // such as "MaxTurnsExceeded"
 * ```
 */
export const fromState = (run: State.RunState): RunExit | undefined => {
  const detail = run.detail ?? ""
  const { limit, resource, used } = run.exhausted ?? {
    limit: 0,
    resource: "turns",
    used: 0
  }
  switch (run.reason) {
    case "max_turns":
      return new MaxTurnsExceeded({ run, limit })
    case "max_budget":
      return new BudgetExceeded({ run, resource, used, limit })
    case "approval": {
      const calls = approvalsOf(run)
      return isNonEmpty(calls) ? new ApprovalRequired({ run, calls }) : undefined
    }
    case "input": {
      const question = questionOf(run)
      return question === undefined
        ? undefined
        : new InputRequired({
            run,
            runId: question.runId,
            callId: question.callId,
            question: question.text
          })
    }
    case "provider":
      return new ProviderUnavailable({ run })
    case "unknown_outcome": {
      const calls = unknownOf(run)
      return isNonEmpty(calls) ? new OutcomeUnknown({ run, calls }) : undefined
    }
    case "stalled": {
      const { count, tool } = run.repetition.worst ?? { count: 0, tool: "" }
      return new RunStalled({ run, tool, count })
    }
    case "stop_condition":
      return new StopConditionMet({ run, condition: detail })
    case "provider_refused":
    case "tool_fatal":
    case "tool_permanent":
    case "defect":
      return new RunFailed({ run, reason: run.reason, detail })
    case "answered":
    case "submitted":
    case "cancelled":
    case undefined:
      return undefined
  }
}
