/**
 * A store that fails at its k-th append, for every k: the run stops, it is never told to have failed, nothing is done
 * after, and once the store is repaired the run goes on with nothing done twice.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Toolkit from "effect/ai/Toolkit"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/testing/TestClock"
import { Agent, RunStore } from "../../src/index.ts"
import type { RunEvent } from "../../src/run/RunEvent.ts"
import {
  awaited,
  call,
  during,
  forked,
  idle,
  last,
  type Options,
  type Scripted,
  Tools,
  text,
  turn,
  types,
  until,
  type World,
  world
} from "./modelSupport.ts"
import { inTestTime } from "./support.ts"

type Store = RunStore.RunStore["Service"]

const check = (name: string, body: () => Effect.Effect<unknown, unknown>): void =>
  it.effect(name, () => inTestTime(body()))
type AppendEffect = ReturnType<Store["append"]>

const unavailable = (runId: string) =>
  new RunStore.RunStoreError({
    runId,
    kind: "unavailable",
    problem: "the disk is gone"
  })

/** What may happen to an append, and how the run has to end then. */
const faults: Record<
  string,
  {
    readonly ends: string
    readonly does: (append: AppendEffect, runId: string) => AppendEffect
  }
> = {
  "fails, and has written nothing": {
    ends: "RunStoreError",
    does: (_, runId) => Effect.fail(unavailable(runId))
  },
  "fails, and has written": {
    ends: "RunStoreError",
    does: (append, runId) => Effect.andThen(append, Effect.fail(unavailable(runId)))
  },
  "hangs, and has written nothing": {
    ends: "RunStoreError",
    does: () => Effect.never
  },
  "hangs, and has written": {
    ends: "RunStoreError",
    does: (append) => Effect.andThen(append, Effect.never)
  },
  "hangs, and cannot be interrupted": {
    ends: "RunStoreError",
    does: () => Effect.uninterruptible(Effect.never)
  },
  "breaks down": {
    ends: "RunStoreError",
    does: () => Effect.die(new Error("a bug"))
  },
  "interrupts itself": {
    ends: "RunStoreError",
    does: () => Effect.interrupt
  },
  "interrupts itself, and has written": {
    ends: "RunStoreError",
    does: (append) => Effect.andThen(append, Effect.interrupt)
  },
  "is stale": {
    ends: "RunBusy",
    does: (_, runId) => Effect.fail(new RunStore.StaleWriter({ runId, expected: 0 }))
  }
}

/** A store with one fault in it, at the append of this number; 0 for none. */
const faulty = (at: number, fault: keyof typeof faults) => {
  const seen = { appends: 0, struck: false }
  const wrap = (store: Store): Store => ({
    ...store,
    append: (append) =>
      Effect.suspend(() => {
        seen.appends++
        if (seen.appends !== at) return store.append(append)
        seen.struck = true
        return faults[fault]?.does(store.append(append), append.runId) ?? Effect.void
      })
  })
  return { seen, wrap }
}

/** What a run is made of, and what counts as done when it is over. */
interface Scenario {
  readonly script: ReadonlyArray<Scripted.Reply>
  readonly writes: ReadonlyArray<string>
  readonly run: (w: World) => Effect.Effect<unknown, unknown>
}

const agent = Agent.make("analyst", { toolkit: Tools })

const plain: Scenario = {
  script: [
    turn(
      call("read_file", { path: "a" }, { id: "a" }),
      call("write_file", { path: "w1" }, { id: "w1" }),
      call("slow_read", { path: "b" }, { id: "b" }),
      call("write_file", { path: "w2" }, { id: "w2" })
    ),
    turn(call("delete_file", { path: "d" }, { id: "d" }), call("slow_ask", { path: "q" }, { id: "q" })),
    text("done")
  ],
  writes: ["write_file w1", "write_file w2", "delete_file d", "slow_ask q"],
  run: (w) => w.in(Agent.run(agent, "go", { runId: "r" }))
}

const child = Agent.make("child", { toolkit: Tools })
const ask = Agent.asTool(child, {
  name: "ask_child",
  description: "Asks.",
  input: ({ task }) => `child: ${task}`
})
const parent = Agent.make("parent", {
  toolkit: Toolkit.make(ask.tool, ...Object.values({ w: Tools.tools.write_file }))
}).pipe(Agent.provide(ask.layer))
const nested: Scenario = {
  script: [
    turn(call("ask_child", { task: "look" }, { id: "k" }), call("write_file", { path: "p" }, { id: "p" })),
    text("done")
  ],
  writes: ["write_file c", "write_file p"],
  run: (w) => w.in(Agent.run(parent, "go", { runId: "r" }))
}
const childScript = [call("write_file", { path: "c" }, { id: "c" }), text("child done")]

const play = (scenario: Scenario, options: Options) => {
  const reply: Scripted.Line = (transcript) =>
    transcript.task.startsWith("child: ") ? childScript[transcript.turn] : scenario.script[transcript.turn]
  return world(
    Array.from({ length: 40 }, () => reply),
    options
  )
}

const minutes = 60_000

/** Goes on with a run until it is complete, doing what each stop asks a person for. */
const finish = (w: World, scenario: Scenario) =>
  Effect.gen(function* () {
    for (let i = 0; i < 20; i++) {
      const exit = yield* during(10 * minutes, scenario.run(w))
      if (Exit.isSuccess(exit)) return
      const error = Cause.squash(exit.cause)
      const tag = (error as { readonly _tag?: string })._tag
      if (tag === "ApprovalRequired") {
        for (const request of (error as { readonly calls: ReadonlyArray<Agent.CallRef> }).calls) {
          yield* Effect.ignore(w.in(Agent.decide(request, Agent.approve())))
        }
      } else if (tag === "OutcomeUnknown") {
        for (const request of (error as { readonly calls: ReadonlyArray<Agent.CallRef> }).calls) {
          yield* Effect.ignore(w.in(Agent.resolve(request, Agent.happened("it was done"))))
        }
      } else return yield* Effect.die(error)
    }
    return yield* Effect.die(new Error("it does not come to an end"))
  })

const journals = (w: World): Effect.Effect<ReadonlyArray<ReadonlyArray<RunEvent>>> =>
  Effect.gen(function* () {
    const summaries = yield* Effect.orDie(w.store.list())
    return yield* Effect.forEach(summaries, ({ runId }) => Effect.orDie(w.store.read(runId)))
  })

/** Looks into the store from within the model and the tools: what is done was claimed there first (law 1). */
const claims = () => {
  let store: Store | undefined
  const missing: Array<string> = []
  const some = (holds: (events: ReadonlyArray<RunEvent>) => boolean): boolean => {
    if (store === undefined) return false
    const inside = store
    return Effect.runSync(
      Effect.orDie(
        Effect.flatMap(inside.list(), (all) => Effect.forEach(all, ({ runId }) => inside.read(runId)))
      )
    ).some(holds)
  }
  return {
    missing,
    options: (wrap: (store: Store) => Store): Options => ({
      store: (inner) => {
        store = inner
        return wrap(inner)
      },
      onRequest: () => {
        if (!some((events) => events.at(-1)?.type === "turn_started")) missing.push("a model call")
      },
      onStart: (work) => {
        const [tool, path] = work.split(" ")
        const started = some((events) =>
          events.some(
            (event) =>
              event.type === "tool_start" &&
              event.tool === tool &&
              JSON.stringify(event.args).includes(`"${path}"`)
          )
        )
        if (!started) missing.push(work)
      }
    })
  }
}

const countAppends = (scenario: Scenario) =>
  Effect.gen(function* () {
    const { seen, wrap } = faulty(0, "is stale")
    const w = yield* play(scenario, { store: wrap })
    yield* finish(w, scenario)
    return seen.appends
  })

for (const [name, scenario] of Object.entries({
  "a run": plain,
  "a run with a child": nested
})) {
  for (const [fault, { ends }] of Object.entries(faults)) {
    describe(`${name}, when an append ${fault}`, () => {
      check("stops with that, does nothing more, and goes on when the store is repaired", () =>
        Effect.gen(function* () {
          const appends = yield* countAppends(scenario)
          assert.isAbove(appends, 8)
          for (let k = 1; k <= appends; k++) {
            const where = `append ${k} of ${appends}`
            const { seen, wrap } = faulty(k, fault)
            const claimed = claims()
            const w = yield* play(scenario, claimed.options(wrap))

            // Until the fault strikes, with whatever people have to do on the way.
            let exit: Exit.Exit<unknown, unknown> = Exit.void
            while (!seen.struck) {
              const before = seen.appends
              const fiber = yield* forked(scenario.run(w))
              let held: { readonly work: number; readonly requests: number } | undefined
              for (let i = 0; i < 40 && fiber.pollUnsafe() === undefined; i++) {
                yield* idle
                if (seen.struck)
                  held ??= {
                    work: w.work.started.length,
                    requests: w.requests.length
                  }
                yield* TestClock.adjust("5 seconds")
              }
              exit = yield* awaited(fiber)
              if (held !== undefined) {
                assert.strictEqual(w.work.started.length, held.work, `${where}: a tool starts after it`)
                assert.strictEqual(w.requests.length, held.requests, `${where}: the model is asked after it`)
              }
              if (!seen.struck) {
                assert.isAbove(seen.appends, before, where)
                const error = Exit.isFailure(exit) ? Cause.squash(exit.cause) : undefined
                assert.strictEqual((error as { readonly _tag?: string })?._tag, "ApprovalRequired", where)
                for (const request of (error as { readonly calls: ReadonlyArray<Agent.CallRef> }).calls) {
                  yield* Effect.orDie(w.in(Agent.decide(request, Agent.approve())))
                }
              }
            }
            assert(Exit.isFailure(exit), where)
            assert.isTrue(Cause.hasFails(exit.cause), `${where}: ${Cause.pretty(exit.cause)}`)
            const error = Cause.squash(exit.cause) as {
              readonly _tag: string
              readonly kind?: string
            }
            assert.strictEqual(error._tag, ends, where)
            if (fault.startsWith("hangs")) assert.strictEqual(error.kind, "timed_out", where)
            assert.strictEqual(
              w.work.started.length,
              w.work.finished.length + w.work.interrupted.length,
              where
            )
            for (const events of yield* journals(w)) assert.notInclude(reasons(events), "defect", where)

            // Repaired: only that one append was hit.
            yield* finish(w, scenario).pipe(
              Effect.catchCause((cause) => Effect.die(new Error(`${where}: ${Cause.pretty(cause)}`)))
            )
            for (const write of scenario.writes) {
              const times = w.work.started.filter((work) => work === write).length
              assert.isAtMost(times, 1, `${where}: ${write}`)
            }
            assert.deepStrictEqual(claimed.missing, [], `${where}: done without a claim`)
            const asked = scenario.script.length + (scenario === nested ? childScript.length : 0)
            assert.isAtMost(w.requests.length, asked + 1, `${where}: at most one model call is lost`)
            yield* w.journal("r").pipe(
              Effect.tap((events) =>
                Effect.sync(() => assert.strictEqual(last(events, "run_stopped").status, "completed"))
              ),
              Effect.catchCause((cause) => Effect.die(new Error(`${where}: ${Cause.pretty(cause)}`)))
            )
            const all = yield* Effect.orDie(w.store.list())
            for (const { runId } of all) yield* w.journal(runId)
          }
        })
      )
    })
  }
}

const reasons = (events: ReadonlyArray<RunEvent>): ReadonlyArray<string> =>
  events.flatMap((event) => (event.type === "run_stopped" ? [event.reason] : []))

describe("a store that hangs", () => {
  check("is waited for 30 seconds, not less and not more", () =>
    Effect.gen(function* () {
      const { seen, wrap } = faulty(2, "hangs, and has written nothing")
      const w = yield* play(plain, { store: wrap })
      const fiber = yield* forked(w.in(Effect.flip(Agent.run(agent, "go", { runId: "r" }))))
      yield* until(() => seen.struck)
      yield* TestClock.adjust("29 seconds")
      yield* idle
      assert.isUndefined(fiber.pollUnsafe())
      yield* TestClock.adjust("1 second")
      yield* idle
      assert.isDefined(fiber.pollUnsafe())
      const error = yield* Fiber.join(fiber)
      assert(error._tag === "RunStoreError")
      assert.strictEqual(error.runId, "r")
    })
  )

  check("and a Stop meanwhile: the fiber ends when the append does, at the latest", () =>
    Effect.gen(function* () {
      const appends = yield* countAppends(plain)
      for (let k = 1; k <= Math.min(appends, 8); k++) {
        const { seen, wrap } = faulty(k, "hangs, and has written nothing")
        const w = yield* play(plain, { store: wrap })
        const fiber = yield* forked(w.in(Agent.run(agent, "go", { runId: "r" })))
        for (let i = 0; i < 40 && !seen.struck; i++) {
          yield* idle
          if (!seen.struck) yield* TestClock.adjust("1 second")
        }
        assert.isTrue(seen.struck, `append ${k}`)
        const stopping = yield* forked(Fiber.interrupt(fiber))
        yield* idle
        yield* TestClock.adjust("30 seconds")
        yield* idle
        assert.isDefined(fiber.pollUnsafe(), `append ${k}: still there after 30 s`)
        yield* Fiber.join(stopping)
        const started = w.work.started.length
        yield* TestClock.adjust("5 minutes")
        assert.strictEqual(w.work.started.length, started)
        yield* finish(w, plain)
        for (const write of plain.writes) {
          assert.isAtMost(w.work.started.filter((work) => work === write).length, 1, `append ${k}: ${write}`)
        }
        yield* w.journal()
      }
    })
  )

  check("an append that takes 20 seconds is waited for, and a Stop meanwhile is written after it", () =>
    Effect.gen(function* () {
      let slow = false
      const w = yield* play(plain, {
        store: (store) => ({
          ...store,
          append: (append) => (slow ? Effect.delay(store.append(append), "20 seconds") : store.append(append))
        }),
        onRequest: () => {
          slow = true
        }
      })
      const fiber = yield* forked(w.in(Agent.run(agent, "go", { runId: "r" })))
      yield* until(() => w.requests.length === 1)
      yield* idle
      const stopping = yield* forked(Fiber.interrupt(fiber))
      yield* idle
      assert.isUndefined(fiber.pollUnsafe(), "an append is not cut in half")
      yield* TestClock.adjust("20 seconds")
      yield* idle
      yield* TestClock.adjust("20 seconds")
      yield* idle
      assert.isDefined(fiber.pollUnsafe())
      yield* Fiber.join(stopping)
      assert.strictEqual(last(yield* w.journal(), "run_stopped").reason, "cancelled")
      slow = false
      yield* finish(w, plain)
      yield* w.journal()
    })
  )
})

describe("a store that fails elsewhere", () => {
  const simple = [call("list_files"), text("done")]

  check("reading: RunStoreError, nothing is done", () =>
    Effect.gen(function* () {
      const w = yield* world(simple, {
        store: (store) => ({
          ...store,
          read: (runId) => Effect.fail(unavailable(runId))
        })
      })
      for (const effect of [Agent.resume(agent, "r"), Agent.run(agent, "x", { runId: "q", after: "r" })]) {
        const error = yield* w.in(Effect.flip(effect))
        assert.strictEqual(error._tag, "RunStoreError")
      }
      assert.strictEqual(w.requests.length, 0)
    })
  )

  check("taking the lease: RunStoreError, nothing is written", () =>
    Effect.gen(function* () {
      const w = yield* world(simple, {
        store: (store) => ({
          ...store,
          lease: (runId) => Effect.fail(unavailable(runId))
        })
      })
      const error = yield* w.in(Effect.flip(Agent.run(agent, "go", { runId: "r" })))
      assert.strictEqual(error._tag, "RunStoreError")
      assert.deepStrictEqual(yield* w.store.list(), [])
    })
  )

  check("watching the inbox: the run stops with RunStoreError, since nobody could stop it any more", () =>
    Effect.gen(function* () {
      const w = yield* world([call("slow_read", { path: "a" }), text("done")], {
        store: (store) => ({
          ...store,
          watchInbox: (runId) => Stream.fail(unavailable(runId))
        })
      })
      const exit = yield* during(minutes, w.in(Agent.run(agent, "go", { runId: "r" })))
      assert(Exit.isFailure(exit))
      const error = Cause.squash(exit.cause) as { readonly _tag: string }
      assert.strictEqual(error._tag, "RunStoreError")
      assert.notInclude(reasons(yield* w.journal()), "defect")
    })
  )

  const lease = (store: Store, over: Partial<RunStore.Lease>): Partial<Store> => ({
    lease: (runId) => Effect.map(store.lease(runId), (lease) => ({ ...lease, ...over }))
  })
  const bug = Effect.die(new Error("a bug"))
  const breaking: Record<string, (store: Store) => Partial<Store>> = {
    "watching the inbox interrupts itself": () => ({ watchInbox: () => Stream.fromEffect(Effect.interrupt) }),
    "watching the inbox dies": () => ({ watchInbox: () => Stream.fromEffect(bug) }),
    "reading the inbox interrupts itself": () => ({ inbox: () => Effect.interrupt }),
    "keeping the lease interrupts itself": (store) => lease(store, { lost: Effect.interrupt }),
    "keeping the lease dies": (store) => lease(store, { lost: bug }),
    "checking the lease interrupts itself": (store) => lease(store, { check: Effect.interrupt })
  }
  for (const [what, over] of Object.entries(breaking)) {
    check(`${what}: RunStoreError, and the run has neither failed nor been stopped`, () =>
      Effect.gen(function* () {
        const script = [call("slow_read", { path: "a" }), call("delete_file", { path: "d" })]
        const w = yield* world(script, { store: (store) => ({ ...store, ...over(store) }) })
        const exit = yield* during(minutes, w.in(Agent.run(agent, "go", { runId: "r" })))
        assert(Exit.isFailure(exit))
        const error = Cause.squash(exit.cause) as { readonly _tag: string }
        assert.strictEqual(error._tag, "RunStoreError")
        assert.deepStrictEqual(reasons(yield* w.journal()), [])
      })
    )
  }

  check("a defect of the store is no defect of the run", () =>
    Effect.gen(function* () {
      let appends = 0
      const w = yield* world(simple, {
        store: (store) => ({
          ...store,
          append: (append) =>
            ++appends === 3 ? Effect.die(new Error("bug in the driver")) : store.append(append)
        })
      })
      const exit = yield* during(minutes, w.in(Agent.run(agent, "go", { runId: "r" })))
      assert(Exit.isFailure(exit))
      const error = Cause.squash(exit.cause) as { readonly _tag?: string }
      assert.notStrictEqual(error._tag, "RunFailed")
      assert.notInclude(reasons(yield* Effect.orDie(w.store.read("r"))), "defect")
    })
  )

  check("the stream of a run fails with it as well", () =>
    Effect.gen(function* () {
      const { wrap } = faulty(3, "fails, and has written nothing")
      const w = yield* world(simple, { store: wrap })
      const seen: Array<string> = []
      const error = yield* w.in(
        Agent.stream(agent, "go", { runId: "r" }).pipe(
          Stream.runForEach(({ type }) => Effect.sync(() => seen.push(type))),
          Effect.flip
        )
      )
      assert.strictEqual(error._tag, "RunStoreError")
      // What was not stored was not shown.
      assert.deepStrictEqual(seen, types(yield* w.journal()))
      assert.deepStrictEqual(
        w.trace.events.map(({ type }) => type),
        seen
      )
    })
  )

  check("another driver that has gone on meanwhile: RunBusy, and its journal is left alone", () =>
    Effect.gen(function* () {
      const w = yield* world([call("slow_read", { path: "a" }, { id: "a" }), text("done")])
      const fiber = yield* forked(w.in(Effect.flip(Agent.run(agent, "go", { runId: "r" }))))
      yield* until(() => w.work.started.length === 1)
      const events = yield* w.store.read("r")
      const summary = yield* w.store.summary("r")
      const [first] = events
      assert.isDefined(first)
      const { at, elapsedMs } = events.at(-1) as RunEvent
      yield* w.store.append({
        runId: "r",
        expected: events.length,
        events: [
          {
            v: 1,
            runId: "r",
            seq: events.length,
            at,
            elapsedMs,
            type: "run_resumed",
            inbox: 0,
            messages: []
          }
        ],
        summary: { ...summary, seq: events.length + 1 },
        durability: "process"
      })
      yield* TestClock.adjust("10 seconds")
      const error = yield* Effect.flatten(awaited(fiber))
      assert(error._tag === "RunBusy")
      assert.strictEqual((yield* w.store.read("r")).length, events.length + 1)
      assert.strictEqual(w.requests.length, 1)
      const done = yield* during(minutes, w.in(Agent.resume(agent, "r")))
      assert.isTrue(Exit.isSuccess(done))
      yield* w.journal()
    })
  )
})
