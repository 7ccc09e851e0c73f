/**
 * A Stop of a run: the interruption of its driver or a command in its inbox, and the ending that either becomes.
 */
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Stream from "effect/Stream"
import type { Cancel, Numbered } from "../run/Command.ts"
import type { Ending } from "../run/NextStep.ts"
import type { RunState } from "../run/RunState.ts"
import { isFromAbove } from "../run/Waiting.ts"
import { RunStore } from "../store/RunStore.ts"
import type { Journal } from "./Journal.ts"

/**
 * Why a run is cancelled: annotate an interruption of the run's fiber with it, and it becomes the detail of the ending.
 *
 * @example
 * ```ts
 * import { Context, Fiber } from "effect"
 * import { Agent } from "checkrein"
 *
 * declare const fiber: Fiber.Fiber<unknown, unknown>
 *
 * const stop = Fiber.interruptAs(fiber, undefined, Context.make(Agent.CancelReason, "user pressed Stop"))
 * ```
 */
export const CancelReason = Context.Reference<string | undefined>("checkrein/CancelReason", {
  defaultValue: () => undefined
})

/** An interruption that carries its reason. */
export const interruption = (reason: string): Cause.Cause<never> =>
  Cause.annotate(Cause.interrupt(), Context.make(CancelReason, reason))

/** The reason that an interruption carries, if it does. One that is no text, from where no compiler looks, is none. */
export const reasonOf = (cause: Cause.Cause<unknown>): string | undefined => {
  const reason: unknown = Context.get(Cause.annotations(cause), CancelReason)
  return typeof reason === "string" ? reason : undefined
}

/** How a run ends that was cancelled. */
export const endingFor = (reason: string): Ending => ({
  status: "interrupted",
  reason: "cancelled",
  detail: reason
})

/** Whether a Stop ends a run that stands like this: it goes on, or waits for somebody. */
export const isOpen = ({ reason, status }: Pick<RunState, "reason" | "status">): boolean =>
  status === "running" || (status === "interrupted" && reason !== "cancelled")

/** Whether a run was stopped after somebody who saw `seen` events of it had asked to have it go on. */
export const stoppedSince = ({ reason, seq }: Pick<RunState, "reason" | "seq">, seen: number): boolean =>
  reason === "cancelled" && seq > seen

const isCancel = (command: Numbered["command"]): command is Cancel => command.type === "cancel"

/** The first Stop among commands, of those for which `counts` holds. */
export const among = (
  commands: ReadonlyArray<Numbered>,
  counts: (cancel: Cancel, id: number) => boolean = () => true
): Cancel | undefined => {
  for (const { command, id } of commands) if (isCancel(command) && counts(command, id)) return command
  return undefined
}

/**
 * The number of the last Stop that a run was sent by now and that nobody has taken in; 0 without one. Asked when somebody
 * is to have the run go on, and just before it is taken, so that a Stop which comes from then on is told from one that its
 * last driver was sent too late.
 */
export const lastSent = (runId: string) =>
  Effect.gen(function* () {
    const store = yield* RunStore
    const { inbox } = yield* store.summary(runId)
    return (yield* store.inbox(runId, inbox)).findLast(({ command }) => isCancel(command))?.id ?? 0
  }).pipe(Effect.catchTag("RunNotFound", () => Effect.succeed(0)))

/** Waits until a run is sent a Stop, and then interrupts with its reason. */
export const received = Effect.fnUntraced(function* (journal: Journal) {
  const store = yield* RunStore
  const inbox = store.watchInbox(journal.runId, journal.state().inbox)
  yield* Stream.runForEach(inbox, ({ command }) =>
    isCancel(command) ? Effect.failCause(interruption(command.reason)) : Effect.void
  )
  return yield* Effect.never
})

/**
 * The last Stop of those from before a run is had go on that counts no more then, if any does: the run has obeyed a Stop or
 * come to a limit since.
 */
export const revokedBy = (state: RunState, sent: number): number | undefined =>
  isOpen(state) || sent <= state.inbox ? undefined : sent

/**
 * The Stop that whoever takes a run up has to obey, among the commands that nobody has taken in yet: the last driver was
 * gone or on its way out when it came, or this one is not listening yet. `sent` is the number of the last Stop from before
 * the run was taken up. What is older counts no more where the run has obeyed a Stop or come to a limit since, for it was
 * resumed after that; nor does a Stop that came with one of the run above it, where that takes it up again.
 */
export const toObey = (
  state: RunState,
  commands: ReadonlyArray<Numbered>,
  { sent, withParent }: { readonly sent: number; readonly withParent: boolean }
): Cancel | undefined => {
  const { detail, parent, reason } = state
  const isFromParent = (why: string | undefined) =>
    withParent && parent !== undefined && isFromAbove(why, parent.runId)
  const isRevoked = reason === "cancelled" && isFromParent(detail)
  const others = isRevoked ? 0 : Math.max(revokedBy(state, sent) ?? 0, state.revoked ?? 0)
  return among(commands, (cancel, id) => id > (isFromParent(cancel.reason) ? sent : others))
}

/** Waits until a run that somebody has taken up is sent a Stop that has to be obeyed, and yields its reason. */
export const sentTo = Effect.fnUntraced(function* (state: RunState, taken: Parameters<typeof toObey>[2]) {
  const store = yield* RunStore
  const stops = Stream.filterMap(store.watchInbox(state.runId, state.inbox), (command) =>
    Result.fromNullishOr(toObey(state, [command], taken)?.reason, () => command)
  )
  return Option.getOrThrow(yield* Stream.runHead(Stream.concat(stops, Stream.never)))
})
