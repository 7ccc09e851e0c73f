/** A store of your own that refuses what it has to when it is wrapped in `only`, and is asked for numbers that there are. */
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import * as Given from "../run/Given.ts"
import { mostBytes, refusal, refusedId, refusedOptions, refusedTags } from "./Names.ts"
import type { DeleteOptions, ListOptions, RunStore, RunStoreError } from "./RunStore.ts"

type Store = RunStore["Service"]

// As far as Postgres counts.
const last = 2 ** 31 - 1

/** A number of something that is counted from 0 on; what is below that, or no number, is 0. */
const counted = (number: number): number => (number > 0 ? Math.min(number, last) : 0)

const listKinds: Given.Kinds<ListOptions> = {
  status: Given.text,
  reason: Given.text,
  agent: Given.text,
  tag: Given.text,
  told: { what: "true, or left out", is: (value) => value === true },
  since: Given.date,
  until: Given.date,
  limit: { what: "a number", is: (value) => typeof value === "number" },
  before: {
    what: "a run of a list, with its startedAt and its runId",
    is: (value) => Given.isRecord(value) && Given.date.is(value.startedAt) && Given.text.is(value.runId)
  }
}

const deleteKinds: Given.Kinds<DeleteOptions> = { untouchedSince: Given.date }

/**
 * The same store, but for what not every database could keep, an option that is misspelt or a date that is none: it is not
 * asked for that, and each of its operations fails with a `RunStoreError` of the kind `invalid` then. Nor is it asked for
 * events or runs by a number that is none: where one below 0 or a fraction was given, it gets the next whole one that means
 * the same. A date it gets as a summary has one, so that the two can be compared as texts.
 *
 * @example
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Layer from "effect/Layer"
 * import { Keepable, RunStore } from "checkrein/store"
 *
 * declare const made: Effect.Effect<RunStore.RunStore["Service"]>
 *
 * const MyStore = Layer.effect(RunStore.RunStore, Effect.map(made, Keepable.only))
 * ```
 */
export const only = (store: Store): Store => {
  const unless = <A, E>(refused: RunStoreError | undefined, effect: () => Effect.Effect<A, E>) =>
    refused === undefined ? effect() : Effect.fail(refused)
  const forRun =
    <Rest extends ReadonlyArray<unknown>, A, E, R>(
      ask: (runId: string, ...rest: Rest) => Effect.Effect<A, E, R>
    ) =>
    (runId: string, ...rest: Rest): Effect.Effect<A, E | RunStoreError, R> => {
      const refused = refusedId(runId)
      return refused === undefined ? ask(runId, ...rest) : Effect.fail(refused)
    }
  const followed = <A, E>(runId: string, follow: () => Stream.Stream<A, E>) => {
    const refused = refusedId(runId)
    return refused === undefined ? follow() : Stream.fail(refused)
  }
  return {
    append: (request) => {
      const { expected, runId, summary } = request
      // What a run is called by stays as it began.
      if (expected > 0) return store.append(request)
      const { agent, parent, tags } = summary
      const refused =
        refusedId(runId) ??
        refusal(runId, "the id", [parent?.runId]) ??
        refusal(runId, "the name of its agent,", [agent], mostBytes.name) ??
        refusedTags(runId, tags)
      return unless(refused, () => store.append(request))
    },
    read: forRun((runId, from = 0, limit = undefined) =>
      store.read(runId, Math.ceil(counted(from)), limit === undefined ? limit : Math.floor(counted(limit)))
    ),
    summary: forRun((runId) => store.summary(runId)),
    list: (options = {}) => {
      const { agent, before, limit, since, tag, until } = options
      const what = "what the runs are listed by,"
      const refused =
        refusedOptions("", options, listKinds) ??
        refusal("", what, [agent, tag], mostBytes.name) ??
        refusal("", what, [before?.runId])
      return unless(refused, () =>
        store.list({
          ...Given.picked(options, Given.namesOf(listKinds)),
          since: Given.momentOf(since),
          until: Given.momentOf(until),
          ...(limit === undefined ? undefined : { limit: Math.floor(counted(limit)) })
        })
      )
    },
    delete: forRun((runId, options = {}) =>
      unless(refusedOptions(runId, options, deleteKinds), () =>
        store.delete(runId, { untouchedSince: Given.momentOf(options.untouchedSince) })
      )
    ),
    watch: (runId, from = 0) => followed(runId, () => store.watch(runId, Math.ceil(counted(from)))),
    send: forRun((runId, command) => store.send(runId, command)),
    inbox: forRun((runId, after) => store.inbox(runId, Math.floor(counted(after)))),
    watchInbox: (runId, after) => followed(runId, () => store.watchInbox(runId, Math.floor(counted(after)))),
    lease: forRun((runId) => store.lease(runId)),
    isDriven: forRun((runId) => store.isDriven(runId))
  }
}
