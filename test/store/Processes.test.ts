import { expect, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import * as Stream from "effect/Stream"
import * as Agent from "../../src/Agent.ts"
import { LeaseTime, RunStore } from "../../src/store/RunStore.ts"
import { append } from "../../src/testing/conformance/Samples.ts"
import { open } from "./opening.ts"
import * as Process from "./process.ts"
import { describeShared } from "./stores.ts"
import * as Waiter from "./waiter.ts"

const leaseSeconds = 3

/** The store of this process, with leases as short as those of the others. */
const opened = (where: string) =>
  Effect.map(
    Layer.build(Layer.fresh(Layer.provide(open(where), Layer.succeed(LeaseTime, `${leaseSeconds} seconds`)))),
    (context) => Context.get(context, RunStore)
  )

const untilFree = {
  while: (error: { readonly _tag: string }) => error._tag === "RunBusy",
  schedule: Schedule.spaced("50 millis")
}

describeShared((where) => {
  it.live(
    "one process watches what the other appends and sends",
    () =>
      Effect.gen(function* () {
        const at = yield* where
        const store = yield* opened(at)
        yield* store.append(append("a", 0))
        const events = yield* Effect.forkChild(Stream.runCollect(Stream.take(store.watch("a", 1), 3)))
        const commands = yield* Effect.forkChild(Stream.runCollect(Stream.take(store.watchInbox("a", 0), 1)))
        const other = yield* Process.start(["append", at, "a", "3", "other"])
        expect(yield* Fiber.join(events)).toMatchObject([
          { seq: 1, content: "other 0" },
          { seq: 2, content: "other 1" },
          { seq: 3, content: "other 2" }
        ])
        expect(yield* Fiber.join(commands)).toEqual([{ id: 1, command: { type: "cancel", reason: "other" } }])
        yield* other.ended
      }),
    { concurrent: true, timeout: 60_000 }
  )

  it.live(
    "of what two processes append to one run nothing is lost and nothing is twice",
    () =>
      Effect.gen(function* () {
        const at = yield* where
        const store = yield* opened(at)
        yield* store.append(append("a", 0))
        const names = ["one", "two"]
        const others = yield* Effect.forEach(names, (name) => Process.start(["append", at, "a", "100", name]))
        for (const other of others) yield* other.ended
        const events = yield* store.read("a", 1)
        for (const name of names) {
          const own = events.flatMap((event) =>
            event.type === "tool_result" && event.content.startsWith(name) ? [event.content] : []
          )
          expect(own).toEqual(Array.from({ length: 100 }, (_, i) => `${name} ${i}`))
        }
        expect(events).toHaveLength(200)
        expect((yield* store.inbox("a", 0)).map(({ id }) => id)).toEqual([1, 2])
      }),
    { concurrent: true, timeout: 60_000 }
  )

  it.live(
    "all may make the tables at the same moment",
    () =>
      Effect.gen(function* () {
        const at = yield* where
        const opening = Effect.scoped(Effect.flatMap(opened(at), (store) => store.list()))
        const all = yield* Effect.all(
          [1, 2, 3, 4].map(() => opening),
          { concurrency: "unbounded" }
        )
        expect(all).toEqual([[], [], [], []])
      }),
    { concurrent: true, timeout: 60_000 }
  )

  it.live(
    "a run is busy while another process drives it, and free soon after that has died",
    () =>
      Effect.gen(function* () {
        const at = yield* where
        const store = yield* opened(at)
        yield* store.append(append("a", 0))
        const other = yield* Process.start(["hold", at, "a"], leaseSeconds)
        yield* other.says("held")
        const free = Effect.scoped(Effect.asVoid(store.lease("a")))
        // Longer than a lease lasts that nobody renews.
        yield* Effect.sleep(`${leaseSeconds * 1.5} seconds`)
        expect(yield* Effect.flip(free)).toMatchObject({ _tag: "RunBusy", runId: "a" })
        yield* other.signal("SIGKILL")
        expect(yield* Effect.flip(free)).toMatchObject({ _tag: "RunBusy" })
        yield* Effect.timeout(Effect.retry(free, untilFree), `${leaseSeconds + 1} seconds`)
      }),
    { concurrent: true, timeout: 60_000 }
  )

  it.live(
    "a driver that was held up finds that it has lost its run, and writes nothing more",
    () =>
      Effect.gen(function* () {
        const at = yield* where
        const store = yield* opened(at)
        yield* store.append(append("a", 0))
        const other = yield* Process.start(["hold", at, "a"], leaseSeconds)
        yield* other.says("held")
        yield* other.signal("SIGSTOP")
        yield* Effect.retry(store.lease("a"), untilFree)
        yield* store.append(append("a", 1))
        yield* other.signal("SIGCONT")
        yield* other.says("lost RunBusy RunBusy StaleWriter")
        expect((yield* store.summary("a")).seq).toBe(2)
      }),
    { concurrent: true, timeout: 60_000 }
  )

  it.live(
    "nobody resumes a run that another process drives, and a cancel reaches its tool within a second",
    () =>
      Effect.gen(function* () {
        const at = yield* where
        const store = yield* opened(at)
        const other = yield* Process.start(["drive", at, "a"], leaseSeconds)
        yield* other.says("tool")
        const resuming = Agent.resume(Waiter.agent, "a").pipe(
          Effect.provide(Waiter.layer),
          Effect.provideService(RunStore, store)
        )
        expect(yield* Effect.flip(resuming)).toMatchObject({ _tag: "RunBusy", runId: "a" })
        const sentMs = yield* Clock.currentTimeMillis
        yield* store.send("a", { type: "cancel", reason: "enough" })
        yield* other.says("interrupted")
        yield* other.ended
        const stopped = (yield* store.read("a")).findLast(({ type }) => type === "run_stopped")
        expect(Date.parse(stopped?.at ?? "") - sentMs).toBeLessThan(1000)
        expect(yield* store.summary("a")).toMatchObject({
          status: "interrupted",
          reason: "cancelled",
          detail: "enough"
        })
      }),
    { concurrent: true, timeout: 60_000 }
  )
})
