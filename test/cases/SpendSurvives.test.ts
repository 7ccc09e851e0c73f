/**
 * The fault: a run is aborted, or fails, and with it goes the account of what it had been charged for, because that is
 * kept by whoever waited for the answer.
 */
import { expect } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { Agent, type Limits, PriceBook, type RunEvent, RunStore } from "../../src/index.ts"
import * as Scripted from "../../src/provider/Scripted.ts"
import { expectLawful, onEveryStore, summary } from "./support.ts"

/** Ten cents for each reply, and for one that is lost as much: it is expected to be as large as the one before it. */
const usage = { promptTokens: 10, completionTokens: 5 }
const cents = 10
const Prices = PriceBook.layer({ script: { input: 0, output: 20_000 } })

const parameters = Schema.Struct({ q: Schema.String })
const Look = Tool.make("look", { parameters, success: Schema.String }).annotate(Tool.Readonly, true)
const Pay = Tool.make("pay", { parameters, success: Schema.String, needsApproval: true })
const Hang = Tool.make("hang", { parameters, success: Schema.String })
const Fail = Tool.make("fail", { parameters, success: Schema.String })
const tools = Toolkit.make(Look, Pay, Hang, Fail)

type Runnable = Agent.Agent<string, never, RunStore.RunStore>

interface World {
  readonly runId: string
  readonly agent: Runnable
  /** Done when a tool or a reply hangs. */
  readonly hanging: Deferred.Deferred<void>
  /** What was paid for replies, in cents: for those that came, and for those that were asked for and lost. */
  readonly paid: () => number
  /** From now on nothing is written, until the model is mended. */
  readonly die: () => void
  /** From now on the model answers. */
  readonly mend: () => void
  readonly store: RunStore.RunStore["Service"]
}

interface Ending {
  readonly name: string
  /** Absent for a run of which nobody has written that it stopped. */
  readonly reason?: RunEvent.Reason
  /** What the model does after it has looked once. */
  readonly reply: Scripted.Reply
  readonly limits?: Limits.LimitsInput
  readonly policy?: Agent.PolicyInput
  /** Looked at once two turns are over. */
  readonly stopWhen?: () => string
  /** How the run is ended; by default it is waited for. */
  readonly end?: (world: World, run: Ends) => Ends
  /** What the journal cannot know yet, in cents: what was lost with its driver. */
  readonly unheard?: number
}
type Ends = Effect.Effect<unknown, unknown, RunStore.RunStore>

const look = Scripted.call("look", { q: "x" })
const hang = Scripted.call("hang", { q: "x" })
const never = Scripted.text("too late", { latency: "1 hour" })

const whenHanging =
  (stop: (fiber: Fiber.Fiber<unknown, unknown>, world: World) => Ends): NonNullable<Ending["end"]> =>
  (world, run) =>
    Effect.gen(function* () {
      const fiber = yield* Effect.forkChild(run)
      yield* Deferred.await(world.hanging)
      yield* stop(fiber, world)
      yield* Fiber.await(fiber)
    })

const endings: ReadonlyArray<Ending> = [
  { name: "answered", reason: "answered", reply: Scripted.text("done") },
  { name: "out of turns", reason: "max_turns", reply: look, limits: { turns: 2 } },
  { name: "out of money", reason: "max_budget", reply: look, limits: { usd: 0.2 } },
  { name: "out of tokens", reason: "max_budget", reply: look, limits: { tokens: 30 } },
  { name: "out of calls", reason: "max_budget", reply: look, limits: { toolCalls: 1 } },
  { name: "stalled", reason: "stalled", reply: look, policy: { repetition: { nameAt: 2, stopAt: 3 } } },
  { name: "waits for a decision", reason: "approval", reply: Scripted.call("pay", { q: "x" }) },
  { name: "a stop condition", reason: "stop_condition", reply: look, stopWhen: () => "enough" },
  { name: "the provider is down", reason: "provider", reply: Scripted.fail(500) },
  { name: "the connection is lost", reason: "provider", reply: Scripted.disconnect() },
  { name: "the provider refuses", reason: "provider_refused", reply: Scripted.fail(400) },
  {
    name: "a tool fails for good",
    reason: "tool_fatal",
    reply: Scripted.call("fail", { q: "x" }),
    policy: { toolErrors: "fatal" }
  },
  {
    name: "a condition breaks down",
    reason: "defect",
    reply: look,
    stopWhen: () => {
      throw new Error("broken")
    }
  },
  {
    name: "interrupted in a model call",
    reason: "cancelled",
    reply: never,
    end: whenHanging((fiber) => Fiber.interrupt(fiber))
  },
  {
    name: "interrupted in a tool",
    reason: "cancelled",
    reply: hang,
    end: whenHanging((fiber) => Fiber.interrupt(fiber))
  },
  {
    name: "cancelled from outside",
    reason: "cancelled",
    reply: hang,
    end: whenHanging((_, { runId }) => Agent.cancel(runId, "enough"))
  },
  {
    name: "cancelled in a model call",
    reason: "cancelled",
    reply: never,
    end: whenHanging((_, { runId }) => Agent.cancel(runId, "enough"))
  },
  {
    name: "its driver dies in a model call",
    reply: never,
    end: whenHanging((fiber, { die }) => Effect.andThen(Effect.sync(die), Fiber.interrupt(fiber))),
    unheard: cents
  },
  {
    name: "whoever streams it leaves",
    reason: "cancelled",
    reply: hang,
    end: ({ agent, hanging, runId }) =>
      Agent.stream(agent, "go", { runId }).pipe(
        Stream.interruptWhen(Deferred.await(hanging)),
        Stream.runDrain,
        Effect.exit
      )
  }
]

const world = Effect.fnUntraced(function* (ending: Ending, runId: string, under: boolean) {
  const store = yield* RunStore.RunStore
  const hanging = yield* Deferred.make<void>()
  let [paid, mended, dead] = [0, false, false]

  const counted = (name: string, reply: (turn: number) => Scripted.Reply) =>
    Scripted.layer(
      Scripted.make(name, (turn) => {
        const said = reply(turn)
        if (said._tag === "Answer") paid += cents
        if (said === never) Deferred.doneUnsafe(hanging, Effect.void)
        return said
      }),
      { usage, model: "script" }
    )
  const handlers = tools.toLayer({
    look: ({ q }) => Effect.succeed(q),
    pay: ({ q }) => Effect.succeed(q),
    hang: () => Effect.andThen(Deferred.succeed(hanging, undefined), Effect.never),
    fail: () => Effect.die(new Error("broken"))
  })
  const alone: Runnable = Agent.make("spender", {
    toolkit: tools,
    limits: { time: "1 hour", ...ending.limits },
    policy: { modelRetries: 0, ...ending.policy },
    stopWhen: ({ turns }) => (turns < 2 || mended ? undefined : ending.stopWhen?.())
  }).pipe(
    Agent.provide(
      Layer.mergeAll(
        handlers,
        counted("spender", (turn) => (turn === 0 ? look : mended ? Scripted.text("done") : ending.reply)),
        Prices
      )
    )
  )
  const { layer, tool } = Agent.asTool(alone, { name: "ask", description: "Asks." })
  const lead: Runnable = Agent.make("lead", { toolkit: Toolkit.make(tool), limits: { time: "1 hour" } }).pipe(
    Agent.provide(
      Layer.mergeAll(
        layer,
        counted("lead", (turn) =>
          turn === 0 ? Scripted.call("ask", { task: "go" }, { id: "a" }) : Scripted.text("done")
        ),
        Prices
      )
    )
  )
  const died = new RunStore.RunStoreError({ runId: "", kind: "unavailable", problem: "the driver has died" })
  const made: World = {
    runId,
    agent: under ? lead : alone,
    hanging,
    paid: () => paid,
    die: () => {
      dead = true
    },
    mend: () => {
      dead = false
      mended = true
    },
    store: {
      ...store,
      append: (append) => Effect.suspend(() => (dead ? Effect.fail(died) : store.append(append)))
    }
  }
  return made
})

/** What a run has cost as the store says, in cents. */
const stored = (runId: string) => Effect.map(summary(runId), ({ costUsd }) => Math.round(costUsd * 1e5) / 1e3)

/** Whatever has to be said before a run goes on. */
const answer = Effect.fnUntraced(function* (runId: string) {
  const { approvals, unknown } = yield* summary(runId)
  for (const call of approvals) yield* Agent.decide(call, Agent.reject())
  for (const call of unknown) yield* Agent.resolve(call, Agent.didNotHappen)
})

const more: Limits.LimitsInput = { turns: 50, usd: 10, tokens: 10_000, toolCalls: 50 }

onEveryStore((check) => {
  for (const under of [false, true]) {
    check(
      `however a run ${under ? "below another one " : ""}ends, what was paid is known, and stays counted when it goes on`,
      function* () {
        for (const [i, ending] of endings.entries()) {
          const runId = `r${i}`
          const made = yield* world(ending, runId, under)
          const { agent } = made
          const run = Agent.run(agent, "go", { runId }).pipe(
            Effect.provideService(RunStore.RunStore, made.store),
            Effect.provide(Logger.layer([]))
          )
          yield* ending.end === undefined ? Effect.exit(run) : ending.end(made, Effect.exit(run))
          if (!under) expect((yield* summary(runId)).reason, ending.name).toBe(ending.reason)
          expect(made.paid(), ending.name).toBeGreaterThan(0)
          let known = yield* stored(runId)
          // A driver that has died has not told the run above; the run below it is in the store all the same.
          if (ending.unheard !== undefined && under) known += yield* stored(`${runId}/a`)
          expect(known, ending.name).toBe(made.paid() - (ending.unheard ?? 0))
          yield* expectLawful(runId)

          made.mend()
          // A run below says what it waits for once the one above has been taken up.
          for (let i = 0; i < 2; i++) {
            yield* answer(runId)
            yield* Effect.exit(Agent.resume(agent, runId, { limits: more, force: true }))
          }
          expect((yield* summary(runId)).status, ending.name).toBe("completed")
          expect(yield* stored(runId), ending.name).toBe(made.paid())
          yield* expectLawful(runId)
        }
      }
    )
  }
})
