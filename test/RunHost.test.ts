import { describe, expect, it } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as SqlClient from "effect/sql/SqlClient"
import * as TestClock from "effect/testing/TestClock"
import {
  Agent,
  CurrentCall,
  MemoryRunStore,
  PriceBook,
  RequestParams,
  type RunEvent,
  RunHost,
  RunStore,
  RunTrace,
  ToolFailure
} from "../src/index.ts"
import * as Scripted from "../src/provider/Scripted.ts"
import * as BudgetPool from "../src/store/BudgetPool.ts"
import * as Keepable from "../src/store/Keepable.ts"
import * as MemoryBudgetPool from "../src/store/MemoryBudgetPool.ts"
import * as NodeSqlite from "../src/store/NodeSqlite.ts"
import * as SqlRunStore from "../src/store/SqlRunStore.ts"
import { checkLaws } from "./loop/laws.ts"
import { crashing, inTestTime, settle, withTime } from "./loop/support.ts"
import { describeStores } from "./store/stores.ts"

const usage = { promptTokens: 10, completionTokens: 5 }

const Read = Tool.make("read", {
  parameters: Schema.Struct({ q: Schema.String }),
  success: Schema.String
}).annotate(Tool.Readonly, true)
const Pay = Tool.make("pay", {
  parameters: Schema.Struct({ q: Schema.String }),
  success: Schema.String,
  failure: ToolFailure.ToolFailure
})
const Delete = Tool.make("delete", {
  parameters: Schema.Struct({ q: Schema.String }),
  success: Schema.String,
  needsApproval: true
})
const tools = Toolkit.make(Read, Pay, Delete)

/** What the tools did, and a gate that `pay` waits at. */
const workshop = Effect.gen(function* () {
  const done: Array<string> = []
  const gate = yield* Deferred.make<void>()
  const paying = yield* Deferred.make<void>()
  const handlers = tools.toLayer({
    read: ({ q }) =>
      Effect.as(
        Effect.sync(() => done.push(`read ${q}`)),
        q
      ),
    pay: ({ q }) =>
      Effect.gen(function* () {
        yield* Deferred.succeed(paying, undefined)
        yield* Deferred.await(gate)
        done.push(`pay ${q}`)
        return `paid ${q}`
      }),
    delete: ({ q }) =>
      Effect.as(
        Effect.sync(() => done.push(`delete ${q}`)),
        "deleted"
      )
  })
  return { done, gate, paying, handlers }
})

const agentOf = (
  name: string,
  lines: ReadonlyArray<Scripted.Line>,
  handlers: Layer.Layer<Tool.HandlersFor<(typeof tools)["tools"]>>
) =>
  Agent.make(name, { toolkit: tools }).pipe(
    Agent.provide(Layer.mergeAll(handlers, Scripted.layer(Scripted.make(name, lines), { usage })))
  )

const read = (q: string) => Scripted.call("read", { q })
const pay = (q: string) => Scripted.call("pay", { q })

/** An agent that asks a person something before it answers. */
const asker = Agent.make("asker", { output: Schema.Struct({ n: Schema.Int }) }).pipe(
  Agent.provide(
    Scripted.layer(
      Scripted.make("asker", [
        Scripted.call("request_input", { question: "how many?" }),
        Scripted.call("submit_result", { n: 3 })
      ]),
      { usage }
    )
  )
)

const lawful = (runId: string) =>
  Effect.flatMap(RunStore.RunStore, (store) =>
    Effect.tap(store.read(runId), (events) => Effect.sync(() => checkLaws(events)))
  )

const withHost = <A, E>(
  agents: ReadonlyArray<Agent.Agent<unknown, never, never>>,
  options: RunHost.Options<never>,
  use: (host: RunHost.RunHost["Service"]) => Effect.Effect<A, E, RunStore.RunStore | Scope.Scope>
) =>
  Effect.gen(function* () {
    const store = yield* RunStore.RunStore
    const layer = Layer.provide(RunHost.layer(agents, options), Layer.succeed(RunStore.RunStore, store))
    return yield* Effect.provide(Effect.flatMap(RunHost.RunHost, use), layer)
  })

const test = (name: string, body: () => Effect.Effect<unknown, unknown, RunStore.RunStore | Scope.Scope>) =>
  it.effect(name, () => Effect.provide(body(), MemoryRunStore.layer))

/** A store as some write one: its methods need their object. */
class ClassStore implements Store {
  readonly #inner: Store
  constructor(inner: Store) {
    this.#inner = inner
  }
  append(...args: Parameters<Store["append"]>) {
    return this.#inner.append(...args)
  }
  read(...args: Parameters<Store["read"]>) {
    return this.#inner.read(...args)
  }
  summary(...args: Parameters<Store["summary"]>) {
    return this.#inner.summary(...args)
  }
  list(...args: Parameters<Store["list"]>) {
    return this.#inner.list(...args)
  }
  delete(...args: Parameters<Store["delete"]>) {
    return this.#inner.delete(...args)
  }
  watch(...args: Parameters<Store["watch"]>) {
    return this.#inner.watch(...args)
  }
  send(...args: Parameters<Store["send"]>) {
    return this.#inner.send(...args)
  }
  inbox(...args: Parameters<Store["inbox"]>) {
    return this.#inner.inbox(...args)
  }
  watchInbox(...args: Parameters<Store["watchInbox"]>) {
    return this.#inner.watchInbox(...args)
  }
  lease(...args: Parameters<Store["lease"]>) {
    return this.#inner.lease(...args)
  }
  isDriven(...args: Parameters<Store["isDriven"]>) {
    return this.#inner.isDriven(...args)
  }
}
type Store = RunStore.RunStore["Service"]

describe("start", () => {
  test("stores the run, drives it, and is told of by its end", () =>
    Effect.gen(function* () {
      const { handlers } = yield* workshop
      const agent = agentOf("reader", [read("a"), Scripted.text("done")], handlers)
      yield* withHost([agent], {}, (host) =>
        Effect.gen(function* () {
          const runId = yield* host.start("reader", "go", { runId: "r" })
          expect(runId).toBe("r")
          expect(yield* host.ended("r")).toMatchObject({ status: "completed", turns: 2 })
          yield* lawful("r")
        })
      )
    }))

  test("starts once, however many ask for the same run at the same moment", () =>
    Effect.gen(function* () {
      const { done, handlers } = yield* workshop
      const agent = agentOf("reader", [read("a"), Scripted.text("done")], handlers)
      yield* withHost([agent], {}, (host) =>
        Effect.gen(function* () {
          const asked = Array.from({ length: 20 }, () => host.start("reader", "go", { runId: "r" }))
          const ids = yield* withTime(Effect.all(asked, { concurrency: "unbounded" }))
          expect(ids).toEqual(asked.map(() => "r"))
          yield* host.ended("r")
          yield* host.start("reader", "go", { runId: "r" })
          expect(done).toEqual(["read a"])
          expect((yield* host.status("r")).turns).toBe(2)
        })
      )
    }))

  test("of an id whose run was deleted while its driver was on the way out has the new run driven", () =>
    Effect.gen(function* () {
      const { gate, handlers } = yield* workshop
      const agent = agentOf("a", [Scripted.text("done")], handlers)
      const store = yield* RunStore.RunStore
      const freed = yield* Deferred.make<void>()
      const leaving = Effect.andThen(Deferred.succeed(freed, undefined), Deferred.await(gate))
      let leases = 0
      // The first who drives hears late that its lease is free for others, as from a database that is far away.
      const far: typeof store = {
        ...store,
        lease: (runId) => {
          const isFirst = ++leases === 2
          return Effect.andThen(
            Effect.addFinalizer(() => (isFirst ? leaving : Effect.void)),
            store.lease(runId)
          )
        }
      }
      const again = withHost([agent], {}, (host) =>
        Effect.gen(function* () {
          yield* host.start("a", "first", { runId: "r" })
          yield* Deferred.await(freed)
          yield* store.delete("r")
          yield* host.start("a", "second", { runId: "r" })
          yield* Deferred.succeed(gate, undefined)
          expect(yield* host.ended("r")).toMatchObject({ status: "completed" })
          expect((yield* lawful("r"))[0]).toMatchObject({ messages: [{ content: "second" }] })
        })
      )
      yield* Effect.provideService(again, RunStore.RunStore, far)
    }))

  test("once more of a run that is driven waits for no place when that has ended", () =>
    Effect.gen(function* () {
      const mine = yield* workshop
      const other = yield* workshop
      const lines = [pay("x"), Scripted.text("done")]
      const agents = [agentOf("mine", lines, mine.handlers), agentOf("other", lines, other.handlers)]
      yield* withHost(agents, { concurrency: 1 }, (host) =>
        Effect.gen(function* () {
          yield* host.start("mine", "go", { runId: "m" })
          yield* Deferred.await(mine.paying)
          yield* host.start("other", "go", { runId: "o" })
          yield* host.start("mine", "go", { runId: "m" })
          yield* Deferred.succeed(mine.gate, undefined)
          yield* Deferred.await(other.paying)
          const ended = yield* Effect.forkChild(host.ended("m"), { startImmediately: true })
          yield* settle
          const exit = ended.pollUnsafe()
          yield* Deferred.succeed(other.gate, undefined)
          yield* host.ended("o")
          expect(exit).toMatchObject({ value: { status: "completed" } })
        })
      )
    }))

  test("and all the rest works on a store that is an object of a class, behind what refuses odd ids, too", () =>
    Effect.gen(function* () {
      const { handlers } = yield* workshop
      const agent = agentOf("reader", [read("a"), Scripted.text("done")], handlers)
      const memory = yield* RunStore.RunStore
      const own = new ClassStore(memory)
      for (const [runId, store] of Object.entries({ bare: own, guarded: Keepable.only(own) })) {
        yield* withHost([agent], {}, (host) =>
          Effect.gen(function* () {
            yield* host.start("reader", "go", { runId })
            expect(yield* host.ended(runId)).toMatchObject({ status: "completed", turns: 2 })
            expect((yield* host.list({})).map((run) => run.runId)).toContain(runId)
            yield* store.delete(runId)
          })
        ).pipe(Effect.provideService(RunStore.RunStore, store))
      }
    }))

  test("of an agent that the host has not says which it has; of another agent's run, whose it is", () =>
    Effect.gen(function* () {
      const { handlers } = yield* workshop
      const [one, two] = ["one", "two"].map((name) => agentOf(name, [Scripted.text("done")], handlers))
      yield* withHost([one!, two!], {}, (host) =>
        Effect.gen(function* () {
          const unknown = yield* Effect.flip(host.start("three", "go"))
          expect(unknown.message).toContain("one, two")
          yield* host.start("one", "go", { runId: "r" })
          expect((yield* Effect.flip(host.start("two", "go", { runId: "r" })))._tag).toBe("AgentMismatch")
        })
      )
    }))

  test("drives no more runs at a time than it may, and a sub-agent needs no place of its own", () =>
    Effect.gen(function* () {
      const { gate } = yield* workshop
      let [running, most] = [0, 0]
      const counting = Toolkit.make(Read).toLayer({
        read: ({ q }) =>
          Effect.acquireUseRelease(
            Effect.sync(() => (most = Math.max(most, ++running))),
            () => Effect.as(Deferred.await(gate), q),
            () => Effect.sync(() => running--)
          )
      })
      const helper = Agent.make("helper", { toolkit: Toolkit.make(Read) }).pipe(
        Agent.provide(
          Layer.mergeAll(
            counting,
            Scripted.layer(Scripted.make("h", [read("a"), Scripted.text("ok")]), { usage })
          )
        )
      )
      const ask = Agent.asTool(helper, { name: "ask", description: "asks" })
      const lead = Agent.make("lead", { toolkit: Toolkit.make(ask.tool) }).pipe(
        Agent.provide(ask.layer),
        Agent.provide(
          Scripted.layer(Scripted.make("l", [Scripted.call("ask", { task: "t" }), Scripted.text("done")]), {
            usage
          })
        )
      )
      const store = yield* RunStore.RunStore
      const own = Agent.provide(Layer.succeed(RunStore.RunStore, store))(lead)
      yield* withHost([own], { concurrency: 2 }, (host) =>
        Effect.gen(function* () {
          const ids = yield* Effect.forEach(["a", "b", "c", "d", "e"], (runId) =>
            host.start("lead", "go", { runId })
          )
          yield* settle
          expect(most).toBe(2)
          yield* Deferred.succeed(gate, undefined)
          for (const id of ids) expect((yield* host.ended(id)).status).toBe("completed")
          expect(most).toBe(2)
        })
      )
    }))
})

const seqsOf = (events: ReadonlyArray<RunEvent.LiveEvent>): ReadonlyArray<number> =>
  events.flatMap((event) => ("seq" in event ? [event.seq] : []))

/** What a watcher sees, in words: a text that came in pieces is one. */
const inWords = (events: ReadonlyArray<RunEvent.LiveEvent>): ReadonlyArray<string> => {
  const words: Array<string> = []
  let text = ""
  for (const event of events) {
    if (event.type === "text_delta") text += event.delta
    else {
      if (text !== "") words.push(`"${text}"`)
      text = ""
      words.push(event.type === "tool_progress" ? event.label : event.type)
    }
  }
  return words
}

describe("attach", () => {
  describeStores((layer) =>
    it.live("from a number that is none it is from the start, or from the next event", () =>
      Effect.gen(function* () {
        const agent = Agent.make("a").pipe(
          Agent.provide(Scripted.layer(Scripted.make("a", [Scripted.text("done")]), { usage }))
        )
        yield* withHost([agent], {}, (host) =>
          Effect.gen(function* () {
            yield* host.start("a", "go", { runId: "r" })
            yield* host.ended("r")
            const seqs = (from: number) => Effect.map(Stream.runCollect(host.attach("r", from)), seqsOf)
            for (const from of [-5, -0.5, Number.NaN, Number.NEGATIVE_INFINITY])
              expect(yield* seqs(from)).toEqual(yield* seqs(0))
            expect((yield* seqs(1.5))[0]).toBe(2)
          })
        )
      }).pipe(Effect.scoped, Effect.provide(layer))
    )
  )

  const Look = Tool.make("look", { success: Schema.String })
  const lookout = (
    lines: ReadonlyArray<Scripted.Line>,
    model: Parameters<typeof Scripted.layer>[1] = { usage }
  ) => {
    const toolkit = Toolkit.make(Look)
    const handlers = toolkit.toLayer({
      look: () =>
        Effect.gen(function* () {
          const call = yield* CurrentCall.CurrentCall
          yield* call.progress("looking left")
          yield* call.progress("looking right")
          return "nothing"
        })
    })
    return Agent.make("lookout", { toolkit }).pipe(
      Agent.provide(Layer.merge(handlers, Scripted.layer(Scripted.make("lookout", lines), model)))
    )
  }
  const lookAround = [Scripted.call("look", {}), Scripted.text("Nothing is in sight.")]
  const looked = ["turn_started", "turn", "tool_start", "looking left", "looking right", "tool_result"]
  const answered = ["turn_started", '"Nothing is in sight."', "turn", "run_stopped"]

  describeStores((layer) =>
    it.live("right after the start it misses nothing: text and progress stand in their place", () =>
      withHost([lookout(lookAround)], {}, (host) =>
        Effect.gen(function* () {
          const one = yield* host.start("lookout", "go")
          expect(inWords(yield* Stream.runCollect(host.attach(one)))).toEqual([
            "run_started",
            "run_resumed",
            ...looked,
            ...answered
          ])
          yield* lawful(one)
        })
      ).pipe(Effect.scoped, Effect.provide(layer))
    )
  )

  test("a run of one turn is streamed to whoever has started it, and read from its journal when it is over", () =>
    withHost([lookout([Scripted.text("Nothing is in sight.")])], {}, (host) =>
      Effect.gen(function* () {
        yield* host.start("lookout", "go", { runId: "r" })
        const events = yield* Stream.runCollect(host.attach("r"))
        expect(inWords(events)).toEqual(["run_started", "run_resumed", ...answered])
        // Once it is over, the journal is all there is.
        const again = yield* Stream.runCollect(host.attach("r"))
        expect(inWords(again)).toEqual(["run_started", "run_resumed", "turn_started", "turn", "run_stopped"])
      })
    ))

  test("whoever comes in the middle of a turn sees the rest of its text, among all the events", () =>
    withHost([lookout(lookAround, { usage, latency: "10 seconds" })], {}, (host) =>
      Effect.gen(function* () {
        yield* host.start("lookout", "go", { runId: "r" })
        const readers: Array<Fiber.Fiber<ReadonlyArray<RunEvent.LiveEvent>, unknown>> = []
        for (let i = 0; i < 3; i++) {
          yield* settle
          readers.push(yield* Effect.forkChild(Stream.runCollect(host.attach("r", i))))
          yield* settle
          yield* TestClock.adjust("7 seconds")
        }
        for (const [i, reader] of readers.entries()) {
          const events = yield* Fiber.join(reader)
          const all = ["run_started", "run_resumed", ...looked, ...answered]
          expect(seqsOf(events)).toEqual(seqsOf(events).map((_, j) => i + j))
          if (i < 2) expect(inWords(events)).toEqual(all.slice(i))
        }
      })
    ))

  test("where nobody is attached the model is not streamed: not after the first turn, and not when it is recovered", () =>
    Effect.gen(function* () {
      const trace = RunTrace.memory()
      const heard = () => trace.events.flatMap((event) => (event.type === "text_delta" ? [event.turn] : []))
      const agent = lookout([Scripted.call("look", {}), Scripted.call("look", {}), Scripted.text("Done.")])
      const traced = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
        Effect.provideService(effect, RunTrace.RunTrace, trace)
      yield* withHost([agent], {}, (host) =>
        Effect.gen(function* () {
          yield* host.start("lookout", "go", { runId: "started" })
          yield* host.ended("started")
          yield* Agent.create(agent, "go", { runId: "left" })
          expect(yield* host.recover).toEqual(["left"])
          expect((yield* host.ended("left")).status).toBe("completed")
          expect(heard()).toEqual([])
          yield* Agent.create(agent, "go", { runId: "watched" })
          const reading = Stream.runDrain(host.attach("watched"))
          const reader = yield* Effect.forkChild(reading, { startImmediately: true })
          expect(yield* host.recover).toEqual(["watched"])
          yield* Fiber.join(reader)
          expect(new Set(heard())).toEqual(new Set([3]))
        })
      ).pipe(traced)
    }))

  test("of a sub-agent's run, and of the run above it, there are no words of the sub-agent but its events", () =>
    Effect.gen(function* () {
      const helper = lookout(lookAround)
      const ask = Agent.asTool(helper, { name: "ask", description: "asks" })
      const store = yield* RunStore.RunStore
      const lines = [Scripted.call("ask", { task: "t" }, { id: "c" }), Scripted.text("All is well.")]
      const lead = Agent.make("lead", { toolkit: Toolkit.make(ask.tool) }).pipe(
        Agent.provide(ask.layer),
        Agent.provide(Scripted.layer(Scripted.make("l", lines), { usage })),
        Agent.provide(Layer.succeed(RunStore.RunStore, store))
      )
      yield* withHost([lead], {}, (host) =>
        Effect.gen(function* () {
          yield* host.start("lead", "go", { runId: "r" })
          const above = inWords(yield* Stream.runCollect(host.attach("r")))
          expect(above.filter((word) => word.startsWith('"'))).toEqual(['"All is well."'])
          const below = yield* Stream.runCollect(host.attach("r/c"))
          expect(seqsOf(below).length).toBe(below.length)
        })
      )
    }))

  test("goes on with the text of a run that was resumed, from where the last one ended", () =>
    Effect.gen(function* () {
      const { handlers } = yield* workshop
      const agent = agentOf(
        "cleaner",
        [Scripted.call("delete", { q: "a" }), Scripted.text("It is gone.")],
        handlers
      )
      yield* withHost([agent], {}, (host) =>
        Effect.gen(function* () {
          yield* host.start("cleaner", "go", { runId: "r" })
          const first = yield* Stream.runCollect(host.attach("r"))
          const from = (seqsOf(first).at(-1) ?? 0) + 1
          for (const call of (yield* host.status("r")).approvals) yield* host.decide(call, Agent.approve())
          // One waits for the resume, one comes after it.
          const waiting = yield* Effect.forkChild(Stream.runCollect(host.attach("r", from)))
          yield* settle
          yield* host.resume("r")
          const late = yield* Stream.runCollect(host.attach("r", from))
          const early = yield* Fiber.join(waiting)
          const words = ["turn_started", '"It is gone."', "turn", "run_stopped"]
          for (const events of [early, late]) {
            expect(inWords(events).slice(-4)).toEqual(words)
            expect(seqsOf(events)[0]).toBe(from)
          }
        })
      )
    }))

  test("goes on with the events when another process takes the run over in the middle of a turn", () =>
    Effect.gen(function* () {
      const agent = lookout(lookAround, { usage, latency: "10 seconds" })
      const scope = yield* Scope.make()
      const first = yield* Effect.map(
        Layer.buildWithScope(RunHost.layer([agent], { shutdown: { running: "interrupt" } }), scope),
        Context.get(RunHost.RunHost)
      )
      yield* first.start("lookout", "go", { runId: "r" })
      const reader = yield* Effect.forkChild(Stream.runCollect(first.attach("r")))
      yield* withTime(Effect.sleep("15 seconds"))
      yield* Scope.close(scope, Exit.void)
      yield* withHost([agent], {}, (other) =>
        Effect.gen(function* () {
          expect(yield* other.recover).toEqual(["r"])
          yield* withTime(other.ended("r"))
        })
      )
      const events = yield* Fiber.join(reader)
      expect(seqsOf(events)).toEqual(seqsOf(events).map((_, i) => i))
      expect(inWords(events).at(-1)).toBe("run_stopped")
      // What is said in the other process is not heard here.
      expect(events.filter(({ type }) => type === "text_delta")).toEqual([])
      yield* lawful("r")
    }))

  test("a reader that does not read holds nothing up, and still gets every event", () =>
    withHost([lookout(lookAround)], {}, (host) =>
      Effect.gen(function* () {
        const read = yield* Deferred.make<void>()
        yield* host.start("lookout", "go", { runId: "r" })
        const slow = yield* Effect.forkChild(
          Stream.runCollect(Stream.tap(host.attach("r"), () => Deferred.await(read))),
          { startImmediately: true }
        )
        expect((yield* host.ended("r")).status).toBe("completed")
        yield* Deferred.succeed(read, undefined)
        const events = yield* Fiber.join(slow)
        expect(inWords(events)).toEqual(["run_started", "run_resumed", ...looked, ...answered])
      })
    ))

  test("shows all events up to the stop, and whoever leaves stops nothing", () =>
    Effect.gen(function* () {
      const { gate, handlers, paying } = yield* workshop
      const agent = agentOf("payer", [pay("a"), Scripted.text("done")], handlers)
      yield* withHost([agent], {}, (host) =>
        Effect.gen(function* () {
          yield* host.start("payer", "go", { runId: "r" })
          yield* Deferred.await(paying)
          const first = yield* Stream.runCollect(Stream.take(host.attach("r"), 2))
          expect(seqsOf(first)).toEqual([0, 1])
          const all = yield* Effect.forkChild(Stream.runCollect(host.attach("r")))
          yield* settle
          yield* Deferred.succeed(gate, undefined)
          const events = yield* Fiber.join(all)
          expect(events.at(-1)?.type).toBe("run_stopped")
          expect(seqsOf(events)).toEqual(seqsOf(events).map((_, i) => i))
          expect((yield* host.status("r")).status).toBe("completed")
        })
      )
    }))
})

describe("ended", () => {
  const left = (runId: string) => ({ runId, status: "running" })

  test("says so where the driver is gone and the run has not stopped", () =>
    Effect.gen(function* () {
      const { handlers } = yield* workshop
      const agent = agentOf("reader", [read("a"), Scripted.text("done")], handlers)
      const store = yield* RunStore.RunStore
      const isWritten = ({ events }: RunStore.Append) => events.some(({ type }) => type === "tool_start")
      const full = new RunStore.RunStoreError({ runId: "r", kind: "full", problem: "the disk is full" })
      const failing = RunStore.RunStore.of({
        ...store,
        append: (append) => (isWritten(append) ? Effect.fail(full) : store.append(append))
      })
      yield* withHost([agent], {}, (host) =>
        Effect.gen(function* () {
          yield* host.start("reader", "go", { runId: "r" })
          expect(yield* host.ended("r")).toMatchObject(left("r"))
          expect(yield* host.ended("r")).toMatchObject(left("r"))
        })
      ).pipe(Effect.provideService(RunStore.RunStore, failing))
    }))

  test("says so of a run that was stored and that nobody has begun", () =>
    Effect.gen(function* () {
      const { handlers } = yield* workshop
      const agent = agentOf("reader", [Scripted.text("done")], handlers)
      yield* Agent.create(agent, "go", { runId: "r" })
      yield* withHost([agent], {}, (host) =>
        Effect.gen(function* () {
          expect(yield* host.ended("r")).toMatchObject(left("r"))
          yield* host.recover
          expect(yield* host.ended("r")).toMatchObject({ status: "completed" })
        })
      )
    }))

  for (const [ending, finish, status] of [
    ["stops", (gate: Deferred.Deferred<void>) => Deferred.succeed(gate, undefined), "completed"],
    ["dies", (gate: Deferred.Deferred<void>) => Deferred.die(gate, "power cut"), "running"]
  ] as const) {
    test(`waits for a driver elsewhere until it ${ending}`, () =>
      Effect.gen(function* () {
        const { handlers } = yield* workshop
        const agent = agentOf("reader", [Scripted.text("done")], handlers)
        const store = yield* RunStore.RunStore
        const gate = yield* Deferred.make<void>()
        yield* Agent.create(agent, "go", { runId: "r" })
        const scope = yield* Scope.make()
        const driving = Effect.gen(function* () {
          yield* Scope.provide(store.lease("r"), scope)
          yield* Deferred.await(gate)
          yield* Scope.close(scope, Exit.void)
          yield* Agent.resume(agent, "r")
        }).pipe(Effect.onError(() => Scope.close(scope, Exit.void)))
        yield* Effect.forkChild(driving, { startImmediately: true })
        yield* withHost([agent], {}, (host) =>
          Effect.gen(function* () {
            const ended = yield* Effect.forkChild(host.ended("r"), { startImmediately: true })
            yield* settle
            yield* TestClock.adjust("1 minute")
            expect(ended.pollUnsafe()).toBeUndefined()
            yield* finish(gate)
            yield* settle
            yield* TestClock.adjust("2 seconds")
            expect((yield* Fiber.join(ended)).status).toBe(status)
          })
        )
      }))
  }
})

describe("what stands around a call of the host", () => {
  test("is not what its runs see: they see what is around the host", () =>
    Effect.gen(function* () {
      const { handlers } = yield* workshop
      const agent = agentOf(
        "cleaner",
        [Scripted.call("delete", { q: "log" }, { id: "c1" }), Scripted.text("done")],
        handlers
      )
      const told: Array<string> = []
      const around = Context.make(RunTrace.RunTrace, { write: ({ type }) => void told.push(type) })
      const capped = RequestParams.add({ maxOutputTokens: 50 })
      yield* withHost([agent], {}, (host) =>
        Effect.gen(function* () {
          const held = host.start("cleaner", "go", { limits: { money: "hold", tokens: 1_000 } })
          const refused = yield* Effect.flip(capped(held))
          expect(refused).toMatchObject({ _tag: "HoldUnavailable" })
          yield* Effect.provideContext(capped(host.start("cleaner", "go", { runId: "r" })), around)
          const { approvals } = yield* host.ended("r")
          yield* host.decide(approvals[0]!, Agent.approve(), { by: "ann" })
          yield* Effect.provideContext(capped(host.resume("r")), around)
          expect((yield* host.ended("r")).status).toBe("completed")
          expect(told).toEqual([])
        })
      )
    }))

  it.effect(
    "may be a transaction of the caller's: then a run is neither started nor resumed, and one that is stored is driven outside of it",
    () =>
      Effect.gen(function* () {
        const { handlers } = yield* workshop
        const agent = agentOf("reader", [read("a"), Scripted.text("done")], handlers)
        const sql = yield* SqlClient.SqlClient
        yield* Agent.create(agent, "go", { runId: "r" })
        yield* withHost([agent], {}, (host) =>
          Effect.gen(function* () {
            for (const runId of ["new", "r"]) {
              const started = sql.withTransaction(Effect.result(host.start("reader", "go", { runId })))
              const failure = { kind: "inside_transaction" }
              expect(yield* started).toMatchObject(
                runId === "new" ? { _tag: "Failure", failure } : { _tag: "Success", success: "r" }
              )
            }
            expect(yield* host.ended("r")).toMatchObject({ status: "completed", turns: 2 })
            yield* Agent.create(agent, "go", { runId: "stopped" })
            yield* host.cancel("stopped", "not yet")
            const resumed = sql.withTransaction(Effect.result(host.resume("stopped")))
            expect(yield* resumed).toMatchObject({ failure: { kind: "inside_transaction" } })
            expect(yield* host.status("stopped")).toMatchObject({ reason: "cancelled" })
            expect(yield* Effect.flip(host.status("new"))).toMatchObject({ _tag: "RunNotFound" })
          })
        )
      }).pipe(
        Effect.scoped,
        Effect.provide(Layer.provideMerge(SqlRunStore.layer, NodeSqlite.layer({ filename: ":memory:" })))
      )
  )
})

describe("a run that waits for a person", () => {
  test("is decided about and resumed by its id, a child's by the child's", () =>
    Effect.gen(function* () {
      const { done, handlers } = yield* workshop
      const agent = agentOf(
        "cleaner",
        [Scripted.call("delete", { q: "log" }, { id: "c1" }), Scripted.text("done")],
        handlers
      )
      yield* withHost([agent], {}, (host) =>
        Effect.gen(function* () {
          yield* host.start("cleaner", "go", { runId: "r" })
          const { approvals } = yield* host.ended("r")
          expect(done).toEqual([])
          yield* host.decide(approvals[0]!, Agent.approve(), { by: "ann" })
          const late = yield* Effect.flip(host.decide(approvals[0]!, Agent.reject(), { by: "bob" }))
          expect(late.message).toContain("ann")
          yield* host.resume("r")
          expect((yield* host.ended("r")).status).toBe("completed")
          expect(done).toEqual(["delete log"])
          yield* lawful("r")
        })
      )
    }))

  test("is resumed once, however many resume at the same moment", () =>
    Effect.gen(function* () {
      const { done, handlers } = yield* workshop
      const agent = agentOf(
        "cleaner",
        [Scripted.call("delete", { q: "log" }, { id: "c1" }), Scripted.text("done")],
        handlers
      )
      yield* withHost([agent], {}, (host) =>
        withHost([agent], {}, (other) =>
          Effect.gen(function* () {
            yield* host.start("cleaner", "go", { runId: "r" })
            const { approvals } = yield* host.ended("r")
            yield* Effect.all(
              [host, other].map(({ decide }) => Effect.exit(decide(approvals[0]!, Agent.approve()))),
              { concurrency: "unbounded" }
            )
            yield* Effect.all(
              [host, other, host, other].map(({ resume }) => resume("r")),
              { concurrency: "unbounded" }
            )
            expect((yield* host.ended("r")).status).toBe("completed")
            expect(done).toEqual(["delete log"])
            yield* lawful("r")
          })
        )
      )
    }))

  /** The store, but whoever has stopped a run lets go of it only when the gate is open. */
  const holding = Effect.fnUntraced(function* (gate: Deferred.Deferred<void>) {
    const store = yield* RunStore.RunStore
    const leaving = (runId: string) =>
      Effect.gen(function* () {
        if ((yield* store.summary(runId)).status !== "running") yield* Deferred.await(gate)
      }).pipe(Effect.orDie)
    const slow: RunStore.RunStore["Service"] = {
      ...store,
      lease: (runId) => Effect.tap(store.lease(runId), () => Effect.addFinalizer(() => leaving(runId)))
    }
    return slow
  })

  for (const where of ["here", "elsewhere"] as const) {
    test(`is resumed although the driver that has stopped it, ${where}, has not let go of it yet`, () =>
      Effect.gen(function* () {
        const { done, handlers } = yield* workshop
        const lines = [Scripted.call("delete", { q: "log" }, { id: "c1" }), Scripted.text("done")]
        const agent = agentOf("cleaner", lines, handlers)
        const gate = yield* Deferred.make<void>()
        const held = yield* holding(gate)
        const run = (host: RunHost.RunHost["Service"], other: RunHost.RunHost["Service"]) =>
          Effect.gen(function* () {
            yield* host.start("cleaner", "go", { runId: "r" })
            yield* Stream.runDrain(host.attach("r"))
            const [call] = (yield* host.status("r")).approvals
            yield* host.decide(call!, Agent.approve())
            const resuming = yield* Effect.forkChild(other.resume("r"))
            yield* settle
            expect(resuming.pollUnsafe()).toBeUndefined()
            expect(done).toEqual([])
            yield* Deferred.succeed(gate, undefined)
            yield* Fiber.join(resuming)
            expect((yield* other.ended("r")).status).toBe("completed")
            expect(done).toEqual(["delete log"])
            yield* lawful("r")
          })
        yield* Effect.provideService(
          withHost([agent], {}, (host) =>
            where === "here" ? run(host, host) : withHost([agent], {}, (other) => run(host, other))
          ),
          RunStore.RunStore,
          held
        )
      }))
  }

  test("and is resumed over and over while it is driven is taken up once", () =>
    Effect.gen(function* () {
      const { gate, handlers, paying } = yield* workshop
      const agent = agentOf("payer", [pay("a"), Scripted.text("done")], handlers)
      yield* withHost([agent], {}, (host) =>
        Effect.gen(function* () {
          yield* host.start("payer", "go", { runId: "r" })
          yield* Deferred.await(paying)
          for (let i = 0; i < 5; i++) yield* host.resume("r")
          yield* host.cancel("r", "enough")
          expect(yield* host.ended("r")).toMatchObject({ reason: "cancelled" })
          yield* Deferred.succeed(gate, undefined)
          yield* settle
          const events = yield* lawful("r")
          expect(events.filter(({ type }) => type === "run_resumed")).toHaveLength(1)
        })
      )
    }))

  test("answers its question", () =>
    Effect.gen(function* () {
      yield* withHost([asker], {}, (host) =>
        Effect.gen(function* () {
          yield* host.start("asker", "go", { runId: "r" })
          expect((yield* host.ended("r")).question?.text).toBe("how many?")
          yield* host.answer("r", "three", { by: "ann" })
          expect((yield* Effect.flip(host.answer("r", "four")))._tag).toBe("CallNotPending")
          yield* host.resume("r")
          expect((yield* host.ended("r")).status).toBe("completed")
        })
      )
    }))
})

describe("cancel", () => {
  test("reaches into the running tool, and says why", () =>
    Effect.gen(function* () {
      const { done, handlers, paying } = yield* workshop
      const agent = agentOf("payer", [pay("a"), Scripted.text("done")], handlers)
      yield* withHost([agent], {}, (host) =>
        Effect.gen(function* () {
          yield* host.start("payer", "go", { runId: "r" })
          yield* Deferred.await(paying)
          yield* host.cancel("r", "wrong customer")
          expect(yield* host.ended("r")).toMatchObject({ reason: "cancelled", detail: "wrong customer" })
          expect(done).toEqual([])
          yield* lawful("r")
        })
      )
    }))

  test("ends a run that waits and that nobody drives; one that has completed stays as it is", () =>
    Effect.gen(function* () {
      const { handlers } = yield* workshop
      const cleaner = agentOf("cleaner", [Scripted.call("delete", { q: "log" })], handlers)
      const reader = agentOf("reader", [Scripted.text("done")], handlers)
      yield* withHost([cleaner, reader], {}, (host) =>
        Effect.gen(function* () {
          yield* host.start("cleaner", "go", { runId: "r" })
          yield* host.start("reader", "go", { runId: "s" })
          yield* host.ended("r")
          yield* host.ended("s")
          yield* host.cancel("r", "not needed")
          yield* host.cancel("s", "not needed")
          expect(yield* host.status("r")).toMatchObject({
            status: "interrupted",
            reason: "cancelled",
            detail: "not needed"
          })
          expect((yield* host.status("s")).status).toBe("completed")
          expect((yield* Effect.flip(host.cancel("nobody", "x")))._tag).toBe("RunNotFound")
          yield* lawful("r")
        })
      )
    }))

  test("that came too late for a driver that died is heard when the run is taken over", () =>
    Effect.gen(function* () {
      const { done, handlers } = yield* workshop
      const agent = agentOf("reader", [read("a"), Scripted.text("done")], handlers)
      const store = yield* RunStore.RunStore
      yield* Agent.create(agent, "go", { runId: "r" })
      yield* store.send("r", { type: "cancel", reason: "stop it" })
      yield* withHost([agent], {}, (host) =>
        Effect.gen(function* () {
          expect(yield* host.recover).toEqual(["r"])
          expect(yield* host.ended("r")).toMatchObject({ reason: "cancelled", detail: "stop it" })
          expect(done).toEqual([])
          yield* lawful("r")
        })
      )
    }))

  /** Between the moment in which a host looks at a run and that in which nobody else can have it. */
  const taking = Effect.gen(function* () {
    const reached = yield* Deferred.make<void>()
    const gate = yield* Deferred.make<void>()
    const store = yield* RunStore.RunStore
    const hold = Effect.andThen(Deferred.succeed(reached, undefined), Deferred.await(gate))
    let hasLooked = false
    let isFirst = true
    const slow: Store = {
      ...store,
      summary: (runId) =>
        Effect.tap(store.summary(runId), () =>
          Effect.sync(() => {
            hasLooked = true
          })
        ),
      lease: (runId) =>
        Effect.suspend(() => {
          if (!hasLooked || !isFirst) return store.lease(runId)
          isFirst = false
          return Effect.andThen(hold, store.lease(runId))
        })
    }
    return { gate, reached, slow, store }
  })

  for (const [who, stop] of [
    ["here", (host: RunHost.RunHost["Service"]) => host.cancel("r", "no, stop")],
    ["elsewhere", () => Agent.cancel("r", "no, stop")]
  ] as const) {
    for (const how of ["started", "recovered", "resumed"] as const) {
      test(`pressed ${who} while a run is about to be ${how} counts`, () =>
        Effect.gen(function* () {
          const { done, handlers } = yield* workshop
          const asks = Scripted.call("delete", { q: "a" }, { id: "d" })
          const agent = agentOf("a", [how === "resumed" ? asks : read("a"), Scripted.text("done")], handlers)
          const { gate, reached, slow, store } = yield* taking
          if (how === "recovered") yield* Agent.create(agent, "go", { runId: "r" })
          if (how === "resumed") {
            yield* Effect.exit(Agent.run(agent, "go", { runId: "r" }))
            yield* Agent.decide({ runId: "r", callId: "d" }, Agent.approve())
          }
          const inside = withHost([agent], {}, (host) =>
            Effect.gen(function* () {
              const asked: Record<typeof how, Effect.Effect<unknown, unknown>> = {
                started: host.start("a", "go", { runId: "r" }),
                recovered: host.recover,
                resumed: host.resume("r")
              }
              const asking = yield* Effect.forkChild(asked[how])
              yield* Deferred.await(reached)
              yield* Effect.provideService(stop(host), RunStore.RunStore, store)
              yield* Deferred.succeed(gate, undefined)
              yield* Fiber.join(asking)
              expect(yield* host.ended("r")).toMatchObject({ reason: "cancelled", detail: "no, stop" })
              expect(done).toEqual([])
              // It counts once: whoever resumes the run after it has it go on.
              yield* host.resume("r")
              expect(yield* host.ended("r")).toMatchObject({ status: "completed" })
            })
          )
          yield* Effect.provideService(inside, RunStore.RunStore, slow)
          expect(done).toHaveLength(1)
        }))
    }
  }

  for (const from of ["stopped for a person", "stopped by somebody"] as const) {
    test(`while a run that was ${from} is about to be resumed does not count for whoever resumes it after that`, () =>
      Effect.gen(function* () {
        const { done, handlers } = yield* workshop
        const asks = Scripted.call("delete", { q: "a" }, { id: "d" })
        const agent = agentOf("a", [asks, Scripted.text("done")], handlers)
        const { gate, reached, slow, store } = yield* taking
        yield* Effect.exit(Agent.run(agent, "go", { runId: "r" }))
        yield* Agent.decide({ runId: "r", callId: "d" }, Agent.approve())
        if (from === "stopped by somebody") yield* Agent.cancel("r", "not yet")
        const inside = withHost([agent], {}, (host) =>
          Effect.gen(function* () {
            const first = yield* Effect.forkChild(host.resume("r"))
            yield* Deferred.await(reached)
            yield* Effect.provideService(host.cancel("r", "no, stop"), RunStore.RunStore, store)
            yield* Effect.provideService(host.resume("r"), RunStore.RunStore, store)
            yield* Deferred.succeed(gate, undefined)
            yield* Fiber.join(first)
            expect(yield* host.ended("r")).toMatchObject({ status: "completed" })
          })
        )
        yield* Effect.provideService(inside, RunStore.RunStore, slow)
        expect(done).toEqual(["delete a"])
      }))
  }

  test("of a run that waits to be resumed drops the resume", () =>
    Effect.gen(function* () {
      const { done, gate, handlers, paying } = yield* workshop
      const long = agentOf("long", [pay("x"), Scripted.text("done")], handlers)
      const asks = agentOf(
        "asks",
        [Scripted.call("delete", { q: "a" }, { id: "c" }), Scripted.text("done")],
        handlers
      )
      yield* withHost([long, asks], { concurrency: 1 }, (host) =>
        Effect.gen(function* () {
          yield* host.start("asks", "go", { runId: "r" })
          yield* host.ended("r")
          yield* host.start("long", "go", { runId: "first" })
          yield* Deferred.await(paying)
          yield* host.decide({ runId: "r", callId: "c" }, Agent.approve())
          yield* host.resume("r")
          yield* host.cancel("r", "no, stop")
          yield* Deferred.succeed(gate, undefined)
          expect(yield* host.ended("r")).toMatchObject({ status: "interrupted", reason: "cancelled" })
          expect(done).toEqual(["pay x"])
          yield* host.resume("r")
          expect(yield* host.ended("r")).toMatchObject({ status: "completed" })
          expect(done).toEqual(["pay x", "delete a"])
        })
      )
    }))
})

describe("recover", () => {
  test("takes over what nobody drives, leaves alone what somebody does, and what is not of its agents", () =>
    Effect.gen(function* () {
      const { gate, handlers, paying } = yield* workshop
      const reader = agentOf("reader", [read("a"), Scripted.text("done")], handlers)
      const payer = agentOf("payer", [pay("a"), Scripted.text("done")], handlers)
      const stranger = agentOf("stranger", [Scripted.text("done")], handlers)
      yield* Agent.create(reader, "go", { runId: "left" })
      yield* Agent.create(stranger, "go", { runId: "foreign" })
      const driven = yield* Effect.forkChild(Agent.run(payer, "go", { runId: "driven" }))
      yield* Deferred.await(paying)
      yield* withHost([reader, payer], {}, (host) =>
        Effect.gen(function* () {
          expect(yield* host.recover).toEqual(["left"])
          expect((yield* host.ended("left")).status).toBe("completed")
          expect(yield* host.recover).toEqual([])
          expect((yield* host.status("foreign")).status).toBe("running")
        })
      )
      yield* Deferred.succeed(gate, undefined)
      expect((yield* Fiber.join(driven)).run.status).toBe("completed")
      yield* lawful("driven")
    }))

  test("takes up what people have answered and nobody has resumed, and no other run that waits", () =>
    Effect.gen(function* () {
      const { done, handlers } = yield* workshop
      const remove = (q: string) => Scripted.call("delete", { q })
      const remover = agentOf("remover", [remove("a"), Scripted.text("done")], handlers)
      const helper = agentOf("helper", [remove("below"), Scripted.text("done")], handlers)
      const ask = Agent.asTool(helper, { name: "ask", description: "asks" })
      const store = yield* RunStore.RunStore
      const asking = [Scripted.call("ask", { task: "remove it" }, { id: "k" }), Scripted.text("done")]
      const lead = Agent.make("lead", { toolkit: Toolkit.make(ask.tool) }).pipe(
        Agent.provide(ask.layer),
        Agent.provide(Scripted.layer(Scripted.make("lead", asking), { usage })),
        Agent.provide(Layer.succeed(RunStore.RunStore, store))
      )
      const stranger = agentOf("stranger", [remove("s"), Scripted.text("done")], handlers)
      const decide = Effect.fnUntraced(function* (runId: string, decision: Agent.Decision) {
        for (const call of (yield* store.summary(runId)).approvals) yield* Agent.decide(call, decision)
      })
      const runs: ReadonlyArray<readonly [Agent.Agent<unknown, never, never>, ReadonlyArray<string>]> = [
        [remover, ["approved", "rejected", "undecided", "stopped", "resumed"]],
        [lead, ["tree", "cut"]],
        [asker, ["answered"]],
        [stranger, ["foreign"]]
      ]
      for (const [agent, runIds] of runs) {
        for (const runId of runIds) yield* Agent.outcome(Agent.run(agent, "go", { runId }))
      }
      for (const runId of ["approved", "stopped", "resumed", "tree", "cut", "foreign"]) {
        yield* decide(runId, Agent.approve())
      }
      yield* decide("rejected", Agent.reject("no"))
      yield* Agent.answer("answered", "three")
      for (const runId of ["stopped", "cut"]) yield* Agent.cancel(runId, "not any more")
      yield* Agent.outcome(Agent.resume(remover, "resumed"))
      expect(done.splice(0)).toEqual(["delete a"])
      const goOn = ["answered", "approved", "rejected", "tree"]
      yield* withHost([remover, lead, asker], {}, (host) =>
        Effect.gen(function* () {
          expect([...(yield* host.recover)].sort()).toEqual(goOn)
          for (const runId of goOn) expect(yield* host.ended(runId)).toMatchObject({ status: "completed" })
          expect([...done].sort()).toEqual(["delete a", "delete below"])
          expect(yield* host.status("undecided")).toMatchObject({ reason: "approval" })
          expect(yield* host.status("foreign")).toMatchObject({ reason: "approval" })
          for (const runId of ["stopped", "cut"])
            expect(yield* host.status(runId)).toMatchObject({ reason: "cancelled" })
          expect(yield* host.recover).toEqual([])
        })
      )
      for (const runId of [...goOn, "stopped", "cut"]) yield* lawful(runId)
    }))

  it.effect("takes over the others where one of the runs cannot be read", () =>
    Effect.gen(function* () {
      const { handlers } = yield* workshop
      const reader = agentOf("reader", [Scripted.text("done")], handlers)
      for (const runId of ["a", "b", "c"]) yield* Agent.create(reader, "go", { runId })
      yield* SqlClient.SqlClient.use((sql) => sql`UPDATE checkrein_runs SET summary = '{' WHERE run_id = 'b'`)
      yield* withHost([reader], {}, (host) =>
        Effect.gen(function* () {
          expect([...(yield* host.recover)].sort()).toEqual(["a", "c"])
          expect((yield* host.ended("a")).status).toBe("completed")
          expect((yield* host.list()).map(({ runId }) => runId).sort()).toEqual(["a", "c"])
          expect(yield* Effect.flip(host.status("b"))).toMatchObject({ kind: "corrupt" })
        })
      )
    }).pipe(
      Effect.scoped,
      Effect.provide(Layer.provideMerge(SqlRunStore.layer, NodeSqlite.layer({ filename: ":memory:" })))
    )
  )
})

describe("budget", () => {
  const priced = (
    lines: ReadonlyArray<Scripted.Line>,
    handlers: Layer.Layer<Tool.HandlersFor<(typeof tools)["tools"]>>
  ) =>
    agentOf("payer", lines, handlers).pipe(Agent.provide(PriceBook.layer({ payer: { input: 1, output: 1 } })))

  /** A pool for each tenant, which is the first tag, and who was asked for. */
  const tenants = Effect.gen(function* () {
    const pools = {
      a: yield* MemoryBudgetPool.make("a", { usd: 1 }),
      b: yield* MemoryBudgetPool.make("b", { usd: 1 })
    }
    const asked: Array<RunHost.Hosted> = []
    const budget = (run: RunHost.Hosted) =>
      Effect.sync(() => {
        asked.push(run)
        return run.tags[0] === "a" ? pools.a : run.tags[0] === "b" ? pools.b : undefined
      })
    const used = Effect.all({
      a: Effect.map(pools.a.status, ({ used: { toolCalls, turns } }) => ({ toolCalls, turns })),
      b: Effect.map(pools.b.status, ({ used: { toolCalls, turns } }) => ({ toolCalls, turns }))
    })
    return { pools, asked, budget, used }
  })

  test("each run spends its tenant's, whoever starts, resumes or recovers it, and whatever was around that", () =>
    Effect.gen(function* () {
      const { handlers } = yield* workshop
      const lines = [Scripted.call("delete", { q: "a" }), Scripted.text("done")]
      const agent = priced(lines, handlers)
      const { asked, budget, pools, used } = yield* tenants
      yield* withHost([agent], { budget }, (host) =>
        Effect.gen(function* () {
          yield* host.start("payer", "go", { runId: "a", tags: ["a", "x"] })
          yield* host.start("payer", "go", { runId: "b", tags: ["b"] })
          for (const id of ["a", "b"]) expect((yield* host.ended(id)).approvals.length).toBe(1)
          expect(yield* used).toEqual({ a: { toolCalls: 0, turns: 1 }, b: { toolCalls: 0, turns: 1 } })
        })
      )
      yield* withHost([agent], { budget }, (other) =>
        Effect.gen(function* () {
          for (const call of (yield* other.status("a")).approvals) yield* other.decide(call, Agent.approve())
          yield* other.resume("a")
          expect((yield* other.ended("a")).status).toBe("completed")
          expect(yield* used).toEqual({ a: { toolCalls: 1, turns: 2 }, b: { toolCalls: 0, turns: 1 } })
          const left = Agent.create(agent, "go", { runId: "left", tags: ["b"] })
          yield* Effect.provideService(left, BudgetPool.BudgetPool, pools.b)
          expect(yield* other.recover).toEqual(["left"])
          yield* other.ended("left")
          expect(yield* used).toEqual({ a: { toolCalls: 1, turns: 2 }, b: { toolCalls: 0, turns: 2 } })
        })
      ).pipe(Effect.provideService(BudgetPool.BudgetPool, pools.a))
      const [a, b, left] = [
        { runId: "a", agent: "payer", tags: ["a", "x"] },
        { runId: "b", agent: "payer", tags: ["b"] },
        { runId: "left", agent: "payer", tags: ["b"] }
      ]
      expect([...asked].sort((x, y) => (x.runId < y.runId ? -1 : 1))).toEqual([a, a, a, a, b, b, left])
    }))

  test("that is undefined is the one around the host; a run without an id or tags is asked about, too", () =>
    Effect.gen(function* () {
      const { handlers } = yield* workshop
      const { asked, budget, pools, used } = yield* tenants
      yield* withHost([priced([Scripted.text("done")], handlers)], { budget }, (host) =>
        Effect.gen(function* () {
          const runId = yield* host.start("payer", "go")
          expect((yield* host.ended(runId)).status).toBe("completed")
          expect(asked).toEqual([runId, runId].map((id) => ({ runId: id, agent: "payer", tags: [] })))
          expect(yield* used).toEqual({ a: { toolCalls: 0, turns: 0 }, b: { toolCalls: 0, turns: 1 } })
        })
      ).pipe(Effect.provideService(BudgetPool.BudgetPool, pools.b))
    }))

  test("is that of a sub-agent's run, too, and a money limit of it needs a price before anything is stored", () =>
    Effect.gen(function* () {
      const { handlers } = yield* workshop
      const { budget, used } = yield* tenants
      const ask = Agent.asTool(priced([read("a"), Scripted.text("asked")], handlers), {
        name: "ask",
        description: "asks"
      })
      const store = yield* RunStore.RunStore
      const lines = [Scripted.call("ask", { task: "t" }, { id: "c" }), Scripted.text("done")]
      const unpriced = Agent.make("lead", { toolkit: Toolkit.make(ask.tool) }).pipe(
        Agent.provide(ask.layer),
        Agent.provide(Layer.succeed(RunStore.RunStore, store)),
        Agent.provide(Scripted.layer(Scripted.make("lead", lines), { usage }))
      )
      yield* withHost([unpriced], { budget }, (host) =>
        Effect.gen(function* () {
          const refused = yield* Effect.flip(host.start("lead", "go", { runId: "r", tags: ["a"] }))
          expect(refused).toMatchObject({ _tag: "UnpricedModel", pool: "a" })
          expect(yield* host.list()).toEqual([])
        })
      )
      const prices = PriceBook.layer({ lead: { input: 1, output: 1 } })
      yield* withHost([unpriced.pipe(Agent.provide(prices))], { budget }, (host) =>
        Effect.gen(function* () {
          yield* host.start("lead", "go", { runId: "r", tags: ["a"] })
          expect((yield* host.ended("r")).status).toBe("completed")
          expect(yield* used).toEqual({ a: { toolCalls: 2, turns: 4 }, b: { toolCalls: 0, turns: 0 } })
        })
      )
    }))

  test("that cannot be had lets nothing start and nothing go on, and harms no run", () =>
    Effect.gen(function* () {
      const { handlers } = yield* workshop
      const { pools } = yield* tenants
      let away = true
      const budget = ({ tags: [pool = ""] }: RunHost.Hosted) =>
        away
          ? new BudgetPool.BudgetPoolError({ pool, kind: "unavailable", problem: "its database is away" })
          : Effect.succeed(pools.a)
      const agent = priced([Scripted.text("done")], handlers)
      yield* withHost([agent], { budget }, (host) =>
        Effect.gen(function* () {
          const refused = yield* Effect.flip(host.start("payer", "go", { runId: "r", tags: ["a"] }))
          expect(refused).toMatchObject({ _tag: "RunStoreError", runId: "r", kind: "unavailable" })
          expect(refused.message).toContain("the budget pool a failed: its database is away")
          expect(yield* host.list()).toEqual([])
          yield* Agent.create(agent, "go", { runId: "left", tags: ["a"] })
          expect(yield* host.recover).toEqual(["left"])
          expect(yield* host.ended("left")).toMatchObject({ status: "running", turns: 0 })
          away = false
          expect(yield* host.recover).toEqual(["left"])
          expect((yield* host.ended("left")).status).toBe("completed")
        })
      )
    }))

  for (const [whose, isWaiting] of [
    ["the run's", false],
    ["the run's", true],
    ["the one around the host", false]
  ] as const) {
    const what = isWaiting ? "what it has recovered, and has no place for" : "what a dead process has left"
    test(`(${whose}) hears of the model call that was lost when a host stops ${what}`, () =>
      Effect.gen(function* () {
        const { handlers, paying } = yield* workshop
        const { pools } = yield* tenants
        const agent = priced([read("a"), read("b"), Scripted.text("done")], handlers)
        const long = agentOf("long", [pay("x")], handlers).pipe(
          Agent.provide(PriceBook.layer({ long: { input: 1, output: 1 } }))
        )
        let isDead = false
        const dying = {
          ...pools.a,
          settle: (...claim: Parameters<typeof pools.a.settle>) =>
            isDead ? Effect.void : pools.a.settle(...claim)
        }
        const run = Agent.run(agent, "go", { runId: "r", tags: ["a"] }).pipe(
          Effect.provideService(BudgetPool.BudgetPool, dying)
        )
        const before = (event: RunEvent.RunEvent) => {
          isDead ||= event.type === "turn" && event.turn === 2
          return isDead
        }
        yield* Effect.exit(crashing(run, { before }))
        const used = Effect.map(pools.a.status, ({ used: { tokens, turns } }) => ({ tokens, turns }))
        expect(yield* used).toEqual({ tokens: 15, turns: 1 })
        const around = Context.make(BudgetPool.BudgetPool, whose === "the run's" ? pools.b : pools.a)
        const budget = ({ runId }: RunHost.Hosted) =>
          Effect.succeed(runId === "r" && whose === "the run's" ? pools.a : undefined)
        const stopping = (host: RunHost.RunHost["Service"]) =>
          Effect.gen(function* () {
            if (isWaiting) {
              yield* host.start("long", "go")
              yield* Deferred.await(paying)
              expect(yield* host.recover).toEqual(["r"])
            }
            yield* host.cancel("r", "enough")
          })
        const shutdown = { running: "interrupt" } as const
        yield* withHost([agent, long], { budget, concurrency: 1, shutdown }, stopping).pipe(
          Effect.provideContext(around)
        )
        const { promptTokens, completionTokens, turns } = yield* RunStore.load("r").pipe(
          Effect.map(({ state }) => ({ ...state.usage, turns: state.turns }))
        )
        expect(yield* used).toEqual({ tokens: promptTokens + completionTokens, turns })
      }))
  }

  test("that never says which it is holds a place for a while only, and no Stop", () =>
    Effect.gen(function* () {
      const { handlers } = yield* workshop
      const { pools } = yield* tenants
      const agent = priced([Scripted.text("done")], handlers)
      const budget = ({ tags: [pool] }: RunHost.Hosted) =>
        pool === "never" ? Effect.never : pool === "gone" ? Effect.interrupt : Effect.succeed(pools.a)
      const within = (host: RunHost.RunHost["Service"]) =>
        Effect.gen(function* () {
          for (const [runId, kind] of [
            ["never", "timed_out"],
            ["gone", "unavailable"]
          ] as const) {
            const left = Agent.create(agent, "go", { runId, tags: [runId] })
            yield* Effect.provideService(left, BudgetPool.BudgetPool, pools.a)
            const starting = Effect.flip(host.start("payer", "go", { runId: `${runId}2`, tags: [runId] }))
            expect(yield* withTime(starting)).toMatchObject({ _tag: "RunStoreError", kind })
          }
          expect([...(yield* host.recover)].sort()).toEqual(["gone", "never"])
          yield* host.start("payer", "go", { runId: "r", tags: ["a"] })
          expect(yield* withTime(host.ended("r"))).toMatchObject({ status: "completed" })
          yield* withTime(host.cancel("never", "enough"))
          expect(yield* host.ended("never")).toMatchObject({ reason: "cancelled" })
        })
      yield* inTestTime(withHost([agent], { budget, concurrency: 1 }, within))
    }))
})

describe("a host that drives none", () => {
  test("stores what it is asked for, and another one has it driven", () =>
    Effect.gen(function* () {
      const { done, handlers } = yield* workshop
      const lines = [Scripted.call("delete", { q: "log" }, { id: "c" }), Scripted.text("done")]
      const agent = agentOf("cleaner", lines, handlers)
      yield* withHost([agent], { concurrency: "none" }, (web) =>
        withHost([agent], {}, (worker) =>
          Effect.gen(function* () {
            yield* web.start("cleaner", "go", { runId: "r" })
            expect(yield* web.recover).toEqual([])
            yield* settle
            expect(yield* web.ended("r")).toMatchObject({ status: "running", seq: 1 })
            const seen = yield* Effect.forkChild(Stream.runDrain(web.attach("r")), { startImmediately: true })
            expect(yield* worker.recover).toEqual(["r"])
            yield* Fiber.join(seen)
            const { approvals } = yield* web.status("r")
            yield* web.decide(approvals[0]!, Agent.approve())
            yield* web.resume("r", { message: "be quick" })
            yield* settle
            expect(yield* web.ended("r")).toMatchObject({ status: "running" })
            expect(done).toEqual([])
            yield* worker.recover
            expect(yield* worker.ended("r")).toMatchObject({ status: "completed" })
            expect(yield* web.ended("r")).toMatchObject({ status: "completed" })
            expect(done).toEqual(["delete log"])
            yield* web.start("cleaner", "go", { runId: "stopped" })
            yield* web.cancel("stopped", "the user")
            expect(yield* worker.recover).toEqual([])
            yield* lawful("r")
          })
        )
      )
    }))
})

describe("a host that is closed", () => {
  test("drives nothing any more, and holds nobody up who waits for that", () =>
    Effect.gen(function* () {
      const { handlers } = yield* workshop
      const agent = agentOf("a", [Scripted.text("done")], handlers)
      const host = yield* withHost([agent], {}, Effect.succeed)
      yield* host.start("a", "go", { runId: "r" })
      expect(yield* host.ended("r")).toMatchObject({ status: "running" })
      yield* host.resume("r")
      expect(yield* host.ended("r")).toMatchObject({ status: "running" })
    }))
})

describe("shutting down", () => {
  /** A host whose scope is in the test's hands. */
  const hostIn = (
    scope: Scope.Scope,
    agents: ReadonlyArray<Agent.Agent<unknown, never, never>>,
    shutdown: RunHost.Shutdown
  ) =>
    Effect.map(
      Layer.buildWithScope(RunHost.layer(agents, { shutdown, concurrency: 1 }), scope),
      Context.get(RunHost.RunHost)
    )

  test("lets the running tool finish, begins no further turn, and leaves every run to be resumed", () =>
    Effect.gen(function* () {
      const { done, gate, handlers, paying } = yield* workshop
      const payer = agentOf("payer", [pay("a"), pay("b"), Scripted.text("done")], handlers)
      const scope = yield* Scope.make()
      const host = yield* hostIn(scope, [payer], {})
      yield* host.start("payer", "go", { runId: "r" })
      yield* host.start("payer", "go", { runId: "queued" })
      yield* Deferred.await(paying)
      const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void), { startImmediately: true })
      yield* settle
      yield* Deferred.succeed(gate, undefined)
      yield* Fiber.join(closing)
      expect(done).toEqual(["pay a"])
      expect(yield* host.status("r")).toMatchObject({ status: "running", turns: 1 })
      expect(yield* host.status("queued")).toMatchObject({ status: "running", turns: 0 })
      yield* withHost([payer], {}, (next) =>
        Effect.gen(function* () {
          expect([...(yield* next.recover)].sort()).toEqual(["queued", "r"])
          expect(yield* next.ended("r")).toMatchObject({ status: "completed", turns: 3 })
          expect(yield* next.ended("queued")).toMatchObject({ status: "completed", turns: 3 })
        })
      )
      expect([...done].sort()).toEqual(["pay a", "pay a", "pay b", "pay b"])
      yield* lawful("r")
    }))

  test("interrupts what has not finished when its grace is over", () =>
    Effect.gen(function* () {
      const { done, handlers, paying } = yield* workshop
      const payer = agentOf("payer", [pay("a"), Scripted.text("done")], handlers)
      const scope = yield* Scope.make()
      const host = yield* hostIn(scope, [payer], { grace: "10 seconds" })
      yield* host.start("payer", "go", { runId: "r" })
      yield* Deferred.await(paying)
      const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void), { startImmediately: true })
      yield* settle
      yield* TestClock.adjust("9 seconds")
      expect((yield* host.status("r")).status).toBe("running")
      yield* TestClock.adjust("1 second")
      yield* Fiber.join(closing)
      expect(yield* host.status("r")).toMatchObject({ status: "running", unknown: [{ tool: "pay" }] })
      expect(done).toEqual([])
      yield* lawful("r")
    }))

  test("does not wait for a provider that asked for patience", () =>
    Effect.gen(function* () {
      const { handlers } = yield* workshop
      const reader = agentOf(
        "reader",
        [Scripted.fail(429, { retryAfter: "100" }), Scripted.text("done")],
        handlers
      )
      const scope = yield* Scope.make()
      const host = yield* hostIn(scope, [reader], {})
      yield* host.start("reader", "go", { runId: "r" })
      yield* settle
      yield* Scope.close(scope, Exit.void)
      expect(yield* host.status("r")).toMatchObject({ status: "running", turns: 0 })
      yield* lawful("r")
    }))

  test("a run that is cancelled while its host goes is cancelled, not left to be taken over", () =>
    Effect.gen(function* () {
      const { handlers, paying } = yield* workshop
      const payer = agentOf("payer", [pay("a"), Scripted.text("done")], handlers)
      const scope = yield* Scope.make()
      const host = yield* hostIn(scope, [payer], {})
      yield* host.start("payer", "go", { runId: "r" })
      yield* Deferred.await(paying)
      const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void), { startImmediately: true })
      yield* settle
      yield* host.cancel("r", "not needed")
      yield* Fiber.join(closing)
      expect(yield* host.status("r")).toMatchObject({ reason: "cancelled", detail: "not needed" })
      yield* lawful("r")
    }))

  test("interrupts at once if it is told to", () =>
    Effect.gen(function* () {
      const { handlers, paying } = yield* workshop
      const payer = agentOf("payer", [pay("a"), Scripted.text("done")], handlers)
      const scope = yield* Scope.make()
      const host = yield* hostIn(scope, [payer], { running: "interrupt" })
      yield* host.start("payer", "go", { runId: "r" })
      yield* Deferred.await(paying)
      yield* Scope.close(scope, Exit.void)
      expect((yield* host.status("r")).status).toBe("running")
      yield* lawful("r")
    }))

  test("a sub-agent leaves off in good order too, and goes on where it was", () =>
    Effect.gen(function* () {
      const { done, gate, handlers, paying } = yield* workshop
      const helper = agentOf("helper", [pay("a"), pay("b"), Scripted.text("both paid")], handlers)
      const ask = Agent.asTool(helper, { name: "ask", description: "asks" })
      const store = yield* RunStore.RunStore
      const lead = Agent.make("lead", { toolkit: Toolkit.make(ask.tool) }).pipe(
        Agent.provide(ask.layer),
        Agent.provide(
          Scripted.layer(
            Scripted.make("l", [Scripted.call("ask", { task: "t" }, { id: "c" }), Scripted.text("done")]),
            { usage }
          )
        ),
        Agent.provide(Layer.succeed(RunStore.RunStore, store))
      )
      const scope = yield* Scope.make()
      const host = yield* hostIn(scope, [lead], {})
      yield* host.start("lead", "go", { runId: "r" })
      yield* Deferred.await(paying)
      const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void), { startImmediately: true })
      yield* settle
      yield* Deferred.succeed(gate, undefined)
      yield* Fiber.join(closing)
      expect(done).toEqual(["pay a"])
      expect((yield* host.status("r")).status).toBe("running")
      expect((yield* host.status("r/c")).status).toBe("running")
      const completed = yield* Agent.resume(lead, "r")
      expect(completed.output).toBe("done")
      expect(done).toEqual(["pay a", "pay b"])
      yield* lawful("r")
      yield* lawful("r/c")
    }))
})

describe("a host that would drive nothing, or another agent than was meant", () => {
  const offline = (name: string) =>
    Agent.make(name).pipe(Agent.provide(Scripted.layer(Scripted.make(name, [Scripted.text("done")]))))

  it.effect.each<{
    readonly options?: object
    readonly agents?: ReadonlyArray<Agent.Agent<unknown, never, never>>
    readonly problem: string
  }>([
    ...[0, -1, 0.5, Number.NaN, "4"].map((concurrency) => ({
      options: { concurrency },
      problem: `options.concurrency is ${JSON.stringify(concurrency)?.replace("null", "NaN")}, and must be`
    })),
    { options: { concurency: 4 }, problem: 'options has no "concurency"' },
    { options: { budget: {} }, problem: "options.budget is an object, and must be a function" },
    { options: { shutdown: "interrupt" }, problem: 'options.shutdown is "interrupt", and must be' },
    { options: { shutdown: { running: "stop" } }, problem: 'options.shutdown.running is "stop"' },
    { options: { shutdown: { grace: Number.NaN } }, problem: "options.shutdown.grace is NaN" },
    { options: { shutdown: { grace: "-1 second" } }, problem: 'options.shutdown.grace is "-1 second"' },
    { agents: ["one", "two", "one"].map(offline), problem: "two of its agents are called one" }
  ])("is not made: $problem", ({ agents = [], options = {}, problem }) =>
    Effect.gen(function* () {
      const exit = yield* Effect.exit(Layer.build(RunHost.layer(agents, options)))
      const defect = Exit.isFailure(exit) ? String(Cause.squash(exit.cause)) : ""
      expect(defect).toContain(`TypeError: a RunHost cannot be made: ${problem}`)
    }).pipe(Effect.provide(MemoryRunStore.layer))
  )
})
