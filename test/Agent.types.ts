/**
 * What the types of an agent come to, without an annotation anywhere. Checked by `tsc`; nothing here is run.
 */
import type * as LanguageModel from "effect/ai/LanguageModel"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { Agent, CurrentCall, type Limits, type RunEvent, type RunExit, type RunStore } from "../src/index.ts"
import type { RunState } from "../src/run/RunState.ts"

type Eq<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
const ok = <T extends true>(): T | undefined => undefined

type Success<T> = T extends Effect.Effect<infer A, infer _E, infer _R> ? A : never
type Failure<T> = T extends Effect.Effect<infer _A, infer E, infer _R> ? E : never
type Services<T> = T extends Effect.Effect<infer _A, infer _E, infer R> ? R : never

class Db extends Context.Service<Db, { readonly rows: number }>()("types/Db") {}
class Other extends Context.Service<Other, { readonly other: true }>()("types/Other") {}
class ToolkitError extends Schema.TaggedError<ToolkitError>()("ToolkitError", {}) {}
class LayerError extends Schema.TaggedError<LayerError>()("LayerError", {}) {}

const Read = Tool.make("read_file", {
  parameters: Schema.Struct({ path: Schema.String }),
  success: Schema.String,
  dependencies: [Db]
})
const List = Tool.make("list_files", { success: Schema.Array(Schema.String) })

// What may go wrong that is not an exit of a run.
type Outside = RunStore.RunBusy | RunStore.RunStoreError | Agent.Refused
type Model = LanguageModel.LanguageModel

// --- make

export const bare = Agent.make("bare")
ok<Eq<typeof bare, Agent.Agent<string, never, Model>>>()

export const withTools = Agent.make("a", {
  toolkit: Toolkit.make(Read),
  limits: { turns: 2, time: "1 minute" }
})
ok<Eq<typeof withTools, Agent.Agent<string, never, Model | Tool.Handler<"read_file"> | Db>>>()

export const twoTools = Agent.make("a", { toolkit: Toolkit.make(Read, List) })
ok<
  Eq<
    typeof twoTools,
    Agent.Agent<string, never, Model | Tool.Handler<"read_file"> | Tool.Handler<"list_files"> | Db>
  >
>()

export const handled = Agent.make("a", {
  toolkit: null as unknown as Toolkit.WithHandler<{
    readonly read_file: typeof Read
  }>
})
ok<Eq<typeof handled, Agent.Agent<string, never, Model | Db>>>()

export const effectful = Agent.make("a", {
  toolkit: Effect.gen(function* () {
    const other = yield* Other
    if (!other.other) return yield* new ToolkitError()
    return yield* Toolkit.make(List)
  })
})
ok<Eq<typeof effectful, Agent.Agent<string, ToolkitError, Model | Other | Tool.Handler<"list_files">>>>()

export const typedOutput = Agent.make("a", {
  output: Schema.Struct({ file: Schema.String, at: Schema.DateFromString })
})
ok<Eq<typeof typedOutput, Agent.Agent<{ readonly file: string; readonly at: Date }, never, Model>>>()

export const numberOutput = Agent.make("a", { output: Schema.Int })
ok<Eq<typeof numberOutput, Agent.Agent<number, never, Model>>>()

export const withPolicy = Agent.make("a", {
  policy: {
    toolErrors: (failure, tool) => `${tool}: ${failure.message}`,
    repetition: { nameAt: 2, stopAt: 3 },
    dedupe: "read-only",
    toolTimeout: "20 seconds"
  },
  stopWhen: (state) => (state.turns > 2 ? `enough after ${state.turns}` : undefined)
})
ok<Eq<typeof withPolicy, Agent.Agent<string, never, Model>>>()
export const manyConditions = Agent.make("a", {
  stopWhen: [(state) => state.detail, () => undefined]
})
ok<Eq<typeof manyConditions, Agent.Agent<string, never, Model>>>()

// @ts-expect-error: no such limit
Agent.make("a", { limits: { dollars: 1 } })
// @ts-expect-error: no such option
Agent.make("a", { tools: [] })
// @ts-expect-error: a name is needed
Agent.make()
ok<Eq<NonNullable<Limits.LimitsInput["time"]>, Duration.Input>>()

// --- provide

export const ModelLive = null as unknown as Layer.Layer<Model, LayerError, Other>
export const provided = withTools.pipe(Agent.provide(ModelLive))
ok<Eq<typeof provided, Agent.Agent<string, LayerError, Other | Tool.Handler<"read_file"> | Db>>>()
export const providedTwice = withTools.pipe(
  Agent.provide(ModelLive),
  Agent.provide(Layer.succeed(Other, { other: true }))
)
ok<Eq<typeof providedTwice, Agent.Agent<string, LayerError, Tool.Handler<"read_file"> | Db>>>()
export const dataFirst = Agent.provide(ModelLive)(bare)
ok<Eq<typeof dataFirst, Agent.Agent<string, LayerError, Other>>>()

// --- run

export const running = Agent.run(withTools, "x")
ok<Eq<Services<typeof running>, RunStore.RunStore | Model | Db | Tool.Handler<"read_file">>>()
ok<Eq<Failure<typeof running>, RunExit.RunExit | Outside>>()
ok<Eq<Success<typeof running>, RunExit.Completed<string>>>()
ok<Eq<Success<typeof running>["run"], RunState>>()

export const runningEffectful = Agent.run(effectful, [{ role: "user", content: "x" }], {
  runId: "r",
  after: "q",
  limits: { usd: 1, reserve: { turns: 1 } }
})
ok<Eq<Failure<typeof runningEffectful>, RunExit.RunExit | Outside | ToolkitError>>()
export const runningProvided = Agent.run(provided, "x")
ok<Eq<Failure<typeof runningProvided>, RunExit.RunExit | Outside | LayerError>>()
export const runningTyped = Agent.run(typedOutput, "x")
ok<Eq<Success<typeof runningTyped>["output"], { readonly file: string; readonly at: Date }>>()

// --- the exits, narrowed by their tags

export const approving = running.pipe(
  Effect.catchTag("ApprovalRequired", (exit) => {
    ok<Eq<typeof exit, RunExit.ApprovalRequired>>()
    ok<Eq<(typeof exit)["status"], "interrupted">>()
    return Effect.forEach(exit.calls, (call) => Agent.decide(call, Agent.approve(), { by: "ann" })).pipe(
      Effect.andThen(Agent.resume(withTools, exit.run.runId))
    )
  })
)
ok<Eq<Success<typeof approving>, RunExit.Completed<string>>>()
ok<Eq<Services<typeof approving>, RunStore.RunStore | Model | Db | Tool.Handler<"read_file">>>()

export const allCaught = running.pipe(
  Effect.catchTags({
    ApprovalRequired: ({ calls: [first] }) => Effect.succeed(first.tool),
    BudgetExceeded: ({ limit, resource, used }) => Effect.succeed(`${resource}: ${used + limit}`),
    InputRequired: ({ question }) => Effect.succeed(question),
    MaxTurnsExceeded: ({ limit, run }) => Effect.succeed(`${run.turns} of ${limit}`),
    OutcomeUnknown: ({ calls }) => Effect.succeed(calls[0].callId),
    ProviderUnavailable: ({ run }) => Effect.succeed(run.detail ?? ""),
    RunFailed: ({ detail, reason }) => {
      ok<Eq<typeof reason, "provider_refused" | "tool_fatal" | "tool_permanent" | "defect">>()
      return Effect.succeed(`${reason}: ${detail}`)
    },
    RunStalled: ({ count, tool }) => Effect.succeed(`${tool} ${count}`),
    StopConditionMet: ({ condition }) => Effect.succeed(condition)
  })
)
ok<Eq<Failure<typeof allCaught>, Outside>>()
ok<Eq<Success<typeof allCaught>, RunExit.Completed<string> | string>>()

export const resumable = running.pipe(
  Effect.catchTag(["MaxTurnsExceeded", "RunFailed"], (exit) => {
    ok<Eq<typeof exit.status, "max_turns_exceeded" | "failed">>()
    ok<Eq<typeof exit.resumable, boolean>>()
    return Effect.succeed(exit.resumable ? exit.run.runId : "")
  })
)
ok<Eq<Success<typeof resumable>, RunExit.Completed<string> | string>>()

// --- resume

export const resumed = Agent.resume(withTools, "r", {
  limits: { turns: 4 },
  message: "go on",
  force: true
})
ok<Eq<Success<typeof resumed>, RunExit.Completed<string>>>()
ok<Eq<Failure<typeof resumed>, RunExit.RunExit | Outside | RunStore.RunNotFound>>()
ok<Eq<Services<typeof resumed>, RunStore.RunStore | Model | Db | Tool.Handler<"read_file">>>()
// @ts-expect-error: nothing follows a resume but what was there
Agent.resume(withTools, "r", { after: "q" })

// --- result

export const result = Agent.result(typedOutput, "r")
ok<Eq<Success<typeof result>["output"], { readonly file: string; readonly at: Date }>>()
ok<
  Eq<
    Failure<typeof result>,
    | RunStore.RunNotFound
    | RunStore.RunStoreError
    | Agent.RunNotCompleted
    | Agent.AgentMismatch
    | Agent.OutputMismatch
  >
>()
// Neither a model, nor tools, nor what provides them.
export const resultProvided = Agent.result(provided, "r")
ok<Eq<Services<typeof resultProvided>, RunStore.RunStore>>()
ok<Eq<Failure<typeof resultProvided>, Failure<typeof result>>>()

// --- stream

export const streaming = Agent.stream(effectful, "x", { runId: "r" })
ok<
  Eq<
    typeof streaming,
    Stream.Stream<
      RunEvent.LiveEvent,
      RunExit.RunExit | Outside | ToolkitError,
      RunStore.RunStore | Model | Other | Tool.Handler<"list_files">
    >
  >
>()
export const shown = streaming.pipe(
  Stream.map((event) => {
    switch (event.type) {
      case "text_delta":
        return `${event.attempt} ${event.delta}`
      case "tool_progress":
        return event.label
      case "run_stopped":
        return event.reason
      default:
        return event.type
    }
  })
)

// --- outcome

export const ending = Agent.outcome(running)
ok<Eq<Failure<typeof ending>, Outside>>()
ok<Eq<Success<typeof ending>, RunExit.Completed<string> | RunExit.RunExit>>()
ok<Eq<Services<typeof ending>, RunStore.RunStore | Model | Db | Tool.Handler<"read_file">>>()
export const endingEffectful = Agent.outcome(Agent.run(effectful, "x"))
ok<Eq<Failure<typeof endingEffectful>, Outside | ToolkitError>>()
export const endingCaught = Agent.outcome(allButFailed())
ok<Eq<Success<typeof endingCaught>["_tag"], "Completed" | "RunFailed">>()
function allButFailed() {
  return Effect.mapError(running, (error) => error as RunExit.RunFailed)
}

// --- decide, resolve

export const deciding = Agent.decide({ runId: "r", callId: "c" }, Agent.approve({ args: { path: "a" } }))
ok<Eq<Success<typeof deciding>, void>>()
ok<Eq<Services<typeof deciding>, RunStore.RunStore>>()
ok<Eq<Failure<typeof deciding>, RunStore.RunNotFound | RunStore.RunStoreError | Agent.CallNotPending>>()
export const rejecting = Agent.decide({ runId: "r", callId: "c", argsDigest: "d" }, Agent.reject(), {
  by: "ann"
})
ok<Eq<Success<typeof rejecting>, void>>()
export const resolving = Agent.resolve({ runId: "r", callId: "c" }, Agent.happened("done"))
ok<Eq<Services<typeof resolving>, RunStore.RunStore>>()

// --- asTool

export const sub = Agent.asTool(withTools, { name: "ask", description: "d" })
ok<Eq<(typeof sub)["layer"], Layer.Layer<Tool.Handler<"ask">>>>()
ok<Eq<(typeof sub)["tool"]["name"], "ask">>()
export const parent = Agent.make("p", { toolkit: Toolkit.make(sub.tool) })
export const nested = Agent.run(parent, "x").pipe(Effect.provide(sub.layer))
ok<Eq<Services<typeof nested>, RunStore.RunStore | Model | Db | Tool.Handler<"read_file">>>()
ok<Eq<Success<typeof nested>, RunExit.Completed<string>>>()

export const custom = Agent.asTool(typedOutput, {
  name: "find",
  description: "d",
  parameters: Schema.Struct({ pattern: Schema.String, most: Schema.Int }),
  success: Schema.Struct({ file: Schema.String, at: Schema.DateFromString }),
  input: ({ most, pattern }) => `${pattern.toUpperCase()} ${most.toFixed()}`
})
ok<Eq<Tool.Parameters<(typeof custom)["tool"]>, { readonly pattern: string; readonly most: number }>>()
ok<Eq<Tool.Success<(typeof custom)["tool"]>, { readonly file: string; readonly at: Date }>>()
export const byOutput = Agent.asTool(typedOutput, { name: "find", description: "d" })
ok<Eq<Tool.Success<(typeof byOutput)["tool"]>, { readonly file: string; readonly at: Date }>>()
ok<Eq<Tool.Success<(typeof sub)["tool"]>, string>>()
export const providedChild = Agent.asTool(withTools.pipe(Agent.provide(ModelLive)), {
  name: "ask",
  description: "d"
})
export const nestedProvided = Agent.make("p", {
  toolkit: Toolkit.make(providedChild.tool)
}).pipe(Agent.provide(providedChild.layer))
ok<
  Eq<
    typeof nestedProvided,
    Agent.Agent<string, never, Model | RunStore.RunStore | Other | Tool.Handler<"read_file"> | Db>
  >
>()
// @ts-expect-error: the answer is no number
Agent.asTool(withTools, { name: "ask", description: "d", success: Schema.Int })

// --- what a handler sees

export const handler = Effect.gen(function* () {
  const call = yield* CurrentCall.CurrentCall
  yield* call.progress("half", { done: 1, total: 2 })
  return yield* call.timeLeft
})
ok<Eq<typeof handler, Effect.Effect<Option.Option<Duration.Duration>>>>()
