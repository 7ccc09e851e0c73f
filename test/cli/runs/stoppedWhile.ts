/**
 * A run that is driven from here until a command waits for it, and then stopped.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Journal from "../../../src/loop/Journal.ts"
import * as Scripted from "../../../src/provider/Scripted.ts"
import type { Ending } from "../../../src/run/NextStep.ts"
import * as NodeSqlite from "../../../src/store/NodeSqlite.ts"
import { load, RunStore } from "../../../src/store/RunStore.ts"
import { type Ended, Running } from "../support.ts"

/** Has a command wait for a run of a store, which then ends like this. Yields how the command has ended. */
export const stoppedWhile = async (
  file: string,
  runId: string,
  args: ReadonlyArray<string>,
  ending: Ending
): Promise<Ended> => {
  const nothing = Scripted.layer(Scripted.make("none", []), { usage: "omitted" })
  const world = Layer.merge(nothing, NodeSqlite.runStore(file))
  const driven = Effect.gen(function* () {
    const store = yield* RunStore
    const lease = yield* store.lease(runId)
    const { state } = yield* load(runId)
    const { agent, inbox, turns } = state
    const journal = yield* Journal.make({ runId, agent, from: state, lease })
    if (state.status !== "running") yield* journal.commit({ type: "run_resumed", inbox, messages: [] })
    const command = new Running(args)
    yield* Effect.promise(() => command.prints(/waiting, 17 s at most/))
    yield* journal.commit({ type: "run_stopped", turns, costUsd: 0, tokens: 0, ...ending })
    return command
  })
  const command = await Effect.runPromise(Effect.provide(Effect.scoped(driven), world))
  return await command.ended
}
