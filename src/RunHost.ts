/**
 * Runs by their id, driven in this process: started once however often they are asked for, watched, told things, stopped,
 * and taken over from a process that has died.
 *
 * A host drives the agents that it was given, and no more runs at a time than it may; the others wait in the store, where
 * a host of another process finds them if this one dies. A sub-agent runs within its parent and needs no place of its own.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Agent from "./Agent.ts"
import * as Drivers from "./loop/Drivers.ts"
import * as Unattended from "./loop/Unattended.ts"
import * as Given from "./run/Given.ts"
import type { Message } from "./run/Message.ts"
import type { LiveEvent } from "./run/RunEvent.ts"
import { BudgetPool } from "./store/BudgetPool.ts"
import {
  type ListOptions,
  type RunBusy,
  type RunNotFound,
  RunStore,
  type RunStoreError,
  type RunSummary,
  rootOf
} from "./store/RunStore.ts"

export type { Hosted, Options, Shutdown } from "./loop/Drivers.ts"

/** The host was not given an agent of this name. */
export class UnknownAgent extends Schema.TaggedError<UnknownAgent>()("UnknownAgent", {
  agent: Schema.String,
  known: Schema.Array(Schema.String)
}) {
  override get message(): string {
    return `this host has no agent ${this.agent}; it has ${this.known.join(", ") || "none"}`
  }
}

/** What a host could not do for a run: its store failed, or its agent cannot be run as it is. */
export type Failure = RunStoreError | RunBusy | Agent.Refused | UnknownAgent

/**
 * A host of runs.
 *
 * @example
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { RunHost } from "checkrein"
 *
 * const stop = Effect.flatMap(RunHost.RunHost, (host) => host.cancel("ticket-7", "the ticket was closed"))
 * ```
 */
export class RunHost extends Context.Service<
  RunHost,
  {
    /**
     * Stores a run of an agent and has it driven; yields its id as soon as the run is stored, which a crash does not undo.
     * The same `runId` again starts nothing, and its input and limits are ignored. Whoever wants to see it through goes on with
     * `attach` or `ended`.
     */
    readonly start: (
      agent: string,
      input: string | ReadonlyArray<Message>,
      options?: Agent.RunOptions
    ) => Effect.Effect<string, Failure>
    /**
     * The events of a run from number `from` (default 0, and no less) on. It ends with the first `run_stopped` at or
     * after `from`: after a resume call it again with the `seq` of that event + 1, which for server-sent events is the
     * `Last-Event-ID` + 1. It only watches: whoever stops reading stops nothing, and the run may be driven anywhere.
     * Asked for what comes after the last event, it waits for a resume, also of a run that nothing can follow: `status`
     * tells.
     *
     * While this host drives the run, the model's text as it is written and the progress of tools stand among its events,
     * where they happened; those of a sub-agent's run, and of a run that is driven elsewhere, do not. A reader never holds
     * the run up: of the last 1,000 that it has not read it gets all, of more the oldest are lost. What was said before it
     * attached is not said again, except that the first to attach after `start` or `resume` misses nothing of the first
     * turn. Models are asked for a stream only where somebody is attached, or may be about to: in the turns that begin
     * while somebody is, and in the first after `start` or `resume`.
     */
    readonly attach: (runId: string, from?: number) => Stream.Stream<LiveEvent, RunNotFound | RunStoreError>
    /**
     * Waits until nobody drives a run any more, nor is about to here, and says how it stands. It stands as `running` if its
     * driver died, left off or could not go on, or if it waits for its turn in another process: `recover` has it driven on.
     */
    readonly ended: (runId: string) => Effect.Effect<RunSummary, RunNotFound | RunStoreError>
    /** Records what a person decides about a call; see `Agent.decide`. `resume` has it taken in. */
    readonly decide: (
      call: Agent.CallRef,
      decision: Agent.Decision,
      options?: { readonly by?: string }
    ) => Effect.Effect<void, RunNotFound | RunStoreError | Agent.CallNotPending>
    /** Records the answer to the question of a run; `resume` has it taken in. */
    readonly answer: (
      runId: string,
      answer: string,
      options?: { readonly by?: string }
    ) => Effect.Effect<void, RunNotFound | RunStoreError | Agent.CallNotPending>
    /** Records what became of a call of unknown outcome; see `Agent.resolve`. `resume` has it taken in. */
    readonly resolve: (
      call: Agent.CallRef,
      resolution: Agent.Resolution,
      options?: { readonly by?: string }
    ) => Effect.Effect<void, RunNotFound | RunStoreError | Agent.CallNotPending>
    /** Stops a run, whoever drives it, within a second; see `Agent.cancel`. */
    readonly cancel: (runId: string, reason: string) => Effect.Effect<void, RunNotFound | RunStoreError>
    /**
     * Has a stopped run go on: stores that, with the message and the limits it is given, and has it driven. As soon as this
     * is done a crash does not undo it: the run stands as `running` until it stops again, and whoever recovers takes it over.
     * What was decided or answered before this is taken in by its driver. Whoever calls `cancel` after this stops it, also
     * while it waits for its turn; a Stop from before that a driver is still about to obey is obeyed.
     *
     * A run that has completed is left alone, as is a failed one without `force`: a message to it is refused
     * (`MessageRefused`), as it is if the run is stopped at the same moment. One that runs already is left alone, too, if
     * there is nothing new to say to it; if there is, this fails with `RunBusy` while somebody drives it. A driver that has
     * stopped the run and not let go of it yet is waited for, 30 seconds at most. For the rest it fails as `Agent.resume` does
     * for what it refuses, such as limits that cannot be used: nothing is stored then. That is looked at before a layer of
     * `Agent.provide` is built: what only those tell, such as that a model which comes with them has no price, is found when
     * the run is driven. It stays as `running` then, as one does that was started so, and the log says so.
     */
    readonly resume: (runId: string, options?: Agent.ResumeOptions) => Effect.Effect<void, Failure>
    /** How a run stands, at a cost that does not depend on its length. */
    readonly status: (runId: string) => Effect.Effect<RunSummary, RunNotFound | RunStoreError>
    /** Runs, newest first. */
    readonly list: (options?: ListOptions) => Effect.Effect<ReadonlyArray<RunSummary>, RunStoreError>
    /**
     * Takes over the runs of this host's agents that nobody drives although they have not stopped: what a process left
     * that has died, as soon as its lease has ended. Takes up those, too, that wait for people, once all that they wait for
     * was decided, answered or resolved, as `resume` without options does: whoever decides also calls `resume`, and may not
     * live to do that. One that still waits for something is left alone, and so is one that was stopped. Yields their ids. A
     * run that cannot be read is left out, and the log names it. A host that drives none takes up none.
     */
    readonly recover: Effect.Effect<ReadonlyArray<string>, RunStoreError>
  }
>()("checkrein/RunHost") {}

/** How often to look whether a run that is waited for still has a driver: one that has died tells nobody. */
const lookEvery = "1 second"

/**
 * A host that drives these agents. What they need is taken from the context in which the layer is built, and nothing from
 * that of whoever calls it: request parameters, a trace or a budget that all runs share belong around the layer. How getting
 * their tools may fail has to be settled before. Two agents of one name, or options that can be of no use, are a defect when
 * the layer is built.
 *
 * When the layer's scope closes, as it does on SIGTERM under `NodeRuntime.runMain`, nothing new begins, what runs is
 * finished or interrupted as `shutdown` says, and every run is left in the store, for `recover` to take it over.
 *
 * @example
 * ```ts
 * import { Effect, Layer, Schedule } from "effect"
 * import { Agent, MemoryRunStore, RunHost } from "checkrein"
 *
 * declare const analyst: Agent.Agent<string>
 *
 * const Host = RunHost.layer([analyst], { concurrency: 4 }).pipe(Layer.provide(MemoryRunStore.layer))
 *
 * const program = Effect.gen(function* () {
 *   const host = yield* RunHost.RunHost
 *   const recover = Effect.ignore(host.recover, { log: "Warn" })
 *   yield* Effect.forkScoped(Effect.repeat(recover, Schedule.spaced("1 minute")))
 *   const runId = yield* host.start(analyst.name, "Which log file mentions a timeout?", { runId: "ticket-7" })
 *   const { status, costUsd } = yield* host.ended(runId)
 *   return `${status} after $${costUsd}`
 * }).pipe(Effect.scoped, Effect.provide(Host))
 * ```
 *
 * @example A budget for each tenant, whose name is the first tag of its runs
 * ```ts
 * import { Layer } from "effect"
 * import { type Agent, RunHost } from "checkrein"
 * import * as NodeSqlite from "checkrein/sqlite"
 * import { SqlBudgetPool } from "checkrein/store"
 *
 * declare const analyst: Agent.Agent<string>
 *
 * const Host = RunHost.layer([analyst], {
 *   budget: ({ tags: [tenant] }) => SqlBudgetPool.make(`tenant ${tenant}`, { usd: 5 })
 * }).pipe(Layer.provide(NodeSqlite.layer({ filename: "pools.db" })))
 * ```
 */
export const layer = <const Agents extends ReadonlyArray<Agent.Agent<unknown, never, unknown>>, R = never>(
  agents: Agents,
  options: Drivers.Options<R> = {}
): Layer.Layer<RunHost, never, RunStore | Agent.Services<Agents[number]> | R> =>
  Layer.effect(RunHost, make(agents, options))

const places = Given.wholeOrAll(1)

const kinds: Given.Kinds<Drivers.Options> = {
  concurrency: {
    what: `${places.what}, or "none"`,
    is: (value) => value === "none" || places.is(value)
  },
  shutdown: { what: "an object", is: Given.isRecord },
  budget: { what: "a function", is: (value) => typeof value === "function" }
}

const shutdownKinds: Given.Kinds<Drivers.Shutdown> = {
  running: Given.oneOf("finish", "interrupt"),
  grace: Given.duration
}

/** Why there can be no host like this, if there cannot: it would drive nothing, or another agent than was meant. */
const problemOf = (agents: ReadonlyArray<{ readonly name: string }>, options: Drivers.Options<unknown>) => {
  const names = agents.map(({ name }) => name)
  const twice = names.find((name, index) => names.indexOf(name) < index)
  return twice === undefined
    ? (Given.problemOf(options, "options", kinds) ??
        Given.problemOf(options.shutdown ?? {}, "options.shutdown", shutdownKinds))
    : `two of its agents are called ${twice}, and runs are driven by the name of their agent`
}

const make = Effect.fnUntraced(function* <
  const Agents extends ReadonlyArray<Agent.Agent<unknown, never, unknown>>,
  R
>(agents: Agents, options: Drivers.Options<R>) {
  const problem = problemOf(agents, options)
  if (problem !== undefined) return yield* Effect.die(new TypeError(`a RunHost cannot be made: ${problem}`))
  const store = yield* RunStore
  const context = yield* Effect.context<RunStore | Agent.Services<Agents[number]> | R>()
  const byName = new Map(agents.map((agent) => [agent.name, agent]))
  const drivers = yield* Drivers.make(options, context)
  const inStore = <A, E>(effect: Effect.Effect<A, E, RunStore>): Effect.Effect<A, E> =>
    Effect.provideService(effect, RunStore, store)

  const agentOf = (name: string) => {
    const agent = byName.get(name)
    return agent === undefined
      ? Effect.fail(new UnknownAgent({ agent: name, known: [...byName.keys()] }))
      : Effect.succeed(agent)
  }

  /** The store as a caller sees it, who may have a transaction open: then nothing is begun, and nobody waits for its end. */
  const storeOf = (caller: Context.Context<never>): RunStore["Service"] => ({
    append: (request) => store.append(request),
    list: (options) => store.list(options),
    delete: (runId, options) => store.delete(runId, options),
    watch: (runId, from) => store.watch(runId, from),
    send: (runId, command) => store.send(runId, command),
    inbox: (runId, after) => store.inbox(runId, after),
    watchInbox: (runId, after) => store.watchInbox(runId, after),
    isDriven: (runId) => store.isDriven(runId),
    summary: (runId) => Effect.provideContext(store.summary(runId), caller),
    read: (runId, from, limit) => Effect.provideContext(store.read(runId, from, limit), caller),
    lease: (runId) =>
      Effect.updateContext(store.lease(runId), (own: Context.Context<Scope.Scope>) =>
        Context.merge(caller, own)
      )
  })

  /** Whether nobody drives any of these runs, nor is about to here. */
  const areLeft = (runIds: ReadonlySet<string>) =>
    Effect.gen(function* () {
      for (const runId of runIds) {
        if (drivers.has(runId) || (yield* store.isDriven(runId))) return false
      }
      return true
    })

  const recover = Effect.gen(function* () {
    const taken: Array<string> = []
    if (options.concurrency === "none") return taken
    for (const run of yield* inStore(Unattended.runs((name) => byName.has(name)))) {
      const agent = byName.get(run.agent)
      if (agent === undefined || drivers.has(run.runId) || (yield* store.isDriven(run.runId))) continue
      yield* drivers.recover(agent, run)
      taken.push(run.runId)
    }
    return taken
  })

  return RunHost.of({
    start: (name, input, options = {}) =>
      Effect.gen(function* () {
        const agent = yield* agentOf(name)
        const caller = yield* Effect.context<never>()
        const runId = yield* drivers.create(agent, input, options, storeOf(caller))
        yield* drivers.start(agent, runId)
        return runId
      }),
    attach: (runId, from = 0) =>
      Stream.takeUntil(
        drivers.among(store.watch(runId, from), runId, from),
        ({ type }) => type === "run_stopped"
      ),
    ended: (runId) =>
      Effect.gen(function* () {
        const root = yield* inStore(rootOf(runId))
        const isLeft = areLeft(new Set([root.runId, runId]))
        const hasStopped = (from: number) =>
          Stream.runDrain(Stream.takeUntil(store.watch(runId, from), ({ type }) => type === "run_stopped"))
        while (true) {
          yield* drivers.done(root.runId)
          const now = yield* store.summary(runId)
          if (drivers.has(root.runId)) continue
          if (now.status !== "running") return now
          if (yield* isLeft) {
            // Its driver may have stopped it, and be gone, since it was looked at.
            const { seq } = yield* store.summary(runId)
            if (seq === now.seq) return now
            continue
          }
          const becomesLeft = Effect.repeat(Effect.delay(isLeft, lookEvery), { until: (left) => left })
          yield* Effect.raceFirst(hasStopped(now.seq), becomesLeft)
        }
      }),
    decide: (call, decision, options) => inStore(Agent.decide(call, decision, options)),
    answer: (runId, answer, options) => inStore(Agent.answer(runId, answer, options)),
    resolve: (call, resolution, options) => inStore(Agent.resolve(call, resolution, options)),
    cancel: (runId, reason) =>
      Effect.gen(function* () {
        const cancelled = inStore(Agent.cancel(runId, reason))
        const root = yield* inStore(rootOf(runId))
        // Whoever drives it has its budget, and is told at once.
        if (yield* store.isDriven(root.runId)) return yield* cancelled
        const pool = yield* drivers.poolFor(root)
        return yield* pool === undefined ? cancelled : Effect.provideService(cancelled, BudgetPool, pool)
      }),
    resume: (runId, options = {}) =>
      Effect.gen(function* () {
        const root = yield* inStore(rootOf(runId))
        const caller = yield* Effect.context<never>()
        yield* drivers.resume(yield* agentOf(root.agent), root, options, storeOf(caller))
      }),
    status: (runId) => store.summary(runId),
    list: (options) => store.list(options),
    recover
  })
})
