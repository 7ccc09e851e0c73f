/**
 * `checkrein runs delete`: deletes a run, or many by their age and what they are, with everything that is stored
 * of them.
 */

import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { plain } from "../../run/PlainText.ts"
import { deleteOlderThan, RunStore, rootOf } from "../../store/RunStore.ts"
import * as Ending from "../Ending.ts"
import * as Output from "../Output.ts"
import type * as Flags from "./Flags.ts"
import * as StoredRun from "./StoredRun.ts"

const deleteOne = Effect.fnUntraced(function* (id: string, { store: where }: Flags.Delete) {
  const store = yield* RunStore
  // One that cannot be read is to be got rid of all the same.
  const { runId: root } = yield* Effect.catchIf(
    rootOf(id),
    (error) => error._tag === "RunStoreError" && error.kind === "corrupt" && error.runId === id,
    () => Effect.succeed({ runId: id })
  )
  if (root !== id) {
    const message = `run ${id} was started by another run and is deleted with it: delete ${root}`
    return yield* new Output.CommandFailed({ message })
  }
  const stop = Ending.cancel({ store: where, agent: undefined, root })
  return yield* Effect.catchTag(
    store.delete(id),
    "RunBusy",
    () =>
      new StoredRun.Driven({
        message: `run ${id} is driven by another process: stop it with \`${stop}\` before it is deleted`
      })
  )
})

const deleteOld = (ms: number, { of, status, tag }: Flags.Delete) =>
  deleteOlderThan(Duration.millis(ms), {
    status: Option.getOrUndefined(status),
    agent: Option.getOrUndefined(of),
    tag: Option.getOrUndefined(tag)
  })

/** What is to be deleted, if that is clear: one run, or those that are old. */
const chosen = (input: Flags.Delete) => {
  const { all, id, of, olderThan, status, tag } = input
  const usage = (message: string) => Effect.fail(new Output.UsageError({ message }))
  if (Option.isSome(id)) {
    const isFiltered = [olderThan, of, status, tag].some((flag) => Option.isSome<unknown>(flag))
    return isFiltered || all
      ? usage("an ID deletes that run, and the flags choose among many: use one of them")
      : Effect.succeed(deleteOne(id.value, input))
  }
  if (Option.isSome(olderThan))
    return all
      ? usage("--older-than names an age, and --all any: use one of them")
      : Effect.succeed(deleteOld(olderThan.value, input))
  return all
    ? Effect.succeed(deleteOld(0, input))
    : usage("which runs? Name the ID of one, or of many the age with --older-than; --all is any age")
}

/** What is gone: the first of these with those below it, or many. */
const said = ([first, ...others]: ReadonlyArray<string>, isOne: boolean): string => {
  if (first === undefined) return "Deleted 0 runs."
  if (others.length === 0) return `Deleted run ${plain(first)}.`
  if (!isOne) return `Deleted ${others.length + 1} runs.`
  const below = others.length === 1 ? "the run" : `the ${others.length} runs`
  return `Deleted run ${plain(first)} and ${below} below it.`
}

/** Deletes a run, or those that are old. */
export const remove = (input: Flags.Delete) =>
  Effect.gen(function* () {
    const deleting = yield* chosen(input)
    const inStore = Option.isSome(input.id) ? StoredRun.inStore : StoredRun.inStoreIfAny
    const deleted = yield* deleting.pipe(inStore(input.store))
    yield* Output.result(input.json, { deleted }, said(deleted, Option.isSome(input.id)))
  })
