/**
 * Which ids, names and tags a store keeps: those that every database gives back as they were. Postgres takes no NUL in a
 * text, and half of a surrogate pair becomes another letter on its way into SQLite, so that two ids would be one. What
 * else a run says is stored as JSON, which writes both in other letters. And a text that is looked up by has to fit into
 * an index, which on Postgres has room for 2,704 bytes an entry.
 *
 * A store of your own refuses what it has to when it is wrapped in `only`, and is asked for numbers that there are.
 */
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { type RunStore, RunStoreError } from "./RunStore.ts"

type Store = RunStore["Service"]
type Texts = ReadonlyArray<string | undefined>

/**
 * How long what something is called by may be, in bytes of UTF-8. The widest index has an agent, a tag, a status, a time and
 * a run id, which take 2,554 bytes and some thirty around them; of a pool it has its name and the key of a claim. What a
 * run is called by whoever starts it leaves room for the runs of its sub-agents, each of which is called by the one above
 * it and its call, in 129 bytes at most: eleven one below the other.
 *
 * @example
 * ```ts
 * import { Keepable } from "checkrein/store"
 *
 * Keepable.problemOf("acme", Keepable.mostBytes.name) // => undefined
 * ```
 */
export const mostBytes = { givenId: 512, id: 2_000, name: 256, key: 2_300 } as const

/**
 * What is wrong with a text that something is to be called by; `undefined` if nothing is. It may have `most` bytes, by
 * default as many as the id of a run.
 *
 * @example
 * ```ts
 * import { Keepable } from "checkrein/store"
 *
 * Keepable.problemOf("invoice 7") // => undefined
 * ```
 */
export const problemOf = (text: string, most: number = mostBytes.id): string | undefined => {
  const bytes = 3 * text.length <= most ? 0 : Buffer.byteLength(text)
  if (bytes > most)
    return `${JSON.stringify(text.slice(0, 40))}… has ${bytes} bytes, and more than ${most} are not kept: take a shorter one`
  return text.isWellFormed() && !text.includes("\0")
    ? undefined
    : `${JSON.stringify(text)} has a NUL or half of a surrogate pair in it, which not every database can keep: take another one`
}

const invalid = (runId: string, what: string, problem: string) =>
  new RunStoreError({ runId, kind: "invalid", problem: `${what} ${problem}` })

/** Why something that names these is refused, if it is. */
const refusal = (runId: string, what: string, texts: Texts, most?: number): RunStoreError | undefined => {
  for (const text of texts) {
    const problem = text === undefined ? undefined : problemOf(text, most)
    if (problem !== undefined) return invalid(runId, what, problem)
  }
  return undefined
}

/**
 * Why a run cannot have this id, of so many bytes at most, if it cannot. An empty one is none: all who left theirs empty
 * would share one run, and its answer.
 *
 * @example
 * ```ts
 * import { Keepable } from "checkrein/store"
 *
 * Keepable.refusedId("")?.message // => "the store failed: the id of the run is empty"
 * ```
 */
export const refusedId = (runId: string, most: number = mostBytes.id): RunStoreError | undefined =>
  runId === "" ? invalid(runId, "the id of the run", "is empty") : refusal(runId, "the id", [runId], most)

// As far as Postgres counts.
const last = 2 ** 31 - 1

/** A number of something that is counted from 0 on; what is below that, or no number, is 0. */
const counted = (number: number): number => (number > 0 ? Math.min(number, last) : 0)

/**
 * The same store, but for what not every database could keep: it is not asked for that, and each of its operations fails with
 * a `RunStoreError` of the kind `invalid` then. Nor is it asked for events or runs by a number that is none: where one below
 * 0 or a fraction was given, it gets the next whole one that means the same.
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
      const { agent, parent, tags = [] } = summary
      const refused =
        refusedId(runId) ??
        refusal(runId, "the id", [parent?.runId]) ??
        refusal(runId, "the name of its agent,", [agent], mostBytes.name) ??
        refusal(runId, "its tag", tags, mostBytes.name)
      return unless(refused, () => store.append(request))
    },
    read: forRun((runId, from = 0) => store.read(runId, Math.ceil(counted(from)))),
    summary: forRun((runId) => store.summary(runId)),
    list: (options = {}) => {
      const { agent, before, limit, since, tag, until } = options
      const what = "what the runs are listed by,"
      const refused =
        refusal("", what, [agent, tag], mostBytes.name) ??
        refusal("", what, [since, until, before?.startedAt, before?.runId])
      const asked = limit === undefined ? options : { ...options, limit: Math.floor(counted(limit)) }
      return unless(refused, () => store.list(asked))
    },
    delete: forRun((runId) => store.delete(runId)),
    watch: (runId, from = 0) => followed(runId, () => store.watch(runId, Math.ceil(counted(from)))),
    send: forRun((runId, command) => store.send(runId, command)),
    inbox: forRun((runId, after) => store.inbox(runId, Math.floor(counted(after)))),
    watchInbox: (runId, after) => followed(runId, () => store.watchInbox(runId, Math.floor(counted(after)))),
    lease: forRun((runId) => store.lease(runId)),
    isDriven: forRun((runId) => store.isDriven(runId))
  }
}
