/**
 * Which ids, names and tags a store keeps: those that every database gives back as they were. Postgres takes no NUL in a
 * text, and half of a surrogate pair becomes another letter on its way into SQLite, so that two ids would be one. What
 * else a run says is stored as JSON, which writes both in other letters.
 *
 * A store of your own refuses what it has to when it is wrapped in `only`.
 */
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { type RunStore, RunStoreError } from "./RunStore.ts"

type Store = RunStore["Service"]
type Texts = ReadonlyArray<string | undefined>

/**
 * What is wrong with a text that something is to be called by; `undefined` if nothing is.
 *
 * @example
 * ```ts
 * import { Keepable } from "checkrein/store"
 *
 * Keepable.problemOf("invoice 7") // => undefined
 * ```
 */
export const problemOf = (text: string): string | undefined =>
  text.isWellFormed() && !text.includes("\0")
    ? undefined
    : `${JSON.stringify(text)} has a NUL or half of a surrogate pair in it, which not every database can keep: take another one`

/** Why something that names these is refused, if it is. */
const refusal = (runId: string, what: string, texts: Texts): RunStoreError | undefined => {
  for (const text of texts) {
    const problem = text === undefined ? undefined : problemOf(text)
    if (problem !== undefined)
      return new RunStoreError({ runId, kind: "invalid", problem: `${what} ${problem}` })
  }
  return undefined
}

/**
 * The same store, but for what not every database could keep: it is not asked for that, and each of its operations fails with
 * a `RunStoreError` of the kind `invalid` then.
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
  const ofRun = (runId: string) => refusal(runId, "the id", [runId])
  const forRun =
    <Rest extends ReadonlyArray<unknown>, A, E, R>(
      ask: (runId: string, ...rest: Rest) => Effect.Effect<A, E, R>
    ) =>
    (runId: string, ...rest: Rest): Effect.Effect<A, E | RunStoreError, R> => {
      const refused = ofRun(runId)
      return refused === undefined ? ask(runId, ...rest) : Effect.fail(refused)
    }
  const following =
    <Rest extends ReadonlyArray<unknown>, A, E>(
      follow: (runId: string, ...rest: Rest) => Stream.Stream<A, E>
    ) =>
    (runId: string, ...rest: Rest): Stream.Stream<A, E | RunStoreError> => {
      const refused = ofRun(runId)
      return refused === undefined ? follow(runId, ...rest) : Stream.fail(refused)
    }
  return {
    append: (request) => {
      const { expected, runId, summary } = request
      // What a run is called by stays as it began.
      if (expected > 0) return store.append(request)
      const { agent, parent, tags = [] } = summary
      const refused =
        refusal(runId, "the id", [runId, parent?.runId]) ??
        refusal(runId, "the name of its agent,", [agent]) ??
        refusal(runId, "its tag", tags)
      return unless(refused, () => store.append(request))
    },
    read: forRun(store.read),
    summary: forRun(store.summary),
    list: (options = {}) => {
      const { agent, before, since, tag, until } = options
      const asked = [agent, tag, since, until, before?.startedAt, before?.runId]
      return unless(refusal("", "what the runs are listed by,", asked), () => store.list(options))
    },
    delete: forRun(store.delete),
    watch: following(store.watch),
    send: forRun(store.send),
    inbox: forRun(store.inbox),
    watchInbox: following(store.watchInbox),
    lease: forRun(store.lease),
    isDriven: forRun(store.isDriven)
  }
}
