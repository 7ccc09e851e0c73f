/**
 * `checkrein runs show --follow`: what is stored of a run, as it comes, up to its next stop. It only watches: the run may
 * be driven anywhere, and goes on when the watching ends.
 */

import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Stream from "effect/Stream"
import * as Agent from "../../Agent.ts"
import { colorsOn, prettyInTurn } from "../../observe/Pretty.ts"
import { json as jsonOf, plain } from "../../run/PlainText.ts"
import type { RunEvent } from "../../run/RunEvent.ts"
import { load, RunStore } from "../../store/RunStore.ts"
import * as AgentOf from "../AgentOf.ts"
import * as Drive from "../Drive.ts"
import * as Ending from "../Ending.ts"
import * as Output from "../Output.ts"
import type * as Flags from "./Flags.ts"
import * as StoredRun from "./StoredRun.ts"

/** How an event is printed: a line for people, if it is worth one, or the event as it is stored. */
const printer = Effect.fnUntraced(function* (json: boolean) {
  const pretty = prettyInTurn({ colors: yield* colorsOn("stdout") })
  return (event: RunEvent) => {
    const text = json ? jsonOf(event) : pretty(event)
    return text === undefined ? Effect.void : Output.print(text)
  }
})

/** Says so when nobody drives the run that is watched, for then nothing will come. */
const watchDriver = Effect.fnUntraced(function* (where: Ending.Where) {
  const between = `${yield* StoredRun.deadFor} seconds` as const
  let wasFree = false
  while (true) {
    const isFree = yield* StoredRun.isFree(where.root)
    if (isFree && !wasFree)
      yield* Output.note(
        `Nobody drives run ${plain(where.root)}: its process has died, or it waits for one. To have it go on: ${Ending.resume(where)}`
      )
    wasFree = isFree
    yield* Effect.sleep(between)
  }
})

// That nobody reads any more ends the watching too, and then there is nobody to tell.
const isStop = (cause: Cause.Cause<unknown>): boolean =>
  Context.get(Cause.annotations(cause), Agent.CancelReason) !== undefined

/** Follows a run up to its next stop, and ends as it has stopped; one that has stopped already is told at once. */
export const follow = (input: Flags.Show) =>
  Effect.gen(function* () {
    const { id, json } = input
    const store = yield* RunStore
    const { seq, status } = yield* store.summary(id)
    const isLive = status === "running"
    const where = yield* AgentOf.whereOf(id, input)
    // A stop that was followed by something else is part of the story.
    const isEnd = (event: RunEvent) => event.type === "run_stopped" && event.seq >= (isLive ? seq : seq - 1)
    const shown = store.watch(id).pipe(Stream.takeUntil(isEnd), Stream.runForEach(yield* printer(json)))
    yield* Effect.raceFirst(shown, isLive ? watchDriver(where) : Effect.never).pipe(
      Effect.onExit((exit) =>
        Exit.isFailure(exit) && isStop(exit.cause)
          ? Output.note("Not watched any more; the run goes on as it did.")
          : Effect.void
      )
    )
    const { state } = yield* load(id)
    if (!json) return yield* Drive.tell(state, { json, where })
    if (state.status === "completed") return
    yield* Output.note(Ending.told(state, where))
    yield* Output.quit(Output.exitCodes.stopped)
  }).pipe(StoredRun.inStore(input.store))
