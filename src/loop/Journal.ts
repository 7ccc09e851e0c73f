/**
 * The driver's pen: the one place where events get their numbers, are stored, and step the state.
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import * as Semaphore from "effect/Semaphore"
import * as Metrics from "../observe/Metrics.ts"
import * as RunTrace from "../observe/RunTrace.ts"
import { apply } from "../run/Apply.ts"
import { empty, snapshot } from "../run/Draft.ts"
import { type Body, type Ephemeral, type LiveEvent, type RunEvent, versionOf } from "../run/RunEvent.ts"
import type * as RunState from "../run/RunState.ts"
import {
  type Durability,
  type Lease,
  RunBusy,
  RunStore,
  RunStoreError,
  type StaleWriter
} from "../store/RunStore.ts"
import { atMost } from "../store/TimeLimit.ts"
import * as Summary from "./Summary.ts"

/** How long an append may take before the run stops with `RunStoreError`. */
export const appendTimeout = Duration.seconds(30)

/** What the runs below a run have taken of the time that ending them all may take. */
export interface Spent {
  /** In milliseconds, for the slowest of them; `Infinity` if their store did not answer. */
  belowMs: number
}

/** The pen of one driver. */
export interface Journal {
  readonly runId: string
  /** The driver's right to drive the run. */
  readonly lease: Lease
  /** The state after everything that was written or staged: the empty one before the first event. */
  readonly state: () => RunState.RunState
  /** The time that the run was driven so far, in milliseconds. */
  readonly elapsedMs: () => number
  /** The reading of the monotonic clock, in milliseconds. */
  readonly nowMs: () => number
  /** The date, as ISO 8601. */
  readonly date: () => string
  /**
   * Steps the state by events that go into the store with the next `commit`: for what needs no promise yet. Nothing
   * may wait for the outside world before they are committed. What was found to be right at a moment is dated with it.
   */
  readonly stage: (...bodies: ReadonlyArray<Body & { readonly at?: string }>) => void
  /** Stores what was staged and these events. Uninterruptible, and bounded in time. */
  readonly commit: (...bodies: ReadonlyArray<Body>) => Effect.Effect<void, RunBusy | RunStoreError>
  /** Fails if an append has failed, after which this pen writes nothing more. */
  readonly check: Effect.Effect<void, RunBusy | RunStoreError>
  /** What those below tell that are interrupted with the run, and so end before it. */
  readonly spent: Spent
  /** Tells watchers something that is not stored. */
  readonly publish: (event: Ephemeral) => void
}

/**
 * What has to survive a power cut: the claim and the result of a call that changes the world, a decision, an ending.
 * `before` is the state in which the event was written.
 */
const needsPower = (body: Body, before: RunState.RunState): boolean => {
  switch (body.type) {
    case "run_stopped":
    case "approval_resolved":
    case "outcome_resolved":
    case "input_given":
      return true
    case "tool_start":
    case "tool_result":
      return before.pending.find((call) => call.callId === body.callId)?.effect === "write"
    default:
      return false
  }
}

/** Hears of a run's events, each with the state that the run has got to. */
export type Watcher = (event: LiveEvent, run: RunState.RunState) => void

/** The run for which somebody takes up the pen. */
export interface Options {
  readonly runId: string
  readonly agent: string
  /** The agent's tools, by name. Whoever only ends a run has none: what it settles are calls that had begun. */
  readonly tools?: Readonly<Record<string, unknown>> | undefined
  /** Its stored state; a new run has none. */
  readonly from?: RunState.RunState | undefined
  readonly lease: Lease
  readonly watcher?: Watcher | undefined
}

/** Whoever has to hear of a run's events, whoever writes them: the metrics, the trace and whoever watches. */
const listenersOf = Effect.fnUntraced(function* ({ agent, from, tools, watcher }: Options) {
  const trace = yield* RunTrace.RunTrace
  const context = yield* Effect.context<never>()
  const isTool = (name: string) => tools === undefined || Object.hasOwn(tools, name)
  const listeners: Array<Watcher> = [Metrics.recorder(agent, context, isTool, from?.claim?.estimate)]
  if (trace !== RunTrace.none) listeners.push((event) => trace.write(event))
  if (watcher !== undefined) listeners.push(watcher)
  return listeners
})

/** Takes up the pen for a run. Every stored event is handed to the listeners once it is safe. */
export const make = Effect.fnUntraced(function* (options: Options) {
  const { from, lease, runId } = options
  const listeners = yield* listenersOf(options)
  const store = yield* RunStore
  const clock = yield* Clock.Clock
  const semaphore = yield* Semaphore.make(1)
  const nowMs = () => Number(clock.monotonicTimeNanosUnsafe() / 1_000n) / 1_000
  const startedMs = nowMs()
  const drivenBefore = from?.elapsedMs ?? 0
  const elapsedMs = () =>
    Math.max(drivenBefore, Math.round((drivenBefore + nowMs() - startedMs) * 1_000) / 1_000)
  const draft = from === undefined ? empty(runId) : snapshot(from)
  let staged: Array<RunEvent> = []
  let durability: Durability = "process"

  // Events of one millisecond share its text, which takes longer to make than the rest of an event.
  let written = { ms: Number.NaN, at: "" }
  const date = (): string => {
    const ms = clock.currentTimeMillisUnsafe()
    if (written.ms !== ms) written = { ms, at: new Date(ms).toISOString() }
    return written.at
  }

  const stage: Journal["stage"] = (...bodies) => {
    for (const body of bodies) {
      if (needsPower(body, draft)) durability = "power"
      const event: RunEvent = {
        v: versionOf(body),
        runId,
        seq: draft.seq,
        at: date(),
        elapsedMs: elapsedMs(),
        ...body
      }
      apply(draft, event)
      staged.push(event)
    }
  }

  // Whoever only watches cannot harm a run: what a listener throws is said once, in the log.
  let listenerFailure: unknown
  let warned = false
  const publish = (event: LiveEvent): void => {
    for (const listener of listeners) {
      try {
        listener(event, draft)
      } catch (error) {
        listenerFailure ??= error
      }
    }
  }
  const warnOfListeners = Effect.suspend(() => {
    if (listenerFailure === undefined || warned) return Effect.void
    warned = true
    return Effect.logWarning(`a listener of run ${runId} fails; the run goes on`, listenerFailure)
  })

  let broken: RunBusy | RunStoreError | undefined
  const flush = Effect.suspend((): Effect.Effect<void, RunBusy | RunStoreError | StaleWriter> => {
    if (broken !== undefined) return Effect.fail(broken)
    const [first] = staged
    if (first === undefined) return Effect.void
    const events = staged
    const append = {
      runId,
      expected: first.seq,
      events,
      summary: Summary.of(draft),
      durability
    }
    staged = []
    durability = "process"
    return Effect.flatMap(store.append(append), () => {
      events.forEach(publish)
      return warnOfListeners
    })
  }).pipe(
    atMost(appendTimeout, () => {
      const problem = `an append took longer than ${Duration.toSeconds(appendTimeout)} s; is the store reachable?`
      return Effect.fail(new RunStoreError({ runId, kind: "timed_out", problem }))
    }),
    // A defect, or an interruption from inside: nobody else can interrupt this.
    Effect.catchCauseIf(Predicate.not(Cause.hasFails), (cause) => {
      const problem = "the store broke down"
      return Effect.fail(
        new RunStoreError({ runId, kind: "unavailable", problem, cause: Cause.squash(cause) })
      )
    }),
    Effect.catchTag("StaleWriter", () => Effect.fail(new RunBusy({ runId }))),
    // After a failed append nobody knows what is stored: nothing more is written, and the first failure stays the answer.
    Effect.tapError((error) =>
      Effect.sync(() => {
        broken ??= error
      })
    ),
    semaphore.withPermit,
    Effect.uninterruptible
  )

  const commit = (...bodies: ReadonlyArray<Body>) =>
    Effect.suspend(() => {
      stage(...bodies)
      return flush
    })

  const journal: Journal = {
    runId,
    lease,
    state: () => draft,
    elapsedMs,
    nowMs,
    date,
    stage,
    commit,
    check: Effect.suspend(() => (broken === undefined ? Effect.void : Effect.fail(broken))),
    spent: { belowMs: 0 },
    publish
  }
  return journal
})

/**
 * Takes up the pen for a stored run that nobody drives, to write down what has become of it (`news`) or how it ends: it is
 * as if it had been resumed, with nothing new said to it. All this is staged, not stored.
 */
export const retake = Effect.fnUntraced(function* (
  from: RunState.RunState,
  lease: Lease,
  news: ReadonlyArray<Body> = []
) {
  const { agent, inbox, runId } = from
  const journal = yield* make({ runId, agent, from, lease })
  journal.stage({ type: "run_resumed", inbox, messages: [] }, ...news)
  return journal
})
