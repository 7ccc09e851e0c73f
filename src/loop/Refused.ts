/**
 * What is refused before anything has run: nothing is stored then, and what is stored already stays as it is.
 */
import * as Schema from "effect/Schema"
import * as Limits from "../run/Limits.ts"
import { RunStatus } from "../run/RunEvent.ts"
import { RunNotFound } from "../store/RunStore.ts"

/**
 * The agent has no model where it is run. The compiler sees to that; it is for agents whose types are not known, such as
 * those of a module that was loaded by its name.
 */
export class NoModel extends Schema.TaggedError<NoModel>()("NoModel", { agent: Schema.String }) {
  override get message(): string {
    return `${this.agent} has no model: provide a LanguageModel, around its runs or with Agent.provide`
  }
}

/**
 * A money limit is set, and the price of the model is not known: put it into `PriceBook`. `model` is absent where the
 * provider does not name its model: provide `Model.ModelName` of `effect/ai` beside it. `pool` names the shared budget
 * whose limit it is, if it is not the run's own.
 */
export class UnpricedModel extends Schema.TaggedError<UnpricedModel>()("UnpricedModel", {
  agent: Schema.String,
  model: Schema.optionalKey(Schema.String),
  pool: Schema.optionalKey(Schema.String)
}) {
  override get message(): string {
    const who =
      this.pool === undefined ? this.agent : `${this.agent} spends from the budget pool ${this.pool}, which`
    const name = this.model === undefined ? "[name]" : JSON.stringify(this.model)
    const entry = `PriceBook.layer({ ${name}: { input, output } }), in USD per million tokens`
    return this.model === undefined
      ? `${who} has a money limit, but its model has no name, and so no price: name it with Layer.succeed(Model.ModelName, name) beside it, and give its price with ${entry}`
      : `${who} has a money limit, but the price of the model ${this.model} is not known: give it with ${entry}`
  }
}

/**
 * The run spends from a shared budget, and where it is taken up there is none: what it used would be counted nowhere.
 * `pool` is the one that its journal names last; another one will do.
 */
export class NoBudgetPool extends Schema.TaggedError<NoBudgetPool>()("NoBudgetPool", {
  runId: Schema.String,
  pool: Schema.String
}) {
  override get message(): string {
    return `run ${this.runId} spends from the budget pool ${this.pool}, and there is none here: provide a BudgetPool, that one or another, around what takes the run up or with Agent.provide`
  }
}

/** The worst case of a model call is to be held (`money: "hold"`), and nothing says what it is. */
export class HoldUnavailable extends Schema.TaggedError<HoldUnavailable>()("HoldUnavailable", {
  agent: Schema.String,
  problem: Schema.String
}) {
  override get message(): string {
    return `${this.agent} cannot hold the worst case of its model calls: ${this.problem}`
  }
}

/** The models of the agent cannot be asked with the `RequestParams` that are in force where it is run. */
export class InvalidParams extends Schema.TaggedError<InvalidParams>()("InvalidParams", {
  agent: Schema.String,
  problem: Schema.String
}) {
  override get message(): string {
    return `the models of ${this.agent} cannot be asked like this: ${this.problem}`
  }
}

/** The stored run is another agent's, or that of another call of a parent. */
export class AgentMismatch extends Schema.TaggedError<AgentMismatch>()("AgentMismatch", {
  runId: Schema.String,
  agent: Schema.String,
  problem: Schema.String
}) {
  override get message(): string {
    return `run ${this.runId} cannot be taken up by ${this.agent}: ${this.problem}`
  }
}

/** The run whose result was asked for, or that a new one was to follow (`after`), has not completed. */
export class RunNotCompleted extends Schema.TaggedError<RunNotCompleted>()("RunNotCompleted", {
  runId: Schema.String,
  status: RunStatus
}) {
  override get message(): string {
    const next =
      this.status === "running"
        ? "wait until its driver is done, or, if its process has died, resume it"
        : this.status === "failed"
          ? "resume it with `force`, once its cause is mended"
          : "resume it first"
    return `run ${this.runId} has not completed (${this.status}), so it has no result, and no run can follow it: ${next}`
  }
}

/** What a host was to tell a run was not stored: the run does not go on. */
export class MessageRefused extends Schema.TaggedError<MessageRefused>()("MessageRefused", {
  runId: Schema.String,
  status: RunStatus
}) {
  override get message(): string {
    const why =
      this.status === "completed"
        ? "has completed: to go on from there, start another run with `after` it"
        : this.status === "failed"
          ? "has failed: resume it with `force`, once its cause is mended"
          : "was stopped at the same moment: resume it again if it is to go on"
    return `the message to run ${this.runId} was not stored, because the run ${why}`
  }
}

/** The run has completed, and its stored result does not fit the `output` that the agent has now. */
export class OutputMismatch extends Schema.TaggedError<OutputMismatch>()("OutputMismatch", {
  runId: Schema.String,
  agent: Schema.String,
  problem: Schema.String
}) {
  override get message(): string {
    return `the stored result of run ${this.runId} does not fit the output of ${this.agent}: ${this.problem}. RunStore.load reads it as it is (state.result)`
  }
}

const kinds = [
  NoModel,
  UnpricedModel,
  HoldUnavailable,
  InvalidParams,
  NoBudgetPool,
  AgentMismatch,
  RunNotCompleted,
  MessageRefused,
  OutputMismatch,
  Limits.InvalidLimits,
  RunNotFound
] as const

/** What is refused before anything has run. */
export type Refused = InstanceType<(typeof kinds)[number]>

/** Whether a failure is one of these. */
export const isRefused = (u: unknown): u is Refused => kinds.some((kind) => u instanceof kind)
