/**
 * What is not safe is found: tools, stores, models and journals that break a promise, one kind each.
 */
import { describe, expect, it } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { Agent, MemoryRunStore, RunStore, ToolFailure, ToolPolicy } from "../../src/index.ts"
import { Scripted } from "../../src/provider/index.ts"
import { CrashKit } from "../../src/testing/index.ts"
import { CurrentCall, Operation } from "../../src/tool/index.ts"
import { agent, call, done, handlers, model } from "./agents.ts"

// Hundreds of runs take a while on a machine that has other things to do.
const patience = 60_000

const Work = Tool.make("work", { success: Schema.String })

/** Runs an agent with one tool, which it calls once, or as often as it is told to. */
const working = (
  tool: typeof Work,
  handler: () => Effect.Effect<string>,
  more: { readonly calls?: number; readonly ways?: ReadonlyArray<"interruption" | "defect" | "crash"> } = {}
) => {
  const tools = Toolkit.make(tool)
  const lines = Array.from({ length: more.calls ?? 1 }, () => Scripted.call("work"))
  return CrashKit.check({
    agent: Agent.make("worker", { toolkit: tools, limits: { turns: 9 } }),
    input: "Work.",
    layer: Layer.merge(tools.toLayer({ work: handler }), model([...lines, done])),
    ways: more.ways
  })
}

const worked: Effect.Effect<string> = Effect.as(CrashKit.happened("worked"), "worked")

/**
 * Runs an agent whose model believes what it is told, and calls its tool again if that did not take effect. `said` is what
 * the tool says of each call that was cut off.
 */
const believing = (said: ToolPolicy.Outcome, handler: Effect.Effect<string>) => {
  const tools = Toolkit.make(Work.annotate(ToolPolicy.Reconcile, () => Effect.succeed(said)))
  const lines: Parameters<typeof model>[0] = (_turn, { messages }) =>
    messages.at(-1)?.role === "tool" && !JSON.stringify(messages.at(-1)).includes("did not take effect")
      ? done
      : Scripted.call("work")
  return CrashKit.check({
    agent: Agent.make("worker", { toolkit: tools, limits: { turns: 9 } }),
    input: "Work.",
    layer: Layer.merge(tools.toLayer({ work: () => handler }), model(lines)),
    ways: ["interruption", "crash"]
  })
}

/** Which promises were broken, and where. */
const found = (report: CrashKit.Report) =>
  new Set(report.broken.map(({ fault, promise }) => `${promise} ${fault?.way} ${fault?.seam.point}`))

describe("a tool", { timeout: patience }, () => {
  it.effect("that may be repeated only by name is found out", () =>
    Effect.gen(function* () {
      for (const kind of [Tool.Idempotent, Tool.Readonly]) {
        const report = yield* working(Work.annotate(kind, true), () => worked)
        expect(found(report)).toContain("at_most_once crash in tool")
        expect(report.broken[0]?.problem).toBe('"worked" took place 2 times instead of once')
        // Before it has begun, and once its result is stored, it is safe.
        for (const { seam, broken } of report.visits) {
          if (seam.point === "before tool" || seam.point === "in model call") expect(broken).toEqual([])
        }
      }
    })
  )

  it.effect("whose key is the id of its call is safe if it goes by that, and found out if not", () =>
    Effect.gen(function* () {
      const own = ({ callId }: ToolPolicy.Call) => callId
      const tool = Work.annotate(Tool.Idempotent, true).annotate(ToolPolicy.IdempotencyKey, own)
      const once = Effect.flatMap(CurrentCall.CurrentCall, ({ idempotencyKey }) =>
        CrashKit.happenedOnce(idempotencyKey, "worked")
      )
      expect((yield* working(tool, () => Effect.as(once, "worked"))).broken).toEqual([])
      const report = yield* working(tool, () => worked)
      expect(found(report)).toContain("at_most_once crash in tool")
    })
  )

  it.effect("that changes the world, and says so, is safe", () =>
    Effect.gen(function* () {
      expect((yield* working(Work, () => worked)).broken).toEqual([])
    })
  )

  it.effect("whose idempotency key is another one each time is found out", () =>
    Effect.gen(function* () {
      let keys = 0
      const tool = Work.annotate(Tool.Idempotent, true).annotate(ToolPolicy.IdempotencyKey, () => `${keys++}`)
      const report = yield* working(tool, () => Effect.succeed("worked"))
      expect(found(report)).toContain("same_key crash in tool")
    })
  )

  it.effect(
    "that says its idempotency key is safe, wherever a model call is lost; one that says a part is told to say it all",
    () =>
      Effect.gen(function* () {
        const saying = (word: (key: string) => string, more: object = {}) => {
          const tools = Toolkit.make(Work)
          const work = Effect.gen(function* () {
            const { idempotencyKey } = yield* CurrentCall.CurrentCall
            yield* CrashKit.happenedOnce(idempotencyKey, `worked under ${word(idempotencyKey)}`)
            return JSON.stringify({ receipt: `"${word(idempotencyKey)}"` })
          })
          return CrashKit.check({
            agent: Agent.make("worker", { toolkit: tools, limits: { turns: 9 } }),
            input: "Work.",
            // The model says what it has read.
            layer: Layer.merge(
              tools.toLayer({ work: () => work }),
              model((turn, { messages }) =>
                turn < 2 ? Scripted.call("work") : Scripted.text(`done: ${JSON.stringify(messages.at(-1))}`)
              )
            ),
            ...more
          })
        }
        expect((yield* saying((key) => key)).broken).toEqual([])
        const lost = { only: ({ point }: CrashKit.Seam) => point === "in model call" }
        for (const [from, to] of [
          [0, 8],
          [-12, undefined],
          [3, 7]
        ] as const) {
          const report = yield* saying((key) => key.slice(from, to), lost)
          expect(found(report)).toContain("transcript crash in model call")
          for (const promise of ["transcript", "at_most_once"]) {
            const problems = report.broken.filter((broken) => broken.promise === promise)
            expect(problems.length).toBeGreaterThan(0)
            for (const { problem } of problems) expect(problem).toMatch(/instead of .*: say the whole key\)$/)
          }
        }
        const other = yield* saying((key) => `${key.length}${key.charCodeAt(5) % 7}`, lost)
        expect(found(other)).toContain("transcript crash in model call")
        expect(JSON.stringify(other.broken)).not.toContain("whole key")
      })
  )

  it.effect("that remembers what it has done in its process answers something else after a crash", () =>
    Effect.gen(function* () {
      const tools = Toolkit.make(Work.annotate(Tool.Readonly, true))
      const counting = () => {
        let times = 0
        return Layer.merge(
          tools.toLayer({ work: () => Effect.sync(() => `worked ${++times} times`) }),
          model([Scripted.call("work"), done])
        )
      }
      const report = yield* CrashKit.check({
        agent: () => Agent.make("worker", { toolkit: tools }).pipe(Agent.provide(counting())),
        input: "Work.",
        layer: Layer.empty
      })
      expect(found(report)).toContain("transcript crash in tool")
      expect(found(report)).toContain("transcript interruption after tool")
    })
  )

  it.effect("that keeps what it should do in its process loses it", () =>
    Effect.gen(function* () {
      const tools = Toolkit.make(Work.annotate(Tool.Idempotent, true))
      const lazy = Layer.unwrap(
        Effect.sync(() => {
          let waiting = 0
          // Does each time what it was asked for the time before.
          return tools.toLayer({
            work: () => Effect.suspend(() => (waiting++ > 0 ? worked : Effect.succeed("worked")))
          })
        })
      )
      const report = yield* CrashKit.check({
        agent: Agent.make("worker", { toolkit: tools }).pipe(Agent.provide(lazy)),
        input: "Work.",
        layer: model([Scripted.call("work"), Scripted.call("work"), done])
      })
      expect(found(report)).toContain("at_least_once crash before append")
      expect(report.broken.map(({ problem }) => problem)).toContain(
        '"worked" took place never instead of once'
      )
    })
  )
})

describe("an operation", { timeout: patience }, () => {
  const Start = Tool.make("start", { success: Operation.Started })
  const Look = Tool.make("look", {
    parameters: Schema.Struct({ id: Schema.String }),
    success: Operation.Observed
  }).annotate(Tool.Readonly, true)
  const tools = Toolkit.make(Start, Look)

  /** Looks at an operation until it has ended; `lasts` is how long that takes. */
  const looking = (lasts: Duration.Input) => {
    const world = Effect.sync(() => {
      const started = new Map<string, number>()
      return tools.of({
        start: () =>
          Effect.gen(function* () {
            const { idempotencyKey: id } = yield* CurrentCall.CurrentCall
            yield* CrashKit.happenedOnce(id, "started")
            started.set(id, yield* Clock.currentTimeMillis)
            return Operation.started({ id, observe: "look", label: "a job" })
          }),
        look: ({ id }) =>
          Effect.gen(function* () {
            yield* Effect.sleep("25 seconds")
            const since = (yield* Clock.currentTimeMillis) - (started.get(id) ?? 0)
            return since < Duration.toMillis(lasts)
              ? Operation.running({ id })
              : Operation.ended({ id, outcome: "succeeded", detail: "" })
          })
      })
    })
    const lines: Parameters<typeof model>[0] = (turn, { lastToolResult = "", messages }) => {
      if (turn === 0) return Scripted.call("start")
      const [, id = ""] = /as operation ([\w-]+)/.exec(JSON.stringify(messages)) ?? []
      return lastToolResult.includes("succeeded") ? done : Scripted.call("look", { id })
    }
    return CrashKit.check({
      agent: Agent.make("worker", { toolkit: tools, limits: { turns: 9 } }),
      input: "Start it.",
      layer: Layer.merge(tools.toLayer(world), model(lines))
    })
  }

  it.effect("that ends by the clock goes on while its run is stopped, and the kit says how to fake it", () =>
    Effect.gen(function* () {
      const { broken } = yield* looking("1 minute")
      const problems = (promise: string) =>
        broken.flatMap((each) => (each.promise === promise ? [each.problem] : []))
      expect(problems("transcript").length).toBeGreaterThan(0)
      for (const problem of problems("transcript")) expect(problem).toContain("end it before the first look")
      for (const problem of problems("at_least_once"))
        expect(problem).toBe(
          "look was never started (it goes another way since it has seen something else of its operation)"
        )
    })
  )

  it.effect("that has ended when it is looked at is safe", () =>
    Effect.gen(function* () {
      const { broken, undisturbed } = yield* looking(0)
      expect(undisturbed.calls.map(({ tool }) => tool)).toEqual(["start", "look"])
      expect(broken).toEqual([])
    })
  )
})

describe("a tool that says of a lost call", { timeout: patience }, () => {
  it.effect("that it did not happen, when it did, is found out, and so is what is done twice for it", () =>
    Effect.gen(function* () {
      const report = yield* believing(ToolPolicy.didNotHappen, worked)
      expect(found(report)).toContain("reported crash in tool")
      expect(found(report)).toContain("at_most_once crash in tool")
      expect(new Set(report.broken.map(({ problem }) => problem))).toEqual(
        new Set([
          'work is said not to have happened, and "worked" took place',
          '"worked" took place again, 2 times in all, for the model was told that it had not'
        ])
      )
      // Before it has begun that is what is true.
      for (const { seam, broken } of report.visits)
        if (seam.point === "before tool") expect(broken).toEqual([])
    })
  )

  it.effect("that it happened, when it did not, is found out", () =>
    Effect.gen(function* () {
      const late = Effect.delay(worked, "1 second")
      const report = yield* believing(ToolPolicy.happened("it was done already"), late)
      for (const way of ["interruption", "crash"]) {
        for (const point of ["after append", "before tool", "in tool"])
          expect(found(report)).toContain(`reported ${way} ${point}`)
      }
      expect(new Set(report.broken.map(({ problem }) => problem))).toEqual(
        new Set(['work is said to have happened, and "worked" never took place'])
      )
    })
  )

  it.effect("what is true, is safe", () =>
    Effect.gen(function* () {
      const report = yield* CrashKit.check({
        agent: agent(),
        input: "Look it up.",
        layer: Layer.merge(
          handlers,
          model((_turn, { messages }) =>
            JSON.stringify(messages.at(-1)).includes("looked up") ? done : call("look_up")
          )
        )
      })
      expect(report.broken).toEqual([])
      expect(report.visits.some(({ parted }) => parted.length > 0)).toBe(true)
    })
  )
})

describe("a tool that tells of nothing", { timeout: patience }, () => {
  const silent = (tool: typeof Work, more: { readonly silent?: ReadonlyArray<string> } = {}) => {
    const tools = Toolkit.make(tool)
    return CrashKit.check({
      agent: Agent.make("worker", { toolkit: tools }),
      input: "Work.",
      layer: Layer.merge(
        tools.toLayer({ work: () => Effect.succeed("worked") }),
        model([Scripted.call("work"), Scripted.call("work"), done])
      ),
      only: () => false,
      ...more
    })
  }

  it.effect("proves nothing, and is named once", () =>
    Effect.gen(function* () {
      for (const tool of [Work, Work.annotate(Tool.Idempotent, true)]) {
        const { broken } = yield* silent(tool)
        expect(broken).toMatchObject([
          { promise: "observed", problem: expect.stringContaining("work has run and told of nothing") }
        ])
        expect(broken[0]).not.toHaveProperty("fault")
      }
    })
  )

  it.effect("may have nothing to tell, or be known for it", () =>
    Effect.gen(function* () {
      expect((yield* silent(Work.annotate(Tool.Readonly, true))).broken).toEqual([])
      expect((yield* silent(Work, { silent: ["work"] })).broken).toEqual([])
      expect((yield* silent(Work, { silent: ["another"] })).broken).toHaveLength(1)
    })
  )

  it.effect("because it fails before it has done anything is no silent one", () =>
    Effect.gen(function* () {
      const failing = Tool.make("work", { failure: ToolFailure.ToolFailure })
      const tools = Toolkit.make(failing)
      const { broken, undisturbed } = yield* CrashKit.check({
        agent: Agent.make("worker", { toolkit: tools }),
        input: "Work.",
        layer: Layer.merge(
          tools.toLayer({ work: () => Effect.fail(ToolFailure.recoverable("There is nothing to do.")) }),
          model([Scripted.call("work"), done])
        ),
        only: () => false
      })
      expect(undisturbed.calls).toMatchObject([{ tool: "work", times: 1 }])
      expect(broken).toEqual([])
    })
  )
})

/** A store that says that it has written, and writes when it is asked for something else; another driver finds the rest gone. */
const writesLater = Layer.effect(
  RunStore.RunStore,
  Effect.map(RunStore.RunStore, (inner): RunStore.RunStore["Service"] => {
    let waiting: RunStore.Append | undefined
    const flush = Effect.suspend(() => {
      const append = waiting
      waiting = undefined
      return append === undefined ? Effect.void : inner.append(append)
    })
    const flushed = Effect.orDie(flush)
    return {
      ...inner,
      append: (append) =>
        Effect.andThen(
          flush,
          Effect.sync(() => {
            waiting = append
          })
        ),
      read: (runId, from) => Effect.andThen(flushed, inner.read(runId, from)),
      summary: (runId) => Effect.andThen(flushed, inner.summary(runId)),
      lease: (runId) =>
        Effect.tap(inner.lease(runId), () =>
          Effect.addFinalizer(() =>
            Effect.sync(() => {
              if (waiting?.summary.status === "running") waiting = undefined
            })
          )
        )
    }
  })
).pipe(Layer.provide(MemoryRunStore.layer))

describe("a store", { timeout: patience }, () => {
  it.effect("that loses what it has acknowledged is found out, and so is what is done twice for it", () =>
    Effect.gen(function* () {
      const report = yield* CrashKit.check({
        agent: agent(),
        input: "Write.",
        layer: Layer.merge(handlers, model([call("write"), done])),
        store: writesLater
      })
      expect(found(report)).toContain("journal crash after append")
      expect(found(report)).toContain("at_most_once crash in tool")
      expect(report.broken.map(({ problem }) => problem)).toContain("write was started 2 times")
    })
  )

  it.effect("that alters what it has acknowledged is found out", () =>
    Effect.gen(function* () {
      const alters = Layer.effect(
        RunStore.RunStore,
        Effect.map(RunStore.RunStore, (inner): RunStore.RunStore["Service"] => ({
          ...inner,
          read: (runId, from) =>
            Effect.map(inner.read(runId, from), (events) =>
              events.map((event) => (event.type === "turn" ? { ...event, costUsd: 0 } : event))
            )
        }))
      ).pipe(Layer.provide(MemoryRunStore.layer))
      const report = yield* CrashKit.check({
        agent: agent(),
        input: "Read.",
        layer: Layer.merge(handlers, model([call("read"), done])),
        store: alters
      })
      expect(report.visits).toEqual([])
      expect(report.broken[0]).toMatchObject({ promise: "journal" })
      expect(report.broken[0]?.problem).toMatch(/event \d+ \(turn\) was acknowledged, and is another one/)
    })
  )
})

describe("a store, after its driver was stopped,", { timeout: patience }, () => {
  const broken = (about: (inner: RunStore.RunStore["Service"]) => Partial<RunStore.RunStore["Service"]>) =>
    CrashKit.check({
      agent: agent(),
      input: "Read.",
      layer: Layer.merge(handlers, model([call("read"), done])),
      store: Layer.effect(
        RunStore.RunStore,
        Effect.map(RunStore.RunStore, (inner) => ({ ...inner, ...about(inner) }))
      ).pipe(Layer.provide(MemoryRunStore.layer)),
      ways: ["crash"]
    })

  it.effect("that cannot be read any more is found out", () =>
    Effect.gen(function* () {
      const report = yield* broken(({ lease, read }) => {
        let drivers = 0
        return {
          lease: (runId) => Effect.tap(lease(runId), () => Effect.sync(() => drivers++)),
          read: (runId, from) =>
            drivers > 1
              ? Effect.fail(
                  new RunStore.RunStoreError({ runId, kind: "corrupt", problem: "a bit fell over" })
                )
              : read(runId, from)
        }
      })
      expect(found(report)).toContain("ending crash in tool")
      expect(found(report)).toContain("journal crash in tool")
      expect(JSON.stringify(report.broken)).toContain("a bit fell over")
    })
  )

  it.effect("that never gives the run away again is found out", () =>
    Effect.gen(function* () {
      const report = yield* broken(() => {
        let held = false
        return {
          lease: (runId) =>
            Effect.suspend(() => {
              if (held) return Effect.fail(new RunStore.RunBusy({ runId }))
              held = true
              return Effect.succeed({ check: Effect.void, lost: Effect.never })
            })
        }
      })
      expect(found(report)).toContain("ending crash in tool")
      expect(JSON.stringify(report.broken)).toContain("RunBusy")
    })
  )
})

describe("a world", { timeout: patience }, () => {
  const tools = Toolkit.make(Work)
  const worker = Agent.make("worker", { toolkit: tools, limits: { turns: 5 } })
  const working = (log: Array<string>) => ({
    work: () => Effect.as(CrashKit.happened("worked"), `worked ${log.push("work")} times`)
  })

  it.effect("that is kept outside of the layer is named as what may be wrong", () =>
    Effect.gen(function* () {
      const outside = tools.toLayer(working([]))
      const { broken, visits } = yield* CrashKit.check({
        agent: worker,
        input: "Work.",
        layer: Layer.merge(outside, model([Scripted.call("work"), done]))
      })
      expect(visits).toEqual([])
      expect(broken).toMatchObject([
        {
          promise: "repeatable",
          problem: expect.stringMatching(
            /^it does not do the same .*\(is there state outside of `layer`\?\)$/
          )
        }
      ])
      const log: Array<string> = []
      const second = yield* CrashKit.check({
        agent: worker,
        input: "Work.",
        layer: Layer.merge(
          tools.toLayer(working(log)),
          model(() => (log.length > 0 ? done : Scripted.call("work")))
        )
      })
      expect(second.broken.map(({ problem }) => problem)).toContain(
        "work was never started (is there state outside of `layer`?)"
      )
    })
  )

  it.effect("that is made in the layer is as new in each run", () =>
    Effect.gen(function* () {
      const inside = tools.toLayer(Effect.sync(() => tools.of(working([]))))
      const { broken } = yield* CrashKit.check({
        agent: worker,
        input: "Work.",
        layer: Layer.merge(inside, model([Scripted.call("work"), done])),
        only: ({ point }) => point === "before tool"
      })
      expect(broken).toEqual([])
    })
  )
})

describe("a model", { timeout: patience }, () => {
  it.effect("that answers something else each time proves nothing, and is named", () =>
    Effect.gen(function* () {
      let said = 0
      const report = yield* CrashKit.check({
        agent: agent(),
        input: "Say something.",
        layer: Layer.merge(
          handlers,
          model(() => Scripted.text(`this is the ${++said}th`))
        )
      })
      expect(report.visits).toEqual([])
      expect(report.broken).toMatchObject([
        { promise: "repeatable", problem: expect.stringMatching(/not do the same each time: message 1 is/) }
      ])
      expect(report.broken[0]).not.toHaveProperty("fault")
    })
  )

  it.effect("that counts its requests is found out, where a request was lost", () =>
    Effect.gen(function* () {
      const counting = Layer.unwrap(
        Effect.sync(() => {
          let requests = 0
          return model(() => (++requests === 1 ? call("read") : Scripted.text(`${requests} requests`)))
        })
      )
      const report = yield* CrashKit.check({
        agent: agent(),
        input: "Count.",
        layer: Layer.merge(handlers, counting)
      })
      expect(found(report)).toContain("transcript crash in model call")
      expect(found(report)).not.toContain("transcript crash before tool")
    })
  )
})

describe("a run", { timeout: patience }, () => {
  it.effect("that never ends is named, and not waited for", () =>
    Effect.gen(function* () {
      const report = yield* working(Work, () => Effect.never)
      expect(report.undisturbed.ending).toMatchObject({ tag: "never ended" })
      expect(report.broken).toMatchObject([
        { promise: "ending", problem: expect.stringContaining("it has not ended") }
      ])
    })
  )
})
