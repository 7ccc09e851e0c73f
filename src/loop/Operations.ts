/**
 * Work that goes on after a call: what a tool's report of it means for the run, and what is done about it at a limit.
 */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Schema from "effect/Schema"
import type { Body, Handling, Of } from "../run/RunEvent.ts"
import * as RunState from "../run/RunState.ts"
import * as Operation from "../tool/Operation.ts"
import type { Job } from "./Job.ts"
import type { Journal } from "./Journal.ts"
import * as Patience from "./Patience.ts"
import * as Plan from "./Plan.ts"
import * as Words from "./Words.ts"

const isReport = Schema.is(Operation.Report)
const isObserved = Schema.is(Operation.Observed)

/** What a tool's encoded result says of an operation, if it is about one. */
export const reportOf = (result: unknown): Operation.Report | undefined =>
  isReport(result) ? result : undefined

/** The tool with which the model looks at an operation, if the agent has it. */
const observerOf = (job: Job, { observe }: { readonly observe: string }): string | undefined =>
  Plan.toolOf(job, observe) === undefined ? undefined : observe

/** The answer to a call that asks for work which goes on already; `undefined` if it does not. */
export const answered = (
  job: Job,
  state: RunState.RunState,
  { argsDigest, tool }: RunState.PendingCall
): string | undefined => {
  const same = RunState.live(state).find(
    (operation) => operation.tool === tool && operation.argsDigest === argsDigest
  )
  return same === undefined ? undefined : Words.notStartedAgain(same, observerOf(job, same))
}

/** What a report means: the words for the model, the events that go with its result, and a detail for the journal. */
export interface Note {
  readonly words: string
  readonly before: ReadonlyArray<Body>
  readonly detail?: string
}

const noteStarted = (
  job: Job,
  known: RunState.Operation | undefined,
  { argsDigest, callId, tool }: RunState.PendingCall,
  { id, label = tool, observe }: Operation.Started
): Note => {
  if (known !== undefined) {
    const detail = `operation ${id} is not new in this run, so what ${tool} has started is not kept track of`
    return { words: Words.operationKnown(tool, known, observerOf(job, known)), before: [], detail }
  }
  const event = {
    type: "operation_started",
    operationId: id,
    callId,
    tool,
    argsDigest,
    observe,
    label
  } as const
  const observer = Plan.toolOf(job, observe)
  if (observer === undefined) {
    const detail = `${observe}, which looks at operation ${id}, is no tool of ${job.agent}`
    return { words: Words.operationStarted(id, label, undefined), before: [event], detail }
  }
  const words = Words.operationStarted(id, label, observe)
  if (Plan.purposeOf(observer) === "handoff") return { words, before: [event] }
  const detail = `${observe}, which looks at operation ${id}, may not use a reserve: its purpose is not handoff`
  return { words, before: [event], detail }
}

const endedOf = ({ detail, id, outcome }: Operation.Ended, by: Of<"operation_ended">["by"]): Body => ({
  type: "operation_ended",
  operationId: id,
  outcome,
  detail,
  by
})

const noteObserved = (known: RunState.Operation | undefined, seen: Operation.Observed): Note => {
  const words = Words.operationObserved(seen, known)
  if (known === undefined) {
    return { words, before: [], detail: `this run has not started operation ${seen.id}` }
  }
  const news = seen._tag === "checkrein/OperationEnded" && known.ended === undefined
  return { words, before: news ? [endedOf(seen, "observed")] : [] }
}

/**
 * Takes note of a report. An operation is started once and ends at most once: a report that an id was started again, or
 * has ended again, is told to the model and changes nothing. The events have to be staged before the state changes.
 */
export const note = (
  job: Job,
  state: RunState.RunState,
  call: RunState.PendingCall,
  report: Operation.Report
): Note => {
  const known = state.operations.find(({ operationId }) => operationId === report.id)
  return report._tag === "checkrein/OperationStarted"
    ? noteStarted(job, known, call, report)
    : noteObserved(known, report)
}

// --- at a limit -----------------------------------------------------------------------------------------------------

/** How long the harness waits for an operation to be cancelled, or for one look at it. */
const patience = Duration.seconds(10)

/** An operation, and how the harness can deal with it itself. */
interface Held extends Operation.Control {
  readonly operation: Operation.Live
}

const held = (job: Job, runId: string, { callId, label, operationId, tool }: RunState.Operation): Held => {
  const annotated = Plan.toolOf(job, tool)
  const control = annotated === undefined ? {} : Context.get(annotated.annotations, Operation.Control)
  return { ...control, operation: { id: operationId, label, runId, callId, tool } }
}

/** What has become of an operation: how it ended, or what was done about it. */
type Settled = Operation.Ended | Handling

const isEnded = (seen: Operation.Observed | undefined): seen is Operation.Ended =>
  seen?._tag === "checkrein/OperationEnded"

/** Lets an author's own code run for so long, and not a moment longer; then says what is known by now. */
const bounded = (
  duration: Duration.Duration,
  nowMs: () => number,
  name: string,
  work: Effect.Effect<void>,
  known: () => Settled
): Effect.Effect<Settled> =>
  Patience.run(work, {
    name,
    leftMs: Patience.countdown(nowMs, Duration.toMillis(duration)),
    graceMs: () => 0,
    onEnd: known
  })

/** Looks at an operation every second, until it has ended or the time is over, and tells what it sees. */
const watch = Effect.fnUntraced(function* (
  { observe, operation }: Held,
  nowMs: () => number,
  duration: Duration.Duration,
  tell: (seen: Operation.Observed) => void
) {
  if (observe === undefined) return
  const until = nowMs() + Duration.toMillis(duration)
  let warned = false
  while (true) {
    const look = yield* Effect.suspend(() => observe(operation)).pipe(
      Effect.filterOrFail(isObserved, () => "it yields nothing that a look can show"),
      Effect.exit
    )
    if (Exit.isFailure(look) && !warned) {
      warned = true
      yield* Effect.logWarning(`looking at operation ${operation.id} fails`, look.cause)
    }
    const seen =
      Exit.isSuccess(look) && isObserved(look.value) && look.value.id === operation.id
        ? look.value
        : undefined
    if (seen !== undefined) tell(seen)
    const leftMs = until - nowMs()
    if (isEnded(seen) || leftMs <= 0) return
    yield* Effect.sleep(Math.min(1_000, leftMs))
  }
})

/** Says why work goes on that the policy does not mean to leave alone. */
const cannot = ({ operation: { id, tool } }: Held, needed: keyof Operation.Control): Effect.Effect<void> =>
  Effect.logWarning(`operation ${id} goes on: ${tool} has no ${needed} in its Operation.Control`)

const wait = (operation: Held, nowMs: () => number, grace: Duration.Duration): Effect.Effect<Settled> =>
  Effect.suspend(() => {
    if (operation.observe === undefined) return Effect.as(cannot(operation, "observe"), "detached" as const)
    // That it still runs is said only of what was seen running.
    let settled: Settled = "detached"
    const watching = watch(operation, nowMs, grace, (seen) => {
      settled = isEnded(seen) ? seen : "still_running"
    })
    const name = `a look at operation ${operation.operation.id}`
    return bounded(Duration.sum(grace, patience), nowMs, name, watching, () => settled)
  })

/** Cancels an operation, and looks what has become of it where it can be looked at: it may have ended by itself. */
const cancel = (operation: Held, nowMs: () => number): Effect.Effect<Settled> =>
  Effect.suspend(() => {
    const { cancel: told, operation: live } = operation
    if (told === undefined) return Effect.as(cannot(operation, "cancel"), "cancel_failed" as const)
    let settled: Settled = "cancel_failed"
    const cancelling = Effect.gen(function* () {
      const done = yield* Effect.suspend(() => told(live)).pipe(
        Effect.as(true),
        Effect.catchCause((cause) =>
          Effect.as(Effect.logWarning(`cancelling operation ${live.id} failed`, cause), false)
        )
      )
      if (done) settled = Operation.ended({ id: live.id, outcome: "cancelled", detail: "" })
      yield* watch(operation, nowMs, done ? patience : Duration.zero, (seen) => {
        settled = isEnded(seen) ? seen : "cancel_failed"
      })
    })
    return bounded(patience, nowMs, `cancelling operation ${live.id}`, cancelling, () => settled)
  })

/**
 * Deals with the operations of a run that stops at a limit, all at once, as its agent's policy says. Writes down which
 * have ended, and yields what was done about those that have not, for the run's last event.
 */
export const settle = Effect.fnUntraced(function* (job: Job, journal: Journal) {
  const { operations: policy } = job.policy
  const { nowMs, runId } = journal
  const handled = yield* Effect.forEach(
    RunState.live(journal.state()),
    Effect.fnUntraced(function* (operation) {
      const it = held(job, runId, operation)
      const settled: Settled =
        policy === "detach"
          ? "detached"
          : policy === "cancel"
            ? yield* cancel(it, nowMs)
            : yield* wait(it, nowMs, policy.grace)
      if (typeof settled === "string") return [{ operationId: operation.operationId, handling: settled }]
      yield* journal.commit(endedOf(settled, policy === "cancel" ? "cancel" : "grace"))
      return []
    }),
    { concurrency: "unbounded" }
  )
  return handled.flat()
})
