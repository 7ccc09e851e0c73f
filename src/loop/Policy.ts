/**
 * What an agent's author decides about errors, repetition, reuse, retries and work that goes on.
 */
import * as Duration from "effect/Duration"
import * as Given from "../run/Given.ts"
import type { Limits } from "../run/Limits.ts"
import type { RepetitionRule } from "../run/NextStep.ts"
import type { ToolFailure } from "../tool/ToolFailure.ts"

/** How a tool's failure is worded for the model: as the tool said it, without detail, by a function, or not at all. */
export type ToolErrors =
  | "informative"
  | "generic"
  | "fatal"
  | ((failure: ToolFailure, tool: string) => string)

/** The decisions, all optional. */
export interface PolicyInput {
  /** Default `informative`. `fatal` ends the run as `failed` at the first failure. */
  readonly toolErrors?: ToolErrors | undefined
  /**
   * What a `permanent` failure does: `stop` ends the run as `failed` (default), `continue` tells the model. Where a
   * failure ends the run, the reads and sub-agents that run beside it are interrupted, as a Stop would do.
   */
  readonly permanent?: "stop" | "continue" | undefined
  /**
   * Whether an identical call reuses the first one's result. `read-only` does so for read-only tools until any writer
   * starts or the run resumes, and never for a failure. `all` does so for every tool and never forgets, which loses
   * writes: it exists to show why not. Default `off`.
   */
  readonly dedupe?: "off" | "read-only" | "all" | undefined
  /** When the same call with the same result is named to the model, and when it ends the run. Default 3 and 5. */
  readonly repetition?: RepetitionRule | "off" | undefined
  /** How often a failed model call is tried again. Default 3. */
  readonly modelRetries?: number | undefined
  /** How long any one tool call may take, unless the tool says otherwise. Default: the time left to the run. */
  readonly toolTimeout?: Duration.Input | undefined
  /**
   * What happens at a limit to operations that still go on: they are left alone (`detach`, default), ended through their
   * tools' `Operation.Control` (`cancel`, 10 seconds at most), or given this long to come to their end, looked at every
   * second. A grace begins at the limit: a run that stops for its time ends that much later, and at most 10 seconds after
   * it if a look hangs. Wherever else a run stops, its operations are left alone.
   */
  readonly operations?: "detach" | "cancel" | { readonly grace: Duration.Input } | undefined
  /**
   * How long a tool or a model call that was interrupted, at a time limit or by a Stop, may take to clean up before the
   * run goes on without it and says that it may still be running. So long may close what the agent brings with
   * `Agent.provide`, too. Default 5 seconds. Sub-agents take what theirs need.
   */
  readonly interruptGrace?: Duration.Input | undefined
}

/** The decisions, complete. */
export interface Policy {
  readonly toolErrors: ToolErrors
  readonly permanent: "stop" | "continue"
  readonly dedupe: "off" | "read-only" | "all"
  readonly repetition: RepetitionRule | undefined
  readonly modelRetries: number
  readonly toolTimeout: Duration.Duration | undefined
  readonly operations: "detach" | "cancel" | { readonly grace: Duration.Duration }
  readonly interruptGraceMs: number
}

/** Options in place of one of these words. */
const orOptions = (...words: ReadonlyArray<string>): Given.Kind => {
  const { is, what } = Given.oneOf(...words)
  return { what: `${what}, or an object`, is: (value) => is(value) || Given.isRecord(value) }
}

const wordings = Given.oneOf("informative", "generic", "fatal")

const kinds: Given.Kinds<PolicyInput> = {
  toolErrors: {
    what: `${wordings.what}, or a function`,
    is: (value) => wordings.is(value) || typeof value === "function"
  },
  permanent: Given.oneOf("stop", "continue"),
  dedupe: Given.oneOf("off", "read-only", "all"),
  repetition: orOptions("off"),
  modelRetries: Given.wholeOrAll(0),
  toolTimeout: Given.duration,
  operations: orOptions("detach", "cancel"),
  interruptGrace: Given.duration
}

const repetitionKinds: Given.Kinds<RepetitionRule> = {
  nameAt: Given.wholeOrAll(1),
  stopAt: Given.wholeOrAll(1)
}

/** Why a policy cannot be used, if it cannot: what is misspelt would not be decided, and a limit of `NaN` is one of 0 ms. */
const problemOf = (input: PolicyInput): string | undefined => {
  const { operations, repetition } = input ?? {}
  return (
    Given.problemOf(input, "policy", kinds) ??
    (Given.isRecord(repetition)
      ? Given.problemOf(repetition, "policy.repetition", repetitionKinds, ["nameAt", "stopAt"])
      : undefined) ??
    (Given.isRecord(operations)
      ? Given.problemOf(operations, "policy.operations", { grace: Given.duration }, ["grace"])
      : undefined)
  )
}

const operationsOf = (operations: PolicyInput["operations"] = "detach"): Policy["operations"] =>
  typeof operations === "string" ? operations : { grace: Duration.fromInputUnsafe(operations.grace) }

/** Fills in the defaults. Throws a `TypeError` that says what cannot be used. */
export const fromInput = (input: PolicyInput = {}): Policy => {
  const problem = problemOf(input)
  if (problem !== undefined) throw new TypeError(problem)
  return {
    toolErrors: input.toolErrors ?? "informative",
    permanent: input.permanent ?? "stop",
    dedupe: input.dedupe ?? "off",
    repetition: input.repetition === "off" ? undefined : (input.repetition ?? { nameAt: 3, stopAt: 5 }),
    modelRetries: input.modelRetries ?? 3,
    toolTimeout: input.toolTimeout === undefined ? undefined : Duration.fromInputUnsafe(input.toolTimeout),
    operations: operationsOf(input.operations),
    interruptGraceMs: Duration.toMillis(Duration.fromInputUnsafe(input.interruptGrace ?? "5 seconds"))
  }
}

/**
 * How long what was interrupted may take to end, in milliseconds. A run that keeps time for a handoff does not wait away
 * more than half of it.
 */
export const graceMs = ({ interruptGraceMs }: Policy, { reserve }: Limits): number => {
  const kept = reserve?.timeMs ?? 0
  return kept > 0 ? Math.min(interruptGraceMs, kept / 2) : interruptGraceMs
}
