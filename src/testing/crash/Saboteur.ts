/**
 * Stands between a run and what it reaches, notes each seam that the run comes to, and stops it at one of them.
 */
import type * as Tool from "effect/ai/Tool"
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import { CancelReason } from "../../loop/Cancel.ts"
import { effectOf } from "../../loop/Plan.ts"
import type { Probe } from "../../loop/Probe.ts"
import { contentOf } from "../../loop/ToolOutcome.ts"
import type { Ran } from "../../loop/ToolRunner.ts"
import { type RunStore, RunStoreError } from "../../store/RunStore.ts"
import { CurrentCall } from "../../tool/CurrentCall.ts"
import { ToolFailure } from "../../tool/ToolFailure.ts"
import * as Seam from "./Seam.ts"
import type * as Witness from "./Witness.ts"

/** Where a run was stopped, and of which call if it was at a tool. */
export interface Strike {
  readonly fault: Seam.Fault
  readonly runId: string
  readonly callId: string | undefined
}

/** One driver of the run: what it gets in the place of its store and its tools. */
export interface Driver {
  readonly store: RunStore["Service"]
  readonly probe: Probe
  /** Says which fiber drives, before it starts. */
  readonly drivenBy: (fiber: Fiber.Fiber<unknown, unknown>) => void
}

/** What watches one run through all of its drivers, and stops one of them, or two. */
export interface Saboteur {
  readonly driver: (store: RunStore["Service"]) => Driver
  /** The seams that were come to so far, in order. */
  readonly seams: () => ReadonlyArray<Seam.Seam>
  /** Where it was stopped, in order. */
  readonly strikes: () => ReadonlyArray<Strike>
}

const powerCut = (runId: string) =>
  new RunStoreError({ runId, kind: "unavailable", problem: "the process that drove it is dead" })

const vouchesForNothing = (cause: Cause.Cause<unknown>): boolean =>
  cause.reasons.some(
    (reason) =>
      Cause.isFailReason(reason) && reason.error instanceof ToolFailure && reason.error.notExecuted === true
  )

/** How a handler was left; `undefined` if it was interrupted, which is not its own doing. */
const leftAs = (exit: Exit.Exit<Ran, unknown>): Pick<Witness.Of<"Left">, "as" | "content"> | undefined => {
  if (Exit.isSuccess(exit)) {
    const ran = exit.value
    if (ran._tag === "WrongArguments") return { as: "nothing" }
    const content = ran._tag === "Output" ? contentOf(ran.output) : undefined
    return content === undefined ? { as: "failure" } : { as: "result", content }
  }
  if (Cause.hasInterruptsOnly(exit.cause)) return undefined
  return { as: vouchesForNothing(exit.cause) ? "nothing" : "failure" }
}

/** Makes a saboteur that stops the run at a seam, or without one only watches. */
export const make = (witness: Witness.Witness, fault?: Seam.Fault): Saboteur => {
  const seams: Array<Seam.Seam> = []
  const counts = new Map<Seam.Point, number>()
  const strikes: Array<Strike> = []

  const driver = (inner: RunStore["Service"]): Driver => {
    const takesOver = strikes.length > 0
    let fiber: Fiber.Fiber<unknown, unknown> | undefined
    let dead = false
    let visits = 0

    const isHere = ({ relapse, seam }: Seam.Fault, { nth, point }: Seam.Seam): boolean =>
      strikes.length === 0
        ? seam.point === point && seam.nth === nth
        : takesOver && strikes.length === 1 && visits === relapse

    const stop = (way: Seam.Way, seam: Seam.Seam, isAppend: boolean): Effect.Effect<void> => {
      if (way === "defect") return Effect.die(new Error(`the crash kit broke the run ${Seam.name(seam)}`))
      if (way === "kill") {
        process.kill(process.pid, "SIGKILL")
        return Effect.never
      }
      if (way === "crash") dead = true
      const reason = Context.make(CancelReason, `the crash kit stopped the run ${Seam.name(seam)}`)
      fiber?.interruptUnsafe(undefined, reason)
      // Appending is uninterruptible, so it goes on; anything else is interrupted here.
      return isAppend ? Effect.void : Effect.never
    }

    const visit = (point: Seam.Point, what: string, runId: string, callId?: string): Effect.Effect<void> =>
      Effect.suspend(() => {
        const isAppend = point === "before append" || point === "after append"
        if (dead) return isAppend ? Effect.void : Effect.never
        const nth = (counts.get(point) ?? 0) + 1
        counts.set(point, nth)
        const seam: Seam.Seam = { point, nth, what }
        seams.push(seam)
        visits++
        if (fault === undefined || !isHere(fault, seam)) return Effect.void
        strikes.push({ fault, runId, callId })
        return stop(fault.way, seam, isAppend)
      })

    const append: RunStore["Service"]["append"] = (request) =>
      Effect.gen(function* () {
        const { events, runId } = request
        const what = events.map(({ type }) => type).join(", ")
        yield* visit("before append", what, runId)
        if (dead) return yield* powerCut(runId)
        yield* inner.append(request)
        for (const event of events) witness.write({ _tag: "Stored", event })
        yield* visit("after append", what, runId)
      })

    const run = (tool: Tool.Any, callId: string, execution: Effect.Effect<Ran, unknown>) =>
      Effect.gen(function* () {
        const { idempotencyKey: key, runId } = yield* CurrentCall
        yield* visit("before tool", tool.name, runId, callId)
        witness.write({ _tag: "Entered", runId, callId, tool: tool.name, effect: effectOf(tool), key })
        const handler = Effect.onExit(execution, (exit) =>
          Effect.sync(() => {
            const left = leftAs(exit)
            if (left !== undefined) witness.write({ _tag: "Left", runId, callId, ...left })
          })
        )
        const ran = yield* Effect.acquireUseRelease(
          Effect.forkChild(handler, { startImmediately: true }),
          (running) => Effect.andThen(visit("in tool", tool.name, runId, callId), Fiber.join(running)),
          Fiber.interrupt
        )
        yield* visit("after tool", tool.name, runId, callId)
        return ran
      })

    return {
      store: {
        ...inner,
        append,
        send: (runId, command) => (dead ? Effect.fail(powerCut(runId)) : inner.send(runId, command))
      },
      probe: {
        model: (runId, request) =>
          Effect.acquireUseRelease(
            Effect.forkChild(request, { startImmediately: true }),
            (running) => Effect.andThen(visit("in model call", "", runId), Fiber.join(running)),
            Fiber.interrupt
          ),
        tools: ({ run: execute, tools }) => ({
          tools,
          run: (tool, args, callId, preliminary) =>
            run(tool, callId, execute(tool, args, callId, preliminary))
        })
      },
      drivenBy: (root) => {
        fiber = root
      }
    }
  }

  return {
    driver,
    seams: () => seams.slice(),
    strikes: () => strikes.slice()
  }
}
