/**
 * `checkrein runs cancel`: stops a run, whoever drives it.
 */

import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import * as Agent from "../../Agent.ts"
import { isOpen } from "../../loop/Cancel.ts"
import { plain } from "../../run/PlainText.ts"
import { RunStore, type RunSummary } from "../../store/RunStore.ts"
import * as Ending from "../Ending.ts"
import * as Output from "../Output.ts"
import type * as Flags from "./Flags.ts"
import * as StoredRun from "./StoredRun.ts"

/** Whether there is nothing to stop. */
const isOver = ({ reason, status }: RunSummary): boolean =>
  status === "completed" || status === "failed" || reason === "cancelled"

/**
 * Waits for the driver to stop the run. One that has died is not told from one that is slow before its right ends; then
 * the run is stopped from here.
 */
const untilStopped = Effect.fnUntraced(function* ({ id, reason }: Flags.Cancel, seq: number) {
  const store = yield* RunStore
  const most = yield* StoredRun.deadFor
  // One that stops for something else meanwhile, such as a decision, heeds the Stop next.
  const stops = Stream.runHead(
    Stream.filter(
      store.watch(id, seq),
      (event) =>
        event.type === "run_stopped" && (event.reason === "cancelled" || event.status !== "interrupted")
    )
  )
  // Somebody else may take it up first, and is told.
  const free = StoredRun.untilFree(id).pipe(
    Effect.andThen(Agent.cancel(id, reason)),
    Effect.andThen(store.summary(id)),
    Effect.repeat({ while: isOpen })
  )
  const remark = Effect.delay(
    Output.note(
      `It has not stopped yet. If its process has died, it is stopped from here, in ${most} s at most.`
    ),
    "2 seconds"
  )
  const alive = new Output.CommandFailed({
    message: `run ${id} was asked to stop ${most} s ago and goes on: a tool of it may not let itself be interrupted; end its process, and it can be resumed`
  })
  yield* Effect.raceFirst(stops, free).pipe(
    Effect.raceFirst(Effect.andThen(remark, Effect.never)),
    Effect.timeoutOrElse({ duration: `${most} seconds`, orElse: () => alive })
  )
})

/** Stops a run: at once if nobody drives it, or else by asking its driver, whose answer is waited for. */
export const cancel = (input: Flags.Cancel) =>
  Effect.gen(function* () {
    const { id, json, reason } = input
    const store = yield* RunStore
    const before = yield* store.summary(id)
    if (isOver(before)) {
      // Somebody else may have been asked to have it go on.
      yield* Agent.cancel(id, reason)
      const { status } = before
      const text = `Nobody drives run ${plain(id)}: it is ${plain(Ending.standing(before))}`
      return yield* Output.result(json, { runId: id, cancelled: false, status }, text)
    }
    yield* Agent.cancel(id, reason)
    if (!isOver(yield* store.summary(id))) yield* untilStopped(input, before.seq)
    const after = yield* store.summary(id)
    const { status } = after
    const text =
      status === "running"
        ? `Run ${plain(id)} was stopped, and has been resumed since: it is running`
        : `Run ${plain(id)} has stopped: ${plain(Ending.standing(after))}`
    yield* Output.result(json, { runId: id, cancelled: after.reason === "cancelled", status }, text)
  }).pipe(StoredRun.inStore(input.store))
