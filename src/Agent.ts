/**
 * Agents: a model in a loop with tools, that always ends in one of five ways, for a reason that is written down.
 *
 * `make` defines one, `run` starts a run of it, `stream` does the same for a watcher, `resume` takes a stopped run up
 * again, and `decide` records what a person thinks of a call. `asTool` makes an agent a tool of another.
 *
 * @example
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Agent } from "checkrein"
 *
 * const poet = Agent.make("poet", { instructions: "Answer in rhyme.", limits: { turns: 3, usd: 0.01 } })
 * const program = Effect.map(Agent.run(poet, "Why do logs rotate?"), ({ output }) => output)
 * ```
 */
import type * as LanguageModel from "effect/ai/LanguageModel"
import type * as Tool from "effect/ai/Tool"
import type * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type * as Stream from "effect/Stream"
import { type Agent, definitionOf, fromDefinition } from "./loop/AgentHandle.ts"
import * as Contract from "./loop/Contract.ts"
import * as OwnedStream from "./loop/OwnedStream.ts"
import * as Policy from "./loop/Policy.ts"
import * as Provided from "./loop/Provided.ts"
import type { AgentMismatch, OutputMismatch, Refused, RunNotCompleted } from "./loop/Refused.ts"
import type { ResumeOptions, RunOptions } from "./loop/RunOptions.ts"
import * as Runs from "./loop/Runs.ts"
import * as StoredResult from "./loop/StoredResult.ts"
import { alone } from "./loop/Surroundings.ts"
import * as ToolRunner from "./loop/ToolRunner.ts"
import * as Given from "./run/Given.ts"
import type { LimitsInput } from "./run/Limits.ts"
import type { Message } from "./run/Message.ts"
import type { LiveEvent } from "./run/RunEvent.ts"
import { type Completed, isRunExit, type RunExit } from "./run/RunExit.ts"
import type { RunState } from "./run/RunState.ts"
import type { RunBusy, RunNotFound, RunStore, RunStoreError } from "./store/RunStore.ts"

export { type Agent, isAgent } from "./loop/AgentHandle.ts"
export { type AsTool, asTool } from "./loop/AgentTool.ts"
export { CancelReason } from "./loop/Cancel.ts"
export {
  answer,
  approve,
  CallNotPending,
  type CallRef,
  type Decision,
  decide,
  didNotHappen,
  happened,
  type Resolution,
  reject,
  resolve
} from "./loop/Decision.ts"
export type { PolicyInput, ToolErrors } from "./loop/Policy.ts"
export {
  AgentMismatch,
  HoldUnavailable,
  InvalidParams,
  MessageRefused,
  NoBudgetPool,
  NoModel,
  OutputMismatch,
  type Refused,
  RunNotCompleted,
  UnpricedModel
} from "./loop/Refused.ts"
export type { ResumeOptions, RunOptions } from "./loop/RunOptions.ts"

/** What an agent may be given besides its name. */
export interface Options<Tools extends Record<string, Tool.Any>, TE, TR, Out extends Schema.Top> {
  /** The system message of every run. */
  readonly instructions?: string | undefined
  /** The tools: a toolkit, whose handlers are provided around the run, or one that has its handlers already. */
  readonly toolkit?:
    | Toolkit.WithHandler<Tools>
    | Effect.Effect<Toolkit.WithHandler<Tools>, TE, TR>
    | undefined
  /**
   * What a run has to come to. With it, prose does not complete a run: the model has to call `submit_result` with a
   * value of this schema, and may ask a person with `request_input`. Without it, the answer is the model's text.
   */
  readonly output?: Out | undefined
  /** What a run may use. Default: 20 turns. */
  readonly limits?: LimitsInput | undefined
  /** How errors, repetition, reuse and retries are treated. */
  readonly policy?: Policy.PolicyInput | undefined
  /**
   * Conditions looked at before each model call, and before the tools that it asked for: those are pending then. The first
   * that yields a sentence stops the run with it.
   */
  readonly stopWhen?:
    | ((state: RunState) => string | undefined)
    | ReadonlyArray<(state: RunState) => string | undefined>
    | undefined
}

const kinds: Given.Kinds<Options<Record<string, Tool.Any>, unknown, unknown, Schema.Top>> = {
  instructions: Given.text,
  toolkit: { what: "a toolkit", is: (value) => Effect.isEffect(value) || Given.isRecord(value) },
  output: { what: "a schema", is: Schema.isSchema },
  limits: Given.anything,
  policy: Given.anything,
  stopWhen: {
    what: "a function, or a list of them",
    is: (value) => [value].flat().every((each) => typeof each === "function")
  }
}

/** What an agent needs to run. */
export type Services<A> = A extends Agent<unknown, unknown, infer R> ? R : never

/** What an agent's tools need besides their handlers. */
export type ToolServices<Tools extends Record<string, Tool.Any>> =
  | Tool.HandlerServices<Tools[keyof Tools]>
  | Tool.ParametersEncodingServices<Tools[keyof Tools]>

/**
 * Defines an agent. Nothing runs yet. Throws a `TypeError` if these options cannot be used: a misspelt one would be none.
 * Its limits are looked at when it is run, with those of the run on top of them.
 *
 * @example
 * ```ts
 * import { Schema } from "effect"
 * import { Tool, Toolkit } from "effect/ai"
 * import { Agent } from "checkrein"
 *
 * const ListFiles = Tool.make("list_files", { success: Schema.Array(Schema.String) }).annotate(Tool.Readonly, true)
 * const analyst = Agent.make("log-analyst", {
 *   instructions: "Answer from the log files.",
 *   toolkit: Toolkit.make(ListFiles),
 *   limits: { turns: 20, usd: 0.05, time: "10 minutes" }
 * })
 * ```
 */
export const make = <
  // biome-ignore lint/complexity/noBannedTypes: how effect writes the type of an empty toolkit
  Tools extends Record<string, Tool.Any> = {},
  TE = never,
  TR = never,
  Out extends Schema.Top = typeof Schema.String
>(
  name: string,
  options: Options<Tools, TE, TR, Out> = {}
): Agent<
  Out["Type"],
  TE,
  LanguageModel.LanguageModel | TR | ToolServices<Tools> | Out["DecodingServices"] | Out["EncodingServices"]
> => {
  const problem = Given.problemOf(options, "options", kinds)
  if (problem !== undefined) throw new TypeError(`${name} cannot be made: ${problem}`)
  const { stopWhen } = options
  // The loop knows tools by name alone; their types are kept in this function's result.
  const toolkit = options.toolkit as ToolRunner.Given
  return fromDefinition({
    name,
    instructions: options.instructions,
    tools: ToolRunner.make(toolkit),
    toolsAreYielded: ToolRunner.areYielded(toolkit),
    output: options.output,
    contract: options.output === undefined ? undefined : Contract.make(options.output),
    limits: options.limits === undefined ? {} : options.limits,
    policy: Policy.fromInput(options.policy),
    stopWhen: stopWhen === undefined ? [] : typeof stopWhen === "function" ? [stopWhen] : stopWhen,
    provided: undefined
  })
}

/**
 * Provides an agent with a layer: a cheaper model for a sub-agent, say, or its tools' handlers. A model in it is priced by
 * the `Model.ModelName` that comes with it, and never by that of the model around it.
 *
 * The layer is built anew for each run and closed when that ends. Building it takes of the run's `time`, and a Stop of the
 * run ends it; for closing it has the `interruptGrace` of the agent's policy, after which the run returns without it and the
 * log says so. What runs share, such as a `BudgetPool` or a pool of connections, belongs around them: `Effect.provide`
 * around all of them, or around `RunHost.layer`. So does their `RunStore`: one in the layer is not that of the run.
 *
 * @example
 * ```ts
 * import { Agent } from "checkrein"
 * import { Scripted } from "checkrein/provider"
 *
 * const offline = Agent.make("helper").pipe(
 *   Agent.provide(Scripted.layer(Scripted.make("hello", [Scripted.text("Hello.")])))
 * )
 * ```
 */
export const provide =
  <RO, LE, RI>(layer: Layer.Layer<RO, LE, RI>) =>
  <A, E, R>(self: Agent<A, E, R>): Agent<A, E | LE, Exclude<R, RO> | RI> => {
    const definition = definitionOf(self)
    const { provided = () => Effect.context<never>() } = definition
    return fromDefinition({
      ...definition,
      provided: (scope) => Provided.within(provided(scope), layer, scope)
    })
  }

/** How a run fails that gives no answer: one of the exits, or what is outside any run. */
export type Failure<E> = RunExit | RunBusy | RunStoreError | Refused | E

/**
 * Runs an agent until it ends. Completion is the success; every other ending is a typed failure that carries the state
 * of the run, except cancellation, which is interruption of the fiber.
 *
 * A `runId` that is stored already is not started again: the run is taken up where it is, with its own input and with
 * the `limits` given here, and a completed one yields its stored result. `after` starts with the transcript of a completed
 * run: a follow-up, with its own limits. Messages that no model would take are refused before anything is stored
 * (`RunStoreError`, `invalid`): none at all, a call without its result right after it, or a result without its call.
 *
 * @example
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Agent } from "checkrein"
 *
 * declare const analyst: Agent.Agent<string>
 *
 * const program = Agent.run(analyst, "Which log file mentions a timeout?", { limits: { turns: 5 } }).pipe(
 *   Effect.map(({ output, run }) => `${output} ($${run.costUsd})`),
 *   Effect.catchTag("MaxTurnsExceeded", ({ run }) => Effect.succeed(`no answer in ${run.turns} turns`))
 * )
 * ```
 */
export const run = <A, E, R>(
  agent: Agent<A, E, R>,
  input: string | ReadonlyArray<Message>,
  options: RunOptions = {}
): Effect.Effect<Completed<A>, Failure<E>, R | RunStore> =>
  typed<A, E, R>(Runs.run(definitionOf(agent), input, options, alone))

/**
 * Takes a stopped run up again, or one whose process has died. A completed run yields its stored result; a failed one
 * fails again unless `force` is set. `limits` change those that are named; `message` answers the question that the run
 * stopped for, or else is said to the model.
 *
 * Fails with `RunNotFound` for an unknown id, with `AgentMismatch` for a run of another agent, and with `RunBusy`
 * while somebody else drives it: after the death of a process until its lease has ended, 15 seconds at most unless
 * `RunStore.LeaseTime` says otherwise. Try again then, or leave it to `recover` of a `RunHost`.
 *
 * @example
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Agent } from "checkrein"
 *
 * declare const analyst: Agent.Agent<string>
 *
 * const program = Agent.run(analyst, "Free some space.").pipe(
 *   Effect.catchTag("BudgetExceeded", ({ run }) => Agent.resume(analyst, run.runId, { limits: { usd: 0.1 } }))
 * )
 * ```
 */
export const resume = <A, E, R>(
  agent: Agent<A, E, R>,
  runId: string,
  options: ResumeOptions = {}
): Effect.Effect<Completed<A>, Failure<E>, R | RunStore> =>
  typed<A, E, R>(Runs.resume(definitionOf(agent), runId, options, alone))

/**
 * Stores a run without driving it, and yields its id: `resume` drives it, here or in another process, and `RunHost` takes
 * it up. A run of this id that is stored already stays as it is, also if that happens at the same moment.
 *
 * @example
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Agent } from "checkrein"
 *
 * declare const analyst: Agent.Agent<string>
 *
 * const queued = Agent.create(analyst, "Which log file mentions a timeout?", { runId: "ticket-7" })
 * const later = Effect.flatMap(queued, (runId) => Agent.resume(analyst, runId))
 * ```
 */
export const create = <A, E, R>(
  agent: Agent<A, E, R>,
  input: string | ReadonlyArray<Message>,
  options: RunOptions = {}
): Effect.Effect<string, RunBusy | RunStoreError | Refused | E, R | RunStore> =>
  Runs.create(definitionOf(agent), input, options) as Effect.Effect<
    string,
    RunBusy | RunStoreError | Refused | E,
    R | RunStore
  >

/**
 * The stored result of a completed run, as `run` yields it: for whoever has had it driven elsewhere, by a `RunHost` say.
 * It drives nothing, and needs no model and no tools. An `output` whose schema needs services finds them around this.
 *
 * Fails with `RunNotFound` for an unknown id, with `RunNotCompleted` (which has the `status`) for a run that has no result,
 * with `AgentMismatch` for one of another agent, and with `OutputMismatch` if the result does not fit the `output` any more.
 *
 * @example
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Agent } from "checkrein"
 *
 * declare const analyst: Agent.Agent<string>
 *
 * const program = Agent.result(analyst, "night-shift").pipe(
 *   Effect.map(({ output, run }) => `${output} ($${run.costUsd})`),
 *   Effect.catchTag("RunNotCompleted", ({ status }) => Effect.succeed(`nothing yet: ${status}`))
 * )
 * ```
 */
export const result = <A, E, R>(
  agent: Agent<A, E, R>,
  runId: string
): Effect.Effect<
  Completed<A>,
  RunNotFound | RunNotCompleted | AgentMismatch | OutputMismatch | RunStoreError,
  RunStore
> =>
  // The output of an agent is of its own type: `make` has put the two together.
  Effect.map(StoredResult.read(definitionOf(agent), runId), (completed) => completed as Completed<A>)

/**
 * Stops a run, whoever drives it: its driver is told and stops within a second; a run that nobody drives is stopped at
 * once, after the runs below it: for each that is driven elsewhere it waits 10 s at most. `reason` becomes the detail of its
 * ending. A run that has completed, failed, been cancelled or stopped at a limit stays as it is; a `resume` of a `RunHost`
 * that was asked for before this and waits for its turn is dropped. A `reason` that is no text is refused (`RunStoreError`,
 * `invalid`). A sub-agent's run that is stopped by its own id stops alone; see `asTool`.
 *
 * No Stop is lost: one that comes while the run stops for something else, such as a decision, is obeyed by its driver on
 * the way out, or else by the next `resume`, before anything runs; that resume is interrupted with the reason.
 *
 * @example
 * ```ts
 * import { Agent } from "checkrein"
 *
 * const stop = Agent.cancel("night-shift", "the shift is over")
 * ```
 */
export const cancel: (
  runId: string,
  reason: string
) => Effect.Effect<void, RunNotFound | RunStoreError, RunStore> = Runs.cancel

/**
 * Runs an agent and streams what happens: the stored events, the model's text as it is written, and the progress of
 * tools. The stream owns the run: whoever stops reading cancels it. Whoever reads slowly does not hold it up, for its time
 * goes on and its model sends on: what happens meanwhile stays in memory until it is read.
 *
 * After `run_stopped` it ends when the run completed, and else fails as `run` does. A server that answers with it has to
 * end it there (`Stream.catch(() => Stream.empty)` or the like): a response that fails is cut off, with events that it had
 * not sent yet.
 *
 * @example
 * ```ts
 * import { Console, Stream } from "effect"
 * import { Agent } from "checkrein"
 *
 * declare const analyst: Agent.Agent<string>
 *
 * const program = Agent.stream(analyst, "Which log file mentions a timeout?").pipe(
 *   Stream.runForEach((event) => (event.type === "text_delta" ? Console.log(event.delta) : Console.log(event.type)))
 * )
 * ```
 */
export const stream = <A, E, R>(
  agent: Agent<A, E, R>,
  input: string | ReadonlyArray<Message>,
  options: RunOptions = {}
): Stream.Stream<LiveEvent, Failure<E>, R | RunStore> =>
  OwnedStream.of((watcher) =>
    typed<A, E, R>(Runs.run(definitionOf(agent), input, options, { isStreamed: () => true, watcher }))
  )

/** Where an erased run gets its agent's types back: `make` and `provide` have put them together, as for `create` above. */
const typed = <A, E, R>(
  effect: Effect.Effect<Completed<unknown>, unknown, unknown>
): Effect.Effect<Completed<A>, Failure<E>, R | RunStore> =>
  effect as Effect.Effect<Completed<A>, Failure<E>, R | RunStore>

/**
 * Every ending as one value: what failed with a `RunExit` succeeds with it. Interruption stays interruption.
 *
 * @example
 * ```ts
 * import { Effect, Match } from "effect"
 * import { Agent } from "checkrein"
 *
 * declare const analyst: Agent.Agent<string>
 *
 * const program = Agent.outcome(Agent.run(analyst, "Anything new?")).pipe(
 *   Effect.map((ending) => (ending._tag === "Completed" ? ending.output : ending.message))
 * )
 * ```
 */
export const outcome = <A, E, R>(
  self: Effect.Effect<Completed<A>, E, R>
): Effect.Effect<Completed<A> | Extract<E, RunExit>, Exclude<E, RunExit>, R> =>
  Effect.catch(self, (error) =>
    isExit(error) ? Effect.succeed(error) : Effect.fail(error as Exclude<E, RunExit>)
  )

const isExit = <E>(error: E): error is Extract<E, RunExit> => isRunExit(error)
