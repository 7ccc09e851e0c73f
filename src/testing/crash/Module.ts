/**
 * A subject in a module of its own, so that a process that is killed can run it, and the stores that both can open.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { LeaseTime, type RunStore, type RunStoreError } from "../../store/RunStore.ts"
import { isSubject, type Subject } from "./Subject.ts"

/** A process could not be killed, because it could not be started or did not get as far as its run. */
export class KillFailed extends Schema.TaggedError<KillFailed>()("KillFailed", {
  module: Schema.String,
  problem: Schema.String
}) {
  override get message(): string {
    return `the subject of ${this.module} could not be killed: ${this.problem}`
  }
}

/** Loads the subject that a module exports as its default. */
export const load = (url: string): Effect.Effect<Subject<unknown, never>, KillFailed> =>
  Effect.gen(function* () {
    const exported = yield* Effect.tryPromise({
      try: async (): Promise<object> => await import(url),
      catch: (error) => new KillFailed({ module: url, problem: `it cannot be loaded: ${String(error)}` })
    })
    const subject: unknown = Reflect.get(exported, "default")
    if (isSubject(subject)) return subject
    const problem = "its default export is not what CrashKit.subject makes"
    return yield* new KillFailed({ module: url, problem })
  })

/**
 * The store that a Postgres URL or the path of a SQLite file names. Whoever takes a run over has to wait until the lease
 * of the dead has ended, so leases are as short as a busy machine allows.
 */
export const storeAt = (where: string): Layer.Layer<RunStore, RunStoreError> =>
  Layer.unwrap(
    Effect.promise(async () => {
      if (!/^postgres(ql)?:/.test(where)) return (await import("../../store/NodeSqlite.ts")).runStore(where)
      return (await import("../../store/Postgres.ts")).runStore({ url: where })
    })
  ).pipe(Layer.provide(Layer.succeed(LeaseTime, "3 seconds")))
