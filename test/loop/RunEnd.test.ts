/**
 * A family of runs loses its driver at every append of any of them: the process is killed, or leaves off in good order.
 * Whatever the run at the top ends for when somebody takes it up, nothing below it is left as `running`, for nobody would
 * ever drive it.
 */
import { describe, expect } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Schema from "effect/Schema"
import * as TestClock from "effect/testing/TestClock"
import { Agent, PriceBook, RunStore } from "../../src/index.ts"
import { Drain } from "../../src/loop/Drain.ts"
import * as Scripted from "../../src/provider/Scripted.ts"
import * as Audit from "../../src/testing/Audit.ts"
import { call, check, crashing, guarded, model, settle, withTime } from "./support.ts"

const Prices = PriceBook.layer({
  top: { input: 7, output: 13 },
  middle: { input: 3, output: 5 },
  leaf: { input: 11, output: 17 }
})

type Runnable = Agent.Agent<string, never, RunStore.RunStore>

/** What stands against the run at the top when it is taken up. */
type Options = Pick<NonNullable<Parameters<typeof Agent.make>[1]>, "limits" | "stopWhen">

const Read = Tool.make("read", {
  parameters: Schema.Struct({ q: Schema.String }),
  success: Schema.String
}).annotate(Tool.Readonly, true)
const reading = Toolkit.make(Read)
const handlers = reading.toLayer({ read: ({ q }) => Effect.succeed(q) })

const leaf = (name: string, options: Options = {}): Runnable =>
  Agent.make(name, { ...options, toolkit: reading }).pipe(
    Agent.provide(handlers),
    Agent.provide(model([call("read", "a", "1"), call("read", "b", "2"), Scripted.text("dug")], name).layer)
  )

/** An agent that asks another one twice in the same turn, and the two at the same time. */
const above = (name: string, below: Runnable, options: Options = {}): Runnable => {
  const ask = Agent.asTool(below, { name: "ask", description: "Asks." })
  const lines = [
    Scripted.turn(
      Scripted.call("ask", { task: "dig" }, { id: "c" }),
      Scripted.call("ask", { task: "dig deeper" }, { id: "d" })
    ),
    Scripted.text("done")
  ]
  return Agent.make(name, {
    ...options,
    toolkit: Toolkit.make(ask.tool.annotate(Tool.Readonly, true))
  }).pipe(Agent.provide(Layer.mergeAll(ask.layer, model(lines, name).layer)))
}

const families: ReadonlyArray<readonly [name: string, make: (options?: Options) => Runnable]> = [
  ["one level", (options) => leaf("top", options)],
  ["two levels", (options) => above("top", leaf("leaf"), options)],
  ["three levels", (options) => above("top", above("middle", leaf("leaf")), options)]
]

type Step = Effect.Effect<unknown, unknown, RunStore.RunStore>
type Make = (options?: Options) => Runnable

const deadline = { limits: { deadline: new Date(60_000) } }

/** How the run at the top comes to its end when it is taken up: what is done, and with what the agent was made. */
const endings: ReadonlyArray<
  readonly [name: string, end: (make: Make, runId: string) => Step, options?: Options]
> = [
  [
    "a Stop that its dead driver was sent",
    (make, runId) =>
      Effect.gen(function* () {
        const store = yield* RunStore.RunStore
        yield* store.send(runId, { type: "cancel", reason: "enough" })
        yield* Agent.resume(make(), runId)
      })
  ],
  ["a Stop while nobody drives it", (_, runId) => Agent.cancel(runId, "enough")],
  [
    "its deadline",
    (make, runId) => Effect.andThen(TestClock.adjust("2 minutes"), Agent.resume(make(deadline), runId)),
    deadline
  ],
  ["its turn limit", (make, runId) => Agent.resume(make(), runId, { limits: { turns: 1 } })],
  ["its money", (make, runId) => Agent.resume(make(), runId, { limits: { usd: 1e-9 } })],
  [
    "a defect",
    (make, runId) => {
      const stopWhen = () => {
        throw new Error("no such property")
      }
      return Agent.resume(make({ stopWhen }), runId)
    }
  ],
  ["a stop condition", (make, runId) => Agent.resume(make({ stopWhen: () => "enough" }), runId)]
]

const attempt = (step: Step) => Effect.exit(Effect.provide(step, [Prices, Logger.layer([])]))

/** The process dies once this many events are stored. */
const killed = (step: Step, events: number): Step =>
  Effect.suspend(() => {
    let stored = 0
    return crashing(step, { before: () => ++stored > events })
  })

/**
 * Its driver leaves off once this many events are stored, and lets what it has begun come to its end or interrupts it;
 * somebody presses Stop at the same moment.
 */
const leftOff = (step: Step, runId: string, events: number, running: "finish" | "interrupt"): Step =>
  Effect.gen(function* () {
    const drain = yield* Deferred.make<void>()
    const store = yield* RunStore.RunStore
    let stored = 0
    let fiber: Fiber.Fiber<unknown, unknown> | undefined
    const append: typeof store.append = (one) =>
      Effect.tap(store.append(one), () => {
        const before = stored
        stored += one.events.length
        if (before >= events || stored < events) return Effect.void
        return Effect.gen(function* () {
          yield* Deferred.succeed(drain, undefined)
          yield* Effect.ignore(store.send(runId, { type: "cancel", reason: "enough" }))
          if (running === "interrupt") fiber?.interruptUnsafe()
        })
      })
    fiber = yield* step.pipe(
      Effect.provideService(Drain, drain),
      Effect.provideService(RunStore.RunStore, { ...store, append }),
      Effect.forkChild
    )
    yield* Fiber.await(fiber)
  })

const summary = (runId: string) => RunStore.RunStore.use((store) => store.summary(runId))

/** The run at the top has stopped: so have all below it, and their journals keep the laws. */
const expectOver = Effect.fnUntraced(function* (runId: string, when: string) {
  const store = yield* RunStore.RunStore
  expect((yield* summary(runId)).status, `${when}: ${runId}`).not.toBe("running")
  const running = (yield* store.list({ status: "running" })).map((run) => run.runId)
  const left = running.filter((id) => id.startsWith(`${runId}/`))
  expect(left, when).toEqual([])
  expect((yield* Audit.run(runId)).findings, when).toEqual([])
})

describe("a run that ends ends what is below it, wherever its driver was killed", () => {
  for (const [levels, make] of families) {
    for (const [name, end, options] of endings) {
      for (const again of [undefined, 2]) {
        const twice = again === undefined ? "" : `, which is killed ${again} events later`
        check(`${levels}: by ${name}${twice}`, function* () {
          let met = 0
          for (let at = 1; ; at++) {
            const runId = `r${at}`
            const first = yield* attempt(killed(Agent.run(make(options), "go", { runId }), at))
            if (first._tag === "Success") break
            // Its first event was never stored.
            if ((yield* Effect.option(summary(runId)))._tag === "None") continue
            if (again !== undefined) yield* attempt(killed(end(make, runId), again))
            // Whoever finds it as its driver has left it takes it up; what has stopped stays so.
            if (again === undefined || (yield* summary(runId)).status === "running") {
              yield* attempt(end(make, runId))
            }
            yield* expectOver(runId, `killed after event ${at}`)
            if (options !== undefined) yield* TestClock.setTime(0)
            met++
          }
          expect(met).toBeGreaterThan(5)
        })
      }
    }

    for (const running of ["finish", "interrupt"] as const) {
      check(`${levels}: by a Stop while its driver leaves off (${running})`, function* () {
        for (let at = 1; ; at++) {
          const runId = `r${at}`
          yield* attempt(leftOff(Agent.run(make(), "go", { runId }), runId, at, running))
          const { status } = yield* summary(runId)
          if (status === "running") yield* attempt(Agent.resume(make(), runId))
          yield* expectOver(runId, `left off after event ${at}`)
          if (status === "completed") break
        }
      })
    }
  }
})

describe("a run in a call that comes to its result without it", () => {
  const below = () => above("middle", leaf("leaf"))
  const options = { name: "ask", description: "Asks." } as const
  const bot = () =>
    model([Scripted.call("ask", { task: "dig" }, { id: "c" }), Scripted.text("done")], "top").layer
  const asking = (input?: () => string) => {
    const { layer, tool } = Agent.asTool(below(), { ...options, ...(input && { input }) })
    return Agent.make("top", { toolkit: Toolkit.make(tool) }).pipe(Agent.provide(Layer.merge(layer, bot())))
  }

  /** What the next driver makes of the tool, and what its model is told. */
  const changes: ReadonlyArray<readonly [name: string, make: () => Runnable, told: RegExp]> = [
    [
      "whose tool is gone",
      () => Agent.make("top", { toolkit: reading }).pipe(Agent.provide(Layer.merge(handlers, bot()))),
      /no tool ask/
    ],
    [
      "whose arguments do not fit any more",
      () => {
        const parameters = Schema.Struct({ folder: Schema.String })
        const { layer, tool } = Agent.asTool(below(), { ...options, parameters })
        return Agent.make("top", { toolkit: Toolkit.make(tool) }).pipe(
          Agent.provide(Layer.merge(layer, bot()))
        )
      },
      /do not fit ask/
    ],
    [
      "whose tool fails before it takes it up",
      () =>
        asking(() => {
          throw new Error("no such task")
        }),
      /failed/
    ]
  ]

  for (const [name, make, told] of changes) {
    check(`${name}: is ended with those below it, wherever its driver was killed`, function* () {
      let met = 0
      for (let at = 1; ; at++) {
        const runId = `r${at}`
        const first = yield* attempt(killed(Agent.run(asking(), "go", { runId }), at))
        if (first._tag === "Success") break
        const before = yield* Effect.option(summary(`${runId}/c`))
        if (before._tag === "None" || before.value.status !== "running") continue
        yield* attempt(Agent.resume(make(), runId))
        const when = `killed after event ${at}`
        yield* expectOver(runId, when)
        const { state } = yield* RunStore.load(runId)
        const results = state.messages.flatMap((one) => (one.role === "tool" ? [one.content] : []))
        expect(results, when).toEqual([expect.stringMatching(told)])
        expect(yield* summary(`${runId}/c`), when).toMatchObject({ detail: `run ${runId} was stopped` })
        met++
      }
      expect(met).toBeGreaterThan(5)
    })
  }
})

describe("a run that ends, of which no run was left", () => {
  const asking = Toolkit.make(guarded("sign"))
  const waiting = (): Runnable =>
    Agent.make("leaf", { toolkit: asking }).pipe(
      Agent.provide(asking.toLayer({ sign: ({ q }) => Effect.succeed(q) })),
      Agent.provide(model([call("sign", "s")], "leaf").layer)
    )

  for (const [name, below, status] of [
    ["completes", leaf("leaf"), "completed"],
    ["waits with them", waiting(), "interrupted"]
  ] as const) {
    check(`and ${name}, looks at none of them`, function* () {
      const store = yield* RunStore.RunStore
      let looks = 0
      let atEnd: number | undefined
      const looked = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
        Effect.tap(effect, () => Effect.sync(() => looks++))
      const watched: typeof store = {
        ...store,
        summary: (runId) => looked(store.summary(runId)),
        read: (runId, from) => looked(store.read(runId, from)),
        lease: (runId) => looked(store.lease(runId)),
        append: (one) =>
          Effect.suspend(() => {
            const types = one.runId === "r" ? one.events.map(({ type }) => type) : []
            if (types.includes("tool_result") || types.includes("child_suspended")) looks = 0
            if (types.includes("run_stopped")) atEnd = looks
            return store.append(one)
          })
      }
      const run = Agent.run(above("top", below), "go", { runId: "r" })
      yield* attempt(Effect.provideService(run, RunStore.RunStore, watched))
      expect(yield* summary("r")).toMatchObject({ status })
      expect(atEnd).toBe(0)
    })
  }
})

describe("a store that hangs delays the end of a family by no more than one append may take", () => {
  type Store = RunStore.RunStore["Service"]
  const slow = reading.toLayer({ read: ({ q }) => Effect.delay(Effect.succeed(q), "10 minutes") })
  const stuck = (): Runnable =>
    Agent.make("leaf", { toolkit: reading }).pipe(
      Agent.provide(slow),
      Agent.provide(model([call("read", "a", "1")], "leaf").layer)
    )
  const members = {
    "one level": (options?: Options) =>
      Agent.make("top", { ...options, toolkit: reading }).pipe(
        Agent.provide(slow),
        Agent.provide(model([call("read", "a", "1")], "top").layer)
      ),
    "two levels": (options?: Options) => above("top", stuck(), options),
    "three levels": (options?: Options) => above("top", above("middle", stuck()), options)
  } satisfies Record<string, Make>

  /** What does not answer, once it has hung. */
  const faults: {
    readonly [name: string]: (
      store: Store,
      hang: <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
    ) => Partial<Store>
  } = {
    append: (store, hang) => ({ append: (one) => hang(store.append(one)) }),
    summary: (store, hang) => ({ summary: (runId) => hang(store.summary(runId)) }),
    read: (store, hang) => ({ read: (runId, from) => hang(store.read(runId, from)) }),
    lease: (store, hang) => ({ lease: (runId) => hang(store.lease(runId)) }),
    inbox: (store, hang) => ({ inbox: (runId, after) => hang(store.inbox(runId, after)) }),
    list: (store, hang) => ({ list: (options) => hang(store.list(options)) }),
    send: (store, hang) => ({ send: (runId, command) => hang(store.send(runId, command)) })
  }
  const everything: (typeof faults)[string] = (store, hang) =>
    Object.assign({}, ...Object.values(faults).map((fault) => fault(store, hang)))

  const hanging = (fault: (typeof faults)[string], hang: Effect.Effect<never>) =>
    Effect.gen(function* () {
      const store = yield* RunStore.RunStore
      const has = { hung: false }
      const wrapped: Store = {
        ...store,
        ...fault(store, (effect) => Effect.suspend(() => (has.hung ? hang : effect)))
      }
      return { has, wrapped }
    })

  /** How many seconds pass until it is over, at most ten minutes. */
  const secondsUntil = (fiber: Fiber.Fiber<unknown, unknown>) =>
    Effect.gen(function* () {
      let seconds = 0
      yield* settle
      for (; seconds < 600 && fiber.pollUnsafe() === undefined; seconds++) {
        yield* TestClock.adjust("1 second")
        yield* settle
      }
      return seconds
    })

  for (const [family, make] of Object.entries(members)) {
    for (const [fault, wrap] of Object.entries({ ...faults, everything })) {
      for (const [manner, hang] of [
        ["", Effect.never],
        [", and cannot be interrupted", Effect.uninterruptible(Effect.never)]
      ] as const) {
        check(`${family}, ${fault} hangs${manner}: a Stop`, function* () {
          const { has, wrapped } = yield* hanging(wrap, hang)
          const run = Effect.provide(Agent.run(make(), "go", { runId: "r" }), Prices)
          const driver = yield* Effect.forkChild(Effect.provideService(run, RunStore.RunStore, wrapped))
          yield* settle
          yield* settle
          has.hung = true
          yield* Effect.forkChild(Fiber.interrupt(driver))
          expect(yield* secondsUntil(driver)).toBeLessThanOrEqual(30)
          has.hung = false
          if (manner !== "") return
          yield* settle
          yield* withTime(Agent.cancel("r", "enough"))
          yield* expectOver("r", "the store is back")
        })

        check(`${family}, ${fault} hangs${manner}: a Stop in the middle of an append`, function* () {
          const { has, wrapped } = yield* hanging(wrap, hang)
          const run = Effect.provide(Agent.run(make(), "go", { runId: "r" }), Prices)
          const driver = yield* Effect.forkChild(Effect.provideService(run, RunStore.RunStore, wrapped))
          yield* settle
          yield* settle
          has.hung = true
          yield* TestClock.adjust("10 minutes")
          yield* settle
          yield* Effect.forkChild(Fiber.interrupt(driver))
          expect(yield* secondsUntil(driver)).toBeLessThanOrEqual(30)
        })

        check(`${family}, ${fault} hangs${manner}: the time limit`, function* () {
          const { has, wrapped } = yield* hanging(wrap, hang)
          const limits = { time: "1 minute" } as const
          const run = Effect.provide(Agent.run(make({ limits }), "go", { runId: "r" }), Prices)
          const driver = yield* Effect.forkChild(Effect.provideService(run, RunStore.RunStore, wrapped))
          yield* settle
          yield* settle
          has.hung = true
          expect(yield* secondsUntil(driver)).toBeLessThanOrEqual(90)
        })
      }
    }
  }
})
