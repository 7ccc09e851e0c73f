/**
 * Which agent takes a stored run up again: the log analyst of its directory, the demo's, or a module's.
 */
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import type * as Path from "effect/Path"
import {
  type RunNotFound,
  type RunStore,
  type RunStoreError,
  type RunSummary,
  rootOf
} from "../store/RunStore.ts"
import * as AgentModule from "./AgentModule.ts"
import type { Where } from "./Ending.ts"
import type { StandIn } from "./Models.ts"
import { CommandFailed } from "./Output.ts"

/** An agent, and what answers where no endpoint is named. */
export interface Found {
  readonly agent: AgentModule.Runnable
  readonly standIn: StandIn
}

/** The log analyst of a directory; without its repetition guard, if that is asked for. */
export const logAnalyst = (
  root: string,
  repetition?: "on" | "off"
): Effect.Effect<Found, CommandFailed, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function* () {
    const LogAnalyst = yield* Effect.promise(() => import("./analyst/LogAnalyst.ts"))
    return { agent: yield* LogAnalyst.make(root, repetition), standIn: "script" }
  })

/** The agent of a module, for a run. */
const forRun = (
  { forRun, name }: AgentModule.Loaded,
  { runId, tags = [] }: Pick<RunSummary, "runId" | "tags">
): Found => ({ agent: forRun({ runId, agent: name, tags }), standIn: "nothing" })

/** The agent of a module, for a run that begins. */
export const ofModule = (
  path: string,
  run: Pick<RunSummary, "runId" | "tags">
): Effect.Effect<Found, CommandFailed, FileSystem.FileSystem | Path.Path> =>
  Effect.map(AgentModule.load(path), (loaded) => forRun(loaded, run))

/** The agent of a stored run. */
export const ofRun = (
  run: RunSummary,
  module: Option.Option<string>
): Effect.Effect<Found, CommandFailed, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function* () {
    const { agent: name, runId } = run
    if (Option.isSome(module)) {
      const loaded = yield* AgentModule.load(module.value)
      if (loaded.name === name) return forRun(loaded, run)
      const message = `run ${runId} is a run of ${name}, and ${module.value} defines ${loaded.name}: name the module of ${name} with --agent`
      return yield* new CommandFailed({ message })
    }
    const LogAnalyst = yield* Effect.promise(() => import("./analyst/LogAnalyst.ts"))
    const root = LogAnalyst.rootOf(name)
    if (root !== undefined) return yield* logAnalyst(root)
    const Scenario = yield* Effect.promise(() => import("../demo/Scenario.ts"))
    const agent = Scenario.agentFor(runId)
    if (agent !== undefined) return { agent, standIn: "nothing" as const }
    const message = `run ${runId} is a run of ${name}, which this command does not know: name the module that defines it with --agent MODULE`
    return yield* new CommandFailed({ message })
  })

/** The agent of one of several runs, and the module that it came from, if it came from one. */
export interface FoundIn extends Found {
  readonly module: string | undefined
}

/** Finds the agents of several runs: the module's for its own runs, and those that this command knows for theirs. */
export const finder = (
  module: Option.Option<string>
): Effect.Effect<
  (run: RunSummary) => Effect.Effect<FoundIn, CommandFailed, FileSystem.FileSystem | Path.Path>,
  CommandFailed,
  FileSystem.FileSystem | Path.Path
> =>
  Effect.gen(function* () {
    const own = Option.isNone(module) ? undefined : yield* AgentModule.load(module.value)
    return (run) =>
      own?.name === run.agent
        ? Effect.succeed({ ...forRun(own, run), module: Option.getOrUndefined(module) })
        : Effect.map(ofRun(run, Option.none()), (found) => ({ ...found, module: undefined }))
  })

/**
 * How commands about a run are repeated. What `--agent` says there is the module that was named, or a place to name one;
 * nothing for an agent that this command knows.
 */
export const whereOf = (
  id: string,
  { agent: given, store }: { readonly agent: Option.Option<string>; readonly store: string }
): Effect.Effect<Where, RunNotFound | RunStoreError, RunStore> =>
  Effect.gen(function* () {
    const { agent: name, runId: root } = yield* rootOf(id)
    if (Option.isSome(given)) return { store, agent: given.value, root }
    const [LogAnalyst, Scenario] = yield* Effect.promise(() =>
      Promise.all([import("./analyst/LogAnalyst.ts"), import("../demo/Scenario.ts")])
    )
    const known = LogAnalyst.rootOf(name) !== undefined || Scenario.fromRunId(root) !== undefined
    return { store, agent: known ? undefined : "MODULE", root }
  })
