/**
 * Another process on the same store: appends `count` events to a run, each as the next one, and says so.
 *
 * `node appender.ts FILE RUN COUNT NAME`
 */
import * as Effect from "effect/Effect"
import * as NodeSqlite from "../../src/store/NodeSqlite.ts"
import { RunStore } from "../../src/store/RunStore.ts"
import { append, event } from "../../src/testing/conformance/Samples.ts"

const [filename = "", runId = "", count = "0", name = ""] = process.argv.slice(2)

const program = Effect.gen(function* () {
  const store = yield* RunStore
  for (let i = 0; i < Number(count); i++) {
    const write = Effect.gen(function* () {
      const { seq } = yield* store.summary(runId)
      yield* store.append({ ...append(runId, seq), events: [event(runId, seq, `${name} ${i}`)] })
    })
    yield* Effect.retry(write, { while: (error) => error._tag === "StaleWriter" })
  }
  yield* store.send(runId, { type: "cancel", reason: name })
})

await Effect.runPromise(Effect.provide(program, NodeSqlite.runStore(filename, { busyTimeout: "30 seconds" })))
