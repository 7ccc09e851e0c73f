/**
 * Where runs are kept: an append-only journal of events for each, a small summary row beside it, and an inbox of
 * commands. Only a run's driver appends, naming the number of the event it expects to write.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type * as Stream from "effect/Stream"
import type { Command, Numbered } from "../run/Command.ts"
import * as Fold from "../run/Fold.ts"
import { duration, millisOf, shown } from "../run/Given.ts"
import { Parent, Question, Reason, type RunEvent, RunStatus, WaitingCall } from "../run/RunEvent.ts"
import type * as RunState from "../run/RunState.ts"

/** No run of this id is stored. */
export class RunNotFound extends Schema.TaggedError<RunNotFound>()("RunNotFound", { runId: Schema.String }) {
  override get message(): string {
    return `there is no run ${this.runId} in this store`
  }
}

/** Somebody else drives this run. Watch it, or try again when its driver is gone. */
export class RunBusy extends Schema.TaggedError<RunBusy>()("RunBusy", {
  runId: Schema.String
}) {
  override get message(): string {
    return `run ${this.runId} is driven by somebody else: try again when it has stopped; if its driver has died, its lease ends by itself after RunStore.LeaseTime (15 seconds unless it is set)`
  }
}

/**
 * The store could not do what it was asked. What was stored before is unharmed. `problem` says what to do; `runId` is
 * empty when it was about no one run, and `seq` is the event that cannot be read, or the first that was not written.
 * `invalid` is the caller's own: an id, the name of an agent or a tag that not every database can keep, an empty id, a
 * date, an age or an option that is none, what is given with an approval and can be of no use, an event that is too long
 * to be read again, or a database of something else.
 */
export class RunStoreError extends Schema.TaggedError<RunStoreError>()("RunStoreError", {
  runId: Schema.String,
  kind: Schema.Literals([
    "unavailable",
    "full",
    "read_only",
    "corrupt",
    "newer_version",
    "inside_transaction",
    "timed_out",
    "invalid"
  ]),
  problem: Schema.String,
  seq: Schema.optionalKey(Schema.Natural),
  cause: Schema.optionalKey(Schema.Defect())
}) {
  override get message(): string {
    // One that is refused for its length is cut off here.
    const run = this.runId.length <= 2_000 ? this.runId : `${this.runId.slice(0, 40)}…`
    const what = this.kind === "invalid" ? "refused" : "the store failed"
    return `${what}${run === "" ? "" : ` for run ${run}`}: ${this.problem}`
  }
}

/** An append that expected another number, or whose driver has lost the run to somebody else. Nothing was written. */
export class StaleWriter extends Schema.TaggedError<StaleWriter>()("StaleWriter", {
  runId: Schema.String,
  expected: Schema.Natural
}) {
  override get message(): string {
    return `run ${this.runId} has moved on: event ${this.expected} is not the next one`
  }
}

/**
 * A call that waits for a person, as a summary has it. Arguments whose JSON is longer than 4,096 characters are left out, and
 * so are those of more than 200 when the calls before it have filled the 32,768 that there are for all of them: `argsCut` is
 * then how that text begins, and says how long it is. They are whole in the run's state: see `RunExit.approvalsOf` and
 * `unknownOf` of the `state` that `load` reads.
 */
export const SummarizedCall = Schema.Struct({
  ...WaitingCall.fields,
  args: Schema.optionalKey(WaitingCall.fields.args),
  argsCut: Schema.optionalKey(Schema.String)
})
/** A call that waits for a person, as a summary has it. */
export type SummarizedCall = typeof SummarizedCall.Type

/**
 * What can be known of a run without reading its journal. `seq` is the number of events, `inbox` the number of the last
 * command that its driver has taken in, money in USD, times ISO 8601. `unpriced`: some turn's model has no known price,
 * and counts as free in `costUsd`. A summary is short whatever the model has written: texts are cut at 4,096 characters,
 * and of the calls that wait it has the first 100 of either sort. `more` is how many others there are, if any: they can be
 * decided about just so, and the `state` that `load` reads has them all.
 */
export const RunSummary = Schema.Struct({
  runId: Schema.String,
  agent: Schema.String,
  parent: Schema.optionalKey(Parent),
  status: RunStatus,
  reason: Schema.optionalKey(Reason),
  detail: Schema.optionalKey(Schema.String),
  turns: Schema.Natural,
  toolCalls: Schema.Natural,
  costUsd: Schema.Finite,
  unpriced: Schema.optionalKey(Schema.Literal(true)),
  seq: Schema.Natural,
  inbox: Schema.Natural,
  startedAt: Schema.String,
  updatedAt: Schema.String,
  tags: Schema.optionalKey(Schema.Array(Schema.String)),
  approvals: Schema.Array(SummarizedCall),
  unknown: Schema.Array(SummarizedCall),
  more: Schema.optionalKey(Schema.Struct({ approvals: Schema.Natural, unknown: Schema.Natural })),
  question: Schema.optionalKey(Question)
})
/** How a run stands, without its journal: short, however long the run is. */
export type RunSummary = typeof RunSummary.Type

/** What has to survive: `process` outlives the process, `power` a power cut too. */
export type Durability = "process" | "power"

/** One append: the events numbered from `expected` on, at least one of them, and the summary after them. */
export interface Append {
  readonly runId: string
  readonly expected: number
  readonly events: ReadonlyArray<RunEvent>
  readonly summary: RunSummary
  readonly durability: Durability
}

/** Which runs to list: those that meet all that is asked for, newest first, at most `limit` (default 50; none below 1). */
export interface ListOptions {
  readonly status?: RunStatus | undefined
  /** Why they have stopped: `approval`, `input` and `unknown_outcome` are those that wait for a person. */
  readonly reason?: Reason | undefined
  readonly agent?: string | undefined
  readonly tag?: string | undefined
  /**
   * `true`: only runs with commands in their own inbox that no driver has taken in: decisions, answers, or a Stop that came too
   * late. What is said about a sub-agent's call is in the inbox of its run, and not in that of the run above.
   */
  readonly told?: true | undefined
  /** Only runs that were started at this time or later: ISO 8601 with its zone, as in a summary; a date alone will do. */
  readonly since?: string | undefined
  /** Only runs that were started earlier than this. */
  readonly until?: string | undefined
  readonly limit?: number | undefined
  /** Only runs that come after this one in the list: the last of a page, to have the next page. */
  readonly before?: { readonly startedAt: string; readonly runId: string } | undefined
}

/** When a run may be deleted. */
export interface DeleteOptions {
  /**
   * Only if nothing was written since this time, ISO 8601 as `updatedAt` in a summary, to the run nor to one that goes with
   * it. That is asked in the transaction that deletes, so a run that has gone on meanwhile stays.
   */
  readonly untouchedSince?: string | undefined
}

/** The right to drive a run: one driver has it at a time. It ends with its scope, or when it cannot be kept. */
export interface Lease {
  /** Fails if the right is lost. Asks nobody, so it costs nothing: right before a tool is the place for it. */
  readonly check: Effect.Effect<void, RunBusy>
  /**
   * Waits as long as the right is there. Fails when it is lost: with `RunBusy` if somebody else has it, with
   * `RunStoreError` if it could not be renewed in time. Either comes early enough to stop what runs.
   */
  readonly lost: Effect.Effect<never, RunBusy | RunStoreError>
}

/**
 * How long the right to drive a run outlives a driver that died, for a store that is made where this is provided: the
 * time after which somebody else can take the run over. A driver renews its right three times as often, and stops
 * itself if it cannot for three fifths of it. Default 15 seconds; between one second and a day.
 *
 * @example
 * ```ts
 * import * as Layer from "effect/Layer"
 * import * as NodeSqlite from "checkrein/sqlite"
 * import { RunStore } from "checkrein/store"
 *
 * const Runs = NodeSqlite.runStore("runs.db").pipe(Layer.provide(Layer.succeed(RunStore.LeaseTime, "5 seconds")))
 * ```
 */
export const LeaseTime = Context.Reference<Duration.Input>("checkrein/LeaseTime", {
  defaultValue: () => "15 seconds"
})

/**
 * The store of runs.
 *
 * @example
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { RunStore } from "checkrein/store"
 *
 * const waiting = Effect.gen(function* () {
 *   const store = yield* RunStore.RunStore
 *   return yield* store.list({ reason: "approval", tag: "acme", limit: 20 })
 * })
 * ```
 */
export class RunStore extends Context.Service<
  RunStore,
  {
    /**
     * Writes events and the summary after them, all or nothing. The first append of a run (`expected` 0) creates it.
     * Fails with `StaleWriter` if event `expected` is not the next one, or if a driver of this store has lost its lease of
     * the run to somebody else: a run that was deleted and started again has the same numbers. Then nothing was written.
     * Whoever has no lease is asked for the number alone.
     */
    readonly append: (append: Append) => Effect.Effect<void, StaleWriter | RunStoreError>
    /**
     * The stored events of a run, in order, from number `from` (default 0, and no less) on. It may take as long as the
     * journal is long: whoever cannot wait sets a limit of time, and whoever cannot hold it all reads in pages, with a
     * `limit`. A page has at most so many events (none below 1). It may have fewer where they are long, though at least one
     * as long as there is one: so the journal ends with the page that is empty, and with no other.
     */
    readonly read: (
      runId: string,
      from?: number,
      limit?: number
    ) => Effect.Effect<ReadonlyArray<RunEvent>, RunNotFound | RunStoreError>
    /** A run's summary, at a cost that does not depend on its length. */
    readonly summary: (runId: string) => Effect.Effect<RunSummary, RunNotFound | RunStoreError>
    /**
     * Summaries, newest first. A run whose summary cannot be read is left out, and a warning in the log names it: `summary`
     * fails for it. Fewer than `limit` mean that there are no more.
     */
    readonly list: (options?: ListOptions) => Effect.Effect<ReadonlyArray<RunSummary>, RunStoreError>
    /**
     * Deletes a run whole: its journal, its inbox, and the runs that its sub-agents have had, at every depth. Yields the
     * ids of all of them, its own first; none, if `untouchedSince` is given and one was written to since: then nothing is
     * deleted. The runs of sub-agents are found by the `parent` in their summaries, and not by how their ids begin: a run
     * `a/2` without a parent stays when `a` is deleted. Fails with `RunBusy` while somebody drives it or one of them; then
     * nothing is deleted. Its id may be used again; the calls of such a run have the idempotency keys of the deleted one's
     * wherever turn, call id and arguments are the same, so that what was done once is not done twice.
     */
    readonly delete: (
      runId: string,
      options?: DeleteOptions
    ) => Effect.Effect<ReadonlyArray<string>, RunNotFound | RunBusy | RunStoreError>
    /**
     * The events of a run from number `from` (default 0, and no less) on: first the stored ones, then each as it is
     * appended. Never ends.
     */
    readonly watch: (runId: string, from?: number) => Stream.Stream<RunEvent, RunNotFound | RunStoreError>
    /**
     * Puts a command into a run's inbox and says which number it got. Whoever is told a number finds every command with a
     * smaller one in the inbox: that is how one of many who decide at the same moment knows that it was the first.
     */
    readonly send: (runId: string, command: Command) => Effect.Effect<number, RunNotFound | RunStoreError>
    /** The commands of a run's inbox after number `after`. */
    readonly inbox: (runId: string, after: number) => Effect.Effect<ReadonlyArray<Numbered>, RunStoreError>
    /** The commands of a run's inbox after number `after`, those that are still to come included. Never ends. */
    readonly watchInbox: (runId: string, after: number) => Stream.Stream<Numbered, RunStoreError>
    /**
     * Takes the right to drive a run until the scope closes. Fails with `RunBusy` while somebody else has it. The right
     * of a driver that died comes free by itself, within seconds.
     */
    readonly lease: (runId: string) => Effect.Effect<Lease, RunBusy | RunStoreError, Scope.Scope>
    /** Whether somebody has the right to drive a run, at this moment. Asking takes it from nobody. */
    readonly isDriven: (runId: string) => Effect.Effect<boolean, RunStoreError>
  }
>()("checkrein/RunStore") {}

/**
 * The run at the top of a tree of runs: a sub-agent's run goes on with the run that has started it. Fails as `corrupt` if
 * there is no top, since a run says that it was started by one below it.
 *
 * @example
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { RunStore } from "checkrein/store"
 *
 * const root = Effect.map(RunStore.rootOf("night-shift/c3"), ({ runId }) => runId)
 * ```
 */
export const rootOf: (runId: string) => Effect.Effect<RunSummary, RunNotFound | RunStoreError, RunStore> =
  Effect.fnUntraced(function* (runId) {
    const store = yield* RunStore
    let summary = yield* store.summary(runId)
    const below = new Set([runId])
    while (summary.parent !== undefined) {
      const above = summary.parent.runId
      if (below.has(above)) {
        const problem = `it says that it was started by ${above}, which it has started`
        return yield* new RunStoreError({ runId: summary.runId, kind: "corrupt", problem })
      }
      below.add(above)
      summary = yield* store.summary(above)
    }
    return summary
  })

/** A stored run: its whole journal, and the state after it. */
export interface Stored {
  readonly events: ReadonlyArray<RunEvent>
  readonly state: RunState.RunState
}

/**
 * Reads a stored run.
 *
 * @example
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { RunStore } from "checkrein/store"
 *
 * const cost = Effect.map(RunStore.load("night-shift"), ({ state }) => state.costUsd)
 * ```
 */
export const load = (runId: string): Effect.Effect<Stored, RunNotFound | RunStoreError, RunStore> =>
  Effect.gen(function* () {
    const store = yield* RunStore
    const events = yield* store.read(runId)
    const state = Fold.fold(events)
    return state === undefined ? yield* new RunNotFound({ runId }) : { events, state }
  })

/** Which runs may be deleted for their age. */
export type Filter = Pick<ListOptions, "status" | "agent" | "tag">

const page = 200

/**
 * Deletes the runs that nothing was written to for longer than `age`. The runs of sub-agents go with the run that has
 * started them. Yields the ids of all that are gone. A run that is being driven stays, and is no failure; so does one that
 * has gone on before its turn to be deleted came. An age that is none, such as `NaN`, or a filter that is misspelt is refused
 * (`invalid`), and nothing is deleted.
 *
 * @example
 * ```ts
 * import { RunStore } from "checkrein/store"
 *
 * const tidyUp = RunStore.deleteOlderThan("30 days", { status: "completed" })
 * ```
 */
export const deleteOlderThan = (
  age: Duration.Input,
  filter: Filter = {}
): Effect.Effect<ReadonlyArray<string>, RunStoreError, RunStore> =>
  Effect.gen(function* () {
    const store = yield* RunStore
    const now = yield* Clock.currentTimeMillis
    const ageMs = millisOf(age)
    if (ageMs === undefined) {
      const problem = `the age is ${shown(age)}, and must be ${duration.what}`
      return yield* new RunStoreError({ runId: "", kind: "invalid", problem })
    }
    // No run is from before its clock begins, and a date can be no further away than some.
    const until = new Date(Math.max(0, now - ageMs)).toISOString()
    // Where no spread finds them, too: without them every run would go. What is misspelt is refused by the store.
    const { agent, status, tag } = filter
    const these = { ...filter, agent, status, tag, until, limit: page }
    const deleted: Array<string> = []
    let before: RunSummary | undefined
    do {
      const runs: ReadonlyArray<RunSummary> = yield* store.list({ ...these, before })
      for (const { parent, runId, updatedAt } of runs) {
        if (parent !== undefined || updatedAt >= until) continue
        const gone = yield* Effect.catchTag(
          store.delete(runId, { untouchedSince: until }),
          ["RunBusy", "RunNotFound"],
          () => Effect.succeed([])
        )
        deleted.push(...gone)
      }
      before = runs.at(-1)
    } while (before !== undefined)
    return deleted
  })
