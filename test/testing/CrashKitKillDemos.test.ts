/**
 * Every script of the demo in processes that are really killed, at some seams of its own: between them all kinds of seams
 * that the demo has. `npm run soak:kills` kills them at every seam.
 */
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { CrashKit } from "../../src/testing/index.ts"
import { type Demo, demos } from "./demos.ts"

// A process takes a second to start, and much longer on a machine that has other things to do.
const patience = 120_000

/** The tools that only read are of one kind. */
const kindOf = ({ point, what }: CrashKit.Seam) =>
  `${point} ${/^(list|read|scan|observe)_/.test(what) ? "read" : what}`

/** Each kind of seam for one script that has it, the rare ones first, and each time for the one that has the fewest. */
const shared = Effect.gen(function* () {
  const seams = new Map<Demo, ReadonlyArray<CrashKit.Seam>>()
  for (const demo of demos) {
    seams.set(demo, (yield* CrashKit.check({ ...demo.subject, only: () => false })).seams)
  }
  const owners = new Map<string, Set<Demo>>()
  for (const [demo, own] of seams) {
    for (const seam of own) owners.set(kindOf(seam), (owners.get(kindOf(seam)) ?? new Set()).add(demo))
  }
  const chosen = new Map(demos.map((demo): [Demo, Array<CrashKit.Seam>] => [demo, []]))
  const kinds = [...owners].sort(([, a], [, b]) => a.size - b.size)
  for (const [kind, having] of kinds) {
    const [fewest] = [...having].sort((a, b) => (chosen.get(a)?.length ?? 0) - (chosen.get(b)?.length ?? 0))
    // The last one: by then there is most to lose.
    const seam = fewest && seams.get(fewest)?.findLast((one) => kindOf(one) === kind)
    if (fewest !== undefined && seam !== undefined) chosen.get(fewest)?.push(seam)
  }
  return chosen
}).pipe(Effect.cached, Effect.runSync)

// Most of the life of such a process is its start: code that one has compiled serves the others.
const compiled = mkdtempSync(join(tmpdir(), "killed-demos-"))
process.env.NODE_COMPILE_CACHE = compiled
afterAll(() => rmSync(compiled, { recursive: true, force: true }))

describe.concurrent("a script of the demo that is killed goes on as if nothing had happened", () => {
  for (const demo of demos) {
    it.live(
      demo.name,
      () =>
        Effect.gen(function* () {
          const here = (yield* shared).get(demo) ?? []
          expect(here.length).toBeGreaterThan(1)
          const module = new URL(`./subjects/demo/${demo.name}.ts`, import.meta.url)
          const { broken, undisturbed, visits } = yield* CrashKit.checkKilled(module, {
            only: ({ nth, point }) => here.some((seam) => seam.nth === nth && seam.point === point)
          })
          expect(broken).toEqual([])
          expect(visits).toHaveLength(here.length)
          for (const visit of visits) {
            expect(visit.stops[0]).toBe("killed")
            if (visit.parted.length > 0) continue
            expect(visit.turns - visit.lostTurns).toBe(undisturbed.turns)
            if (visit.lostTurns === 0) expect(visit.costUsd).toBe(undisturbed.costUsd)
          }
        }),
      patience
    )
  }
})
