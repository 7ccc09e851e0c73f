/**
 * Three levels of agents, and whatever goes wrong at any of them: a Stop, a timeout, a decision that is waited for, a
 * budget that is used up, a store or a pool that fails. However the family gets to its end, all its journals agree.
 */
import { expect } from "@effect/vitest"
import * as Arbitrary from "effect/Arbitrary"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { Agent, PriceBook, RunExit, type RunState, RunStore } from "../../src/index.ts"
import * as Words from "../../src/loop/Words.ts"
import * as Scripted from "../../src/provider/Scripted.ts"
import type { RunEvent } from "../../src/run/RunEvent.ts"
import { childId } from "../../src/run/RunState.ts"
import { lateFor, stoppedWith, suspends } from "../../src/run/Waiting.ts"
import * as BudgetPool from "../../src/store/BudgetPool.ts"
import * as MemoryBudgetPool from "../../src/store/MemoryBudgetPool.ts"
import * as Audit from "../../src/testing/Audit.ts"
import { callIdOf, type Plan, plans, taskOf } from "../cases/plans.ts"
import { check, usage, withTime } from "./support.ts"

// --- what goes wrong ------------------------------------------------------------------------------------------------

/** In which round, at which level (0 is the lowest), and after how many events or with how much of something. */
const Fault = Schema.Struct({
  kind: Schema.Literals([
    "cancel",
    "cancel",
    "interrupt",
    "timeout",
    "timeout",
    "deadline",
    "deadline",
    "turns",
    "provider",
    "store",
    "store is down",
    "pool is empty",
    "pool is down"
  ]),
  round: Schema.Literals([0, 0, 1, 2]),
  level: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 2 })),
  at: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 30 }))
})
type Fault = typeof Fault.Type

const faults = Arbitrary.schema(Schema.Array(Fault).check(Schema.isMinLength(1), Schema.isMaxLength(4)))

/** A number from 0 on below `below` that depends on nothing else. */
const pick = (below: number, ...of: ReadonlyArray<number | string>): number => {
  let hash = 2166136261
  for (const char of of.join(" ")) hash = Math.imul(hash ^ char.charCodeAt(0), 16777619) ^ (hash >>> 13)
  return (hash >>> 0) % below
}

// --- agents ---------------------------------------------------------------------------------------------------------

const Prices = PriceBook.layer({ planner: { input: 7, output: 13 } })
const parameters = Schema.Struct({ q: Schema.String })
const Look = Tool.make("look", { parameters, success: Schema.String }).annotate(Tool.Readonly, true)
const Note = Tool.make("note", { parameters, success: Schema.String })
const Pay = Tool.make("pay", { parameters, success: Schema.String, needsApproval: true })
const tools = Toolkit.make(Look, Note, Pay)

type Member = Agent.Agent<string, never, RunStore.RunStore>

const readTask = Schema.decodeUnknownSync(
  Schema.fromJsonString(Schema.Struct({ q: Schema.String, turns: Schema.Unknown }))
)
const isPlan = (turns: unknown): turns is Plan => Array.isArray(turns)

const levelOf = (q: string): number => 2 - q.split("/").filter((place) => place !== "").length

/** A model that does what its plan says, says so as it goes, and takes its time. */
const planning = (seed: number, isDown: (level: number) => boolean) =>
  Scripted.layer(
    Scripted.make("planner", (turn, { messages }) => {
      const { q, turns } = readTask(messages.find(({ role }) => role === "user")?.content)
      if (isDown(q === "" ? 2 : levelOf(`${q}/`) + 1)) return Scripted.fail(500)
      const calls = isPlan(turns) ? turns[turn] : undefined
      const latency = 500 * pick(3, seed, q, turn)
      if (calls === undefined) return { ...Scripted.text(`done: ${q}`), latency }
      const asked = calls.map((call) => {
        const input = call.act === "delegate" ? { task: taskOf(call.turns, call.q) } : { q: call.q }
        return Scripted.call(call.act, input, { id: callIdOf(call.q) })
      })
      const said = pick(2, seed, q, turn, "says") === 0 ? [Scripted.text(`so far ${q} ${turn}`)] : []
      return { ...Scripted.turn(...said, ...asked), latency }
    }),
    { usage }
  )

/** The family as it is in one round. */
const family = (seed: number, now: ReadonlyArray<Fault>): Member => {
  const of = (kind: Fault["kind"], level: number) =>
    now.find((fault) => fault.kind === kind && fault.level === level)
  let asked = 0
  const down = (level: number) => {
    const fault = of("provider", level)
    return fault !== undefined && ++asked % 4 === fault.at % 4
  }
  const handler = (name: string) => (params: { readonly q: string }) =>
    Effect.sleep(500 * pick(16, seed, name, params.q)).pipe(
      Effect.onInterrupt(() => Effect.sleep(500 * pick(10, seed, name, params.q, "ends"))),
      Effect.as(`${name} ${params.q} done`)
    )
  const services = Layer.mergeAll(
    tools.toLayer({ look: handler("look"), note: handler("note"), pay: handler("pay") }),
    planning(seed, down),
    Prices
  )
  const options = (level: number) => {
    const [timeout, deadline, turns] = [of("timeout", level), of("deadline", level), of("turns", level)]
    return {
      limits: {
        turns: turns === undefined ? 50 : 1 + (turns.at % 3),
        time: deadline === undefined ? "1 hour" : 1_000 * deadline.at
      },
      policy: {
        modelRetries: 0,
        ...(timeout === undefined ? undefined : { toolTimeout: 1_000 * (1 + (timeout.at % 8)) })
      }
    } as const
  }
  const broken = new BudgetPool.BudgetPoolError({ pool: "own", kind: "unavailable", problem: "gone" })
  const pool = (level: number) =>
    of("pool is down", level) === undefined
      ? Layer.empty
      : Layer.effect(BudgetPool.BudgetPool, Effect.fail(broken))
  type Below = Agent.Agent<string, BudgetPool.BudgetPoolError, RunStore.RunStore>
  const lowest: Below = Agent.make("planner-0", { toolkit: tools, ...options(0) }).pipe(
    Agent.provide(Layer.merge(services, pool(0)))
  )
  const above = (below: Below, level: number) => {
    const { layer, tool } = Agent.asTool(below, { name: "delegate", description: "Carries out a plan." })
    const one = pick(2, seed, level, "parallel") === 0 ? tool.annotate(Tool.Readonly, true) : tool
    const toolkit = Toolkit.make(Look, Note, Pay, one)
    return Agent.make(`planner-${level}`, { toolkit, ...options(level) }).pipe(
      Agent.provide(Layer.merge(services, layer))
    )
  }
  return above(above(lowest, 1).pipe(Agent.provide(pool(1))), 2)
}

interface Run {
  readonly events: ReadonlyArray<RunEvent>
  readonly state: RunState.RunState
}

const familyOf = Effect.fnUntraced(function* (runId: string) {
  const store = yield* RunStore.RunStore
  const runs = new Map<string, Run>()
  for (const { runId: id } of yield* store.list({ limit: 10_000 })) {
    if (id === runId || id.startsWith(`${runId}/`)) runs.set(id, yield* RunStore.load(id))
  }
  return runs
})

// --- rounds ---------------------------------------------------------------------------------------------------------

/** Drives the family for a round, while what is to go wrong in it does. Says whether the store, or a pool, failed. */
const drive = Effect.fnUntraced(function* (
  runId: string,
  seed: number,
  turns: Plan,
  now: ReadonlyArray<Fault>
) {
  const store = yield* RunStore.RunStore
  const interrupted = yield* Deferred.make<void>()
  let [stored, tries, failed] = [0, 0, false]
  const hits = (kind: Fault["kind"], before: number) =>
    now.filter((fault) => fault.kind === kind && before < fault.at && fault.at <= stored)
  const append: typeof store.append = (one) =>
    Effect.gen(function* () {
      tries++
      const down = now.some(
        ({ at, kind }) => (kind === "store" && at === tries) || (kind === "store is down" && at <= tries)
      )
      if (down) {
        failed = true
        const problem = "no answer"
        return yield* new RunStore.RunStoreError({ runId: one.runId, kind: "unavailable", problem })
      }
      const seq = yield* store.append(one)
      const before = stored
      stored += one.events.length
      if (hits("interrupt", before).length > 0) Deferred.doneUnsafe(interrupted, Effect.void)
      for (const fault of hits("cancel", before)) {
        const all = [...(yield* Effect.orDie(familyOf(runId))).values()]
        const level = all.filter(({ state }) => state.agent === `planner-${fault.level}`)
        const target = level[pick(Math.max(1, level.length), seed, fault.at)]?.state.runId
        const reason = `enough, said ${fault.at}`
        if (target !== undefined) yield* Effect.ignore(store.send(target, { type: "cancel", reason }))
      }
      return seq
    }).pipe(Effect.provideService(RunStore.RunStore, store))
  const top = family(seed, now)
  const empty = now.find(({ kind }) => kind === "pool is empty")
  const room = empty === undefined ? {} : { toolCalls: empty.at % 7, turns: 1 + (empty.at % 5) }
  const isNew = Effect.match(store.summary(runId), { onFailure: () => true, onSuccess: () => false })
  const step = (yield* isNew)
    ? Agent.run(top, taskOf(turns), { runId })
    : Agent.resume(top, runId, { limits: { turns: 50, time: "2 hours" } })
  const driven = step.pipe(
    Effect.provideService(RunStore.RunStore, { ...store, append }),
    Effect.provide(MemoryBudgetPool.layer("team", room))
  )
  const exit = yield* withTime(
    Effect.gen(function* () {
      const fiber = yield* Effect.forkChild(driven, { startImmediately: true })
      const stop = Effect.andThen(Deferred.await(interrupted), Fiber.interrupt(fiber))
      yield* Effect.forkChild(stop, { startImmediately: true })
      return yield* Fiber.await(fiber)
    }),
    "500 millis"
  )
  const error = exit._tag === "Failure" ? exit.cause.reasons.find(({ _tag }) => _tag === "Fail") : undefined
  const outside = error?._tag === "Fail" && !RunExit.isRunExit(error.error)
  if (outside) expect(error.error).toMatchObject({ _tag: "RunStoreError" })
  return failed || outside
})

// What was said and not taken in yet, because the store has failed, is not said again.
const once = <A, R>(
  said: Effect.Effect<A, Agent.CallNotPending | RunStore.RunNotFound | RunStore.RunStoreError, R>
) => Effect.catchTag(said, "CallNotPending", () => Effect.void)

/** Does what the runs of the family wait for. */
const answer = Effect.fnUntraced(function* (runId: string, seed: number, round: number) {
  const { state } = yield* RunStore.load(runId)
  for (const call of RunExit.approvalsOf(state)) {
    const isApproved = pick(4, seed, call.runId, call.callId) > 0
    yield* once(Agent.decide(call, isApproved ? Agent.approve() : Agent.reject("no")))
  }
  for (const call of RunExit.unknownOf(state)) {
    const happened = pick(2, seed, round, call.callId) === 0
    yield* once(Agent.resolve(call, happened ? Agent.happened("it did") : Agent.didNotHappen))
  }
  if (pick(5, seed, round, "between") > 0) return
  const ids = [...(yield* familyOf(runId)).keys()]
  const id = ids[pick(ids.length, seed, round)] ?? runId
  yield* Agent.cancel(id, "enough, said somebody in between")
})

// --- what has to hold -----------------------------------------------------------------------------------------------

const nano = (usd: number): number => Math.round(usd * 1e9)

/** What a run has paid itself: its turns, and at its estimate each model call that never came back. */
const paid = ({ events }: Run): number => {
  let [total, open] = [0, 0]
  for (const event of events) {
    if (event.type === "turn" || event.type === "turn_failed") {
      total += nano(event.costUsd)
      open = 0
    } else if (event.type === "turn_started") open = nano(event.estimate.costUsd)
    else if (event.type === "run_resumed") {
      total += open
      open = 0
    }
  }
  return total + open
}

/** Why a run has ended, as it is to be told to the model of the run above it. */
const whyOf = ({ detail = "", reason }: RunState.RunState): string => {
  if (reason === "cancelled") return Words.childCancelled(detail)
  if (reason === "provider_refused" || reason === "tool_fatal" || reason === "defect")
    return Words.childFailure[reason]
  return detail
}

type Told = Extract<RunEvent, { readonly type: "tool_result" }>

/** What a run was told of one below it: its answer, or why it has none, unless it was late, or was never asked. */
const isTrue = ({ content, disposition, ok }: Told, parentId: string, child?: RunState.RunState): boolean => {
  if (ok) return child?.status === "completed" && child.result === content
  if (child?.status === "running" || child?.status === "completed") return false
  if (disposition !== "executed") return content.startsWith("Not run")
  if (content.startsWith("Error: delegate reached its time limit"))
    return child?.reason !== "cancelled" || child.detail === lateFor(parentId)
  return (
    child !== undefined &&
    child.detail !== stoppedWith(parentId) &&
    child.detail !== lateFor(parentId) &&
    content.startsWith(`${child.agent} ended without an answer: ${whyOf(child)}. `)
  )
}

/** What a run's model was told of the runs below it, and what it waits for, is what their own journals say. */
const expectTrue = (runs: ReadonlyMap<string, Run>, { events, state }: Run): void => {
  const { runId } = state
  for (const event of events) {
    if (event.type !== "tool_result" || event.tool !== "delegate" || event.disposition === "cancelled")
      continue
    const child = runs.get(childId(runId, event.callId))?.state
    const is = `${child?.status}, ${child?.reason}: ${child?.detail}`
    expect(
      isTrue(event, runId, child),
      `${runId} was told of ${event.callId}: ${event.content}. It is ${is}`
    ).toBe(true)
  }
  // What has stopped for another reason waits for nobody: what is below it may be stopped with it, or by itself.
  if (!suspends(state.reason)) return
  for (const { callId, suspension } of state.pending) {
    if (suspension === undefined) continue
    const child = runs.get(childId(runId, callId))?.state
    const about = `${runId} waits for ${callId}`
    if (suspension.reason === "unknown_outcome") expect(suspension.unknown.length, about).toBeGreaterThan(0)
    else expect(child, about).toMatchObject({ reason: suspension.reason, detail: suspension.detail })
  }
}

const expectLawful = Effect.fnUntraced(function* (runId: string) {
  expect((yield* Audit.run(runId, { graceMs: 0 })).findings).toEqual([])
})

const expectAgreed = Effect.fnUntraced(function* (runId: string) {
  const runs = yield* familyOf(runId)
  const top = runs.get(runId)
  if (top === undefined) return
  let sum = 0
  for (const run of runs.values()) {
    sum += paid(run)
    expect(run.state.status, run.state.runId).not.toBe("running")
    expectTrue(runs, run)
  }
  expect(nano(top.state.costUsd), "the cost of the family").toBe(sum)
  yield* expectLawful(runId)
})

// --- the test -------------------------------------------------------------------------------------------------------

const rounds = 30
const seeds = 120

check("whatever goes wrong in a family of three levels, its journals agree", function* () {
  const met = new Set<string>()
  for (let seed = 0; seed < seeds; seed++) {
    const [turns] = yield* Arbitrary.sampleEffect(plans, { count: 1, size: 30, seed })
    const [wrong] = yield* Arbitrary.sampleEffect(faults, { count: 1, size: 30, seed })
    if (turns === undefined || wrong === undefined) throw new Error("there is no such family")
    const runId = `r${seed}`
    const stateOf = Effect.map(familyOf(runId), (runs) => runs.get(runId)?.state)
    const oneRound = Effect.fnUntraced(function* (round: number) {
      const now = wrong.filter((fault) => fault.round === round)
      const isLost = yield* drive(runId, seed, turns, now)
      const state = yield* stateOf
      if (state === undefined) return false
      met.add(state.reason ?? "lost")
      // A store that has failed leaves what it was not told; whoever takes the run up next, or ends it, makes that good.
      yield* isLost && state.status !== "completed" ? expectLawful(runId) : expectAgreed(runId)
      if (state.status === "completed") return true
      expect(state.status, state.detail).not.toBe("failed")
      yield* answer(runId, seed, round)
      if ((yield* stateOf)?.reason === "cancelled") yield* expectAgreed(runId)
      return false
    })
    let isOver = false
    for (let round = 0; !isOver; round++) {
      const about = `seed ${seed}, round ${round}, ${JSON.stringify(wrong)}`
      expect(round, about).toBeLessThan(rounds)
      isOver = yield* oneRound(round).pipe(
        Effect.catchDefect((defect) => Effect.die(new Error(`${about}: ${String(defect)}`)))
      )
    }
    for (const { state } of (yield* familyOf(runId)).values()) {
      if (state.parent !== undefined && state.detail === lateFor(state.parent.runId)) met.add("late")
    }
  }
  const all = [
    "answered",
    "approval",
    "cancelled",
    "late",
    "lost",
    "max_budget",
    "max_turns",
    "provider",
    "unknown_outcome"
  ]
  expect([...met].sort()).toEqual(all)
})
