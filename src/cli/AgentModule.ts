/**
 * `--agent MODULE`: an agent that a module exports, for the command line to run.
 *
 * The module exports `agent` (made with `Agent.make`), and may export `layer`, which provides what the agent needs
 * beyond a model, a store and the services of Node, and `budget`, which says what budget a run shares with others, as that of
 * `RunHost.layer` does. A default export may be the agent, or an object of them.
 */
import { pathToFileURL } from "node:url"
import type { NodeServices } from "@effect/platform-node/NodeServices"
import type * as LanguageModel from "effect/ai/LanguageModel"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Path from "effect/Path"
import * as Agent from "../Agent.ts"
import * as Author from "../loop/Author.ts"
import type { Hosted } from "../RunHost.ts"
import { BudgetPool } from "../store/BudgetPool.ts"
import type { RunStore } from "../store/RunStore.ts"
import { CommandFailed, sentenceOf } from "./Output.ts"

/** What the command line provides an agent with. */
export type Provided = LanguageModel.LanguageModel | RunStore | NodeServices

/** An agent that the command line can run. */
export type Runnable = Agent.Agent<unknown, unknown, Provided>

/** The agent of a module. */
export interface Loaded {
  readonly name: string
  /** The agent with what it needs for a run, and with the budget that this run shares. */
  readonly forRun: (run: Hosted) => Runnable
}

// What it needs is not known here: a service that nobody provides is named by the defect that its lack is.
const isRunnable = (u: unknown): u is Runnable => Agent.isAgent(u)

const isLayer = (u: unknown): u is Layer.Layer<never, unknown, Provided> => Layer.isLayer(u)

type Pool = BudgetPool["Service"]

// The module's layer is around it: what it needs beyond that is not known here either.
const isBudget = (u: unknown): u is Effect.Effect<Pool | undefined, unknown> => Effect.isEffect(u)

const property = (from: unknown, name: string): unknown =>
  typeof from === "object" && from !== null ? Reflect.get(from, name) : undefined

const says = (error: unknown): string =>
  error instanceof Error ? `${error.name}: ${error.message}` : sentenceOf(error)

// A function or a promise of an agent is what is exported by mistake most of all: the name alone would not tell.
const called = (name: string, value: unknown): string => {
  if (typeof value === "function") return `${name} (a function)`
  if (value instanceof Promise) return `${name} (a Promise: await it in the module)`
  return Effect.isEffect(value) ? `${name} (an Effect)` : name
}

const exportsOf = (exported: object): string => {
  const named = Object.entries(exported).map(([name, value]) => called(name, value))
  return named.length === 0 ? "nothing" : named.join(", ")
}

type Budget = (run: Hosted) => unknown

const isFunction = (u: unknown): u is Budget => typeof u === "function"

const asked = { name: "its `budget`", what: "an Effect of a BudgetPool", is: isBudget }

/** The budget that a run shares, if the module names one; its `layer` may have another, for those that it names none for. */
const poolOf = (path: string, budget: Budget, run: Hosted) =>
  Effect.suspend(() => Effect.fromResult(Author.yields(asked, () => budget(run)))).pipe(
    Effect.mapError((problem) => new CommandFailed({ message: `the agent module ${path}: ${problem}` })),
    Effect.flatten,
    Effect.map((pool) => (pool === undefined ? Layer.empty : Layer.succeed(BudgetPool, pool))),
    Layer.unwrap
  )

/** Loads the agent of a module; the path is relative to the working directory. */
export const load = (path: string): Effect.Effect<Loaded, CommandFailed, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function* () {
    const files = yield* FileSystem.FileSystem
    const absolute = (yield* Path.Path).resolve(path)
    const failed = (problem: string) => new CommandFailed({ message: `the agent module ${path} ${problem}` })
    const info = yield* Effect.orElseSucceed(files.stat(absolute), () => undefined)
    if (info === undefined) return yield* failed("does not exist")
    if (info.type !== "File") return yield* failed("is not a file")
    const exported = yield* Effect.tryPromise({
      try: async (): Promise<object> => await import(pathToFileURL(absolute).href),
      catch: (error) => failed(`cannot be loaded: ${says(error)}`)
    })
    const standard = property(exported, "default")
    const agent = [property(exported, "agent"), property(standard, "agent"), standard].find(isRunnable)
    if (agent === undefined) {
      // Another copy of the library keeps its agents to itself, so they are none for this one.
      const wanted = "it has to export `agent`, made with Agent.make of the checkrein whose command this is"
      return yield* failed(`exports no agent: ${wanted}, and exports ${exportsOf(exported)}`)
    }
    const layer = property(exported, "layer") ?? property(standard, "layer")
    if (layer !== undefined && !isLayer(layer)) return yield* failed("exports a `layer` that is not a Layer")
    const budget = property(exported, "budget") ?? property(standard, "budget")
    if (budget !== undefined && !isFunction(budget))
      return yield* failed("exports a `budget` that is not a function of a run")
    return {
      name: agent.name,
      forRun: (run) => {
        const sharing = budget === undefined ? agent : Agent.provide(poolOf(path, budget, run))(agent)
        return layer === undefined ? sharing : Agent.provide(layer)(sharing)
      }
    }
  })
