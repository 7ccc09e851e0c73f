/**
 * Every script of the demo, stopped at every seam in every way that needs no process of its own.
 */
import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { CrashKit } from "../../src/testing/index.ts"
import { demo, demos } from "./demos.ts"

// Hundreds of runs take a while on a machine that has other things to do.
const patience = 60_000

const ways = ["interruption", "defect", "crash"] as const

/** A lost turn or tool call brings their limit earlier. */
const nearTheirLimit = new Set(["runaway", "investigate"])

/** The results of tools that run at the same time come in any order. */
const inOrder = (messages: CrashKit.Account["messages"]) =>
  messages.map((message) => JSON.stringify(message)).toSorted()

describe("a demo run that is stopped anywhere loses nothing and does nothing twice", {
  timeout: patience
}, () => {
  for (const { name, subject } of demos) {
    it.effect(name, () =>
      Effect.gen(function* () {
        const { broken, seams, undisturbed, visits } = yield* CrashKit.check({ ...subject, ways })
        expect(broken).toEqual([])
        expect(visits).toHaveLength(ways.length * seams.length)
        for (const visit of visits) {
          for (const { effect, times } of visit.calls) if (effect === "write") expect(times).toBeLessThan(2)
          if (visit.parted.length > 0) continue
          expect(inOrder(visit.messages)).toEqual(inOrder(undisturbed.messages))
          expect(visit.turns - visit.lostTurns).toBe(undisturbed.turns)
          expect(visit.ending).toMatchObject({
            tag: undisturbed.ending.tag,
            reason: undisturbed.ending.reason
          })
          if (visit.lostTurns === 0) expect(visit.costUsd).toBe(undisturbed.costUsd)
        }
        // Where no call is lost and no limit is near, nothing is free to go another way.
        const free = visits.filter(({ parted }) => parted.length > 0)
        if (!seams.some(({ what }) => what === "delete_file") && !nearTheirLimit.has(name))
          expect(new Set(free.map(({ way }) => way))).toEqual(new Set(["defect"]))
      })
    )
  }
})

describe("seams", { timeout: patience }, () => {
  it.effect("are where a run meets the world, in its order", () =>
    Effect.gen(function* () {
      const report = yield* CrashKit.check({
        ...demo("repeat-baseline").subject,
        only: () => false
      })
      expect(report.seams.map(({ nth, point, what }) => `${point} ${nth}: ${what}`)).toEqual([
        "before append 1: run_started, turn_started",
        "after append 1: run_started, turn_started",
        "in model call 1: ",
        "before append 2: turn, tool_start",
        "after append 2: turn, tool_start",
        "before tool 1: read_file",
        "in tool 1: read_file",
        "after tool 1: read_file",
        "before append 3: tool_result",
        "after append 3: tool_result",
        "before append 4: turn_started",
        "after append 4: turn_started",
        "in model call 2: ",
        "before append 5: turn, run_stopped",
        "after append 5: turn, run_stopped"
      ])
      expect(report).toMatchObject({ visits: [], broken: [] })
    })
  )

  it.effect("are visited in the ways that are asked for", () =>
    Effect.gen(function* () {
      const { visits } = yield* CrashKit.check({
        ...demo("plan").subject,
        only: ({ point }) => point === "in tool",
        ways: ["crash"]
      })
      expect(visits.map(({ seam, way }) => `${way} ${seam.point} ${seam.what}`)).toEqual([
        "crash in tool list_files",
        "crash in tool read_file"
      ])
    })
  )
})
