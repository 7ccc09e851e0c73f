/**
 * The investigator's world in memory: the sources of `ExportTree`, the tests that were started on them, and the notes that
 * were saved. A test takes its time on the Clock; what comes of it is worked out by `ExportTest`.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Digest from "../loop/Digest.ts"
import type { RunEvent } from "../run/RunEvent.ts"
import { CurrentCall } from "../tool/CurrentCall.ts"
import * as Operation from "../tool/Operation.ts"
import * as ExportTest from "./ExportTest.ts"
import * as ExportTree from "./ExportTree.ts"
import * as Tools from "./InvestigationTools.ts"

/** When each test was started, by its id, in milliseconds since 1970; and the notes that were saved. */
export interface World {
  readonly started: Map<string, number>
  readonly notes: Set<string>
}

/** A new world: nothing was started, and nothing saved. */
export const make = (): World => ({ started: new Map(), notes: new Set() })

/**
 * The world in which a stored run goes on: a test that it has started before goes on as well, as it would on another
 * machine.
 */
export const restore = (events: ReadonlyArray<RunEvent>): World => {
  const world = make()
  for (const event of events) {
    if (event.type === "operation_started") world.started.set(event.operationId, Date.parse(event.at))
  }
  return world
}

const takesMs = 300

/** The files as a whole, for whoever wants to know which state of them was looked at. */
const revision = Digest.ofArgs(Object.fromEntries(ExportTree.files))

const readSource = Effect.fnUntraced(function* ({ path }: { readonly path: string }) {
  const text = ExportTree.files.get(path)
  if (text === undefined) return yield* Tools.noSuchFile(path, ExportTree.files.keys())
  const { evidence } = yield* CurrentCall
  yield* evidence({ kind: "source", name: "orders-export", digest: revision })
  yield* evidence({ kind: "file", name: path, digest: Digest.ofText(text) })
  return text
})

const startTest = (world: World) =>
  Effect.fnUntraced(function* ({ path }: { readonly path: string }) {
    if (path !== ExportTree.test) return yield* Tools.noSuchFile(path, [ExportTree.test])
    const id = `test-${world.started.size + 1}`
    world.started.set(id, yield* Clock.currentTimeMillis)
    return Operation.started({ id, observe: Tools.ObserveTest.name, label: `npm test -- ${path}` })
  })

const observeTest = (world: World) =>
  Effect.fnUntraced(function* ({ id }: { readonly id: string }) {
    const startedMs = world.started.get(id)
    if (startedMs === undefined) return yield* Tools.noSuchTest(id)
    yield* Effect.sleep(Math.max(0, startedMs + takesMs - (yield* Clock.currentTimeMillis)))
    const result = ExportTest.run(ExportTree.files, ExportTree.test)
    const detail = ExportTest.inWords(result)
    const { evidence } = yield* CurrentCall
    yield* evidence({ kind: "command", name: `npm test -- ${ExportTree.test}`, outcome: detail })
    return Operation.ended({ id, outcome: result.failed.length === 0 ? "succeeded" : "failed", detail })
  })

const saveHandoff = (world: World) =>
  Effect.fnUntraced(function* ({ text }: { readonly text: string }) {
    world.notes.add(text)
    const { evidence } = yield* CurrentCall
    yield* evidence({ kind: "observation", name: "note saved", outcome: text })
    return "Saved."
  })

/** The tools' handlers in a world. */
export const layer = (world: World) =>
  Tools.toolkit.toLayer({
    read_source: readSource,
    start_test: startTest(world),
    observe_test: observeTest(world),
    save_handoff: saveHandoff(world)
  })
