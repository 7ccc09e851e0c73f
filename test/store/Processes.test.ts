import { spawn } from "node:child_process"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Stream from "effect/Stream"
import * as NodeSqlite from "../../src/store/NodeSqlite.ts"
import { RunStore } from "../../src/store/RunStore.ts"
import { append } from "../../src/testing/conformance/Samples.ts"
import { folder } from "./folders.ts"

const script = fileURLToPath(new URL("./appender.ts", import.meta.url))

/** Runs the appender in a process of its own, and fails with what it said if it failed. */
const appender = (...args: ReadonlyArray<string>) =>
  Effect.callback<void, string>((resume) => {
    const child = spawn(process.execPath, ["--no-warnings", script, ...args], {
      stdio: ["ignore", "inherit", "pipe"]
    })
    let said = ""
    child.stderr.on("data", (chunk) => (said += chunk))
    child.on("close", (code) => resume(code === 0 ? Effect.void : Effect.fail(said || `exit ${code}`)))
    return Effect.sync(() => child.kill("SIGKILL"))
  })

describe("two processes on one file", () => {
  it.live("one watches what the other appends and sends", () =>
    Effect.gen(function* () {
      const filename = join(yield* folder, "runs.db")
      yield* Effect.gen(function* () {
        const store = yield* RunStore
        yield* store.append(append("a", 0))
        const events = yield* Effect.forkChild(Stream.runCollect(Stream.take(store.watch("a", 1), 3)))
        const commands = yield* Effect.forkChild(Stream.runCollect(Stream.take(store.watchInbox("a", 0), 1)))
        yield* appender(filename, "a", "3", "other")
        expect(yield* Fiber.join(events)).toMatchObject([
          { seq: 1, content: "other 0" },
          { seq: 2, content: "other 1" },
          { seq: 3, content: "other 2" }
        ])
        expect(yield* Fiber.join(commands)).toEqual([{ id: 1, command: { type: "cancel", reason: "other" } }])
      }).pipe(Effect.provide(NodeSqlite.runStore(filename)))
    })
  )

  it.live("of what both append to one run nothing is lost and nothing is twice", () =>
    Effect.gen(function* () {
      const filename = join(yield* folder, "runs.db")
      yield* Effect.gen(function* () {
        const store = yield* RunStore
        yield* store.append(append("a", 0))
        const names = ["one", "two"]
        yield* Effect.forEach(names, (name) => appender(filename, "a", "100", name), {
          concurrency: "unbounded"
        })
        const events = yield* store.read("a", 1)
        for (const name of names) {
          const own = events.flatMap((event) =>
            event.type === "tool_result" && event.content.startsWith(name) ? [event.content] : []
          )
          expect(own).toEqual(Array.from({ length: 100 }, (_, i) => `${name} ${i}`))
        }
        expect(events).toHaveLength(200)
        expect((yield* store.inbox("a", 0)).map(({ id }) => id)).toEqual([1, 2])
      }).pipe(Effect.provide(NodeSqlite.runStore(filename)))
    })
  )

  it.live("both may make the tables at the same moment", () =>
    Effect.gen(function* () {
      const filename = join(yield* folder, "runs.db")
      const opening = Effect.provide(
        RunStore.use((store) => store.list()),
        NodeSqlite.runStore(filename),
        { local: true }
      )
      const all = yield* Effect.all(
        [1, 2, 3, 4].map(() => opening),
        { concurrency: "unbounded" }
      )
      expect(all).toEqual([[], [], [], []])
    })
  )
})
