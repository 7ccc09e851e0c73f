/**
 * Which room may import which, held against the import lines of the sources: the core is pure, arrows point one way, and
 * the loop reaches the world only through services.
 */
import { readdirSync, readFileSync } from "node:fs"
import { dirname, join, normalize } from "node:path"
import { describe, expect, it } from "vitest"

const src = new URL("../src/", import.meta.url).pathname

type Import = {
  readonly file: string
  readonly room: string
  readonly target: string
  /** Gone when the program runs. */
  readonly isType: boolean
}

/** Statements and `import(…)` alike; an example in a docstring is no import of its module. */
const importsOf = (text: string): ReadonlyArray<Pick<Import, "target" | "isType">> => {
  const code = text.replace(/\/\*[\s\S]*?\*\//g, "")
  const found = code.matchAll(
    /(?:\b(?:import|export)\s+(type\b)?[^;"'()]*?\bfrom\s+|\bimport\s+|\bimport\(\s*)"([^"]+)"/g
  )
  return [...found].flatMap(([, type, target]) =>
    target === undefined ? [] : [{ target, isType: type !== undefined }]
  )
}

const files = readdirSync(src, { recursive: true, encoding: "utf8" }).filter((file) => file.endsWith(".ts"))

const imports: ReadonlyArray<Import> = files.flatMap((file) => {
  const [room = ""] = file.includes("/") ? file.split("/") : ["top"]
  return importsOf(readFileSync(join(src, file), "utf8")).map(({ target, isType }) => ({
    file,
    room,
    isType,
    target: target.startsWith(".") ? normalize(join(dirname(file), target)) : target
  }))
})

const rooms = ["run", "tool", "provider", "store", "observe", "loop", "testing", "demo", "cli"] as const
type Room = (typeof rooms)[number]

const roomOf = (target: string): string | undefined => {
  if (!target.endsWith(".ts")) return undefined
  return target.includes("/") ? target.split("/")[0] : "top"
}

/** The rooms that each room may import, beside itself. `top` is `Agent.ts`, `RunHost.ts` and the index. */
const allowed: Record<Room | "top", ReadonlyArray<string>> = {
  run: [],
  tool: ["run"],
  provider: ["run"],
  store: ["run"],
  observe: ["run"],
  loop: ["run", "tool", "provider", "store", "observe"],
  top: ["run", "tool", "provider", "store", "observe", "loop"],
  testing: ["run", "tool", "provider", "store", "loop", "top"],
  demo: ["run", "tool", "provider", "store", "observe", "loop", "top"],
  cli: ["run", "tool", "provider", "store", "observe", "loop", "top", "testing", "demo"]
}

/** What the loop may know of the rooms of services: the services, and what they are written with. */
const seams = [
  "observe/Metrics.ts",
  "observe/RunSpans.ts",
  "observe/RunTrace.ts",
  "observe/Spans.ts",
  "provider/PriceBook.ts",
  "provider/RequestParams.ts",
  "provider/ResultText.ts",
  "provider/Tokens.ts",
  "store/BudgetPool.ts",
  "store/Names.ts",
  "store/RunStore.ts",
  "store/TimeLimit.ts"
]

describe("the rooms of the sources", () => {
  it("are those that are named here", () => {
    const found = new Set(files.filter((file) => file.includes("/")).map((file) => file.split("/")[0]))
    expect([...found].sort()).toEqual([...rooms].sort())
    expect(imports.length).toBeGreaterThan(files.length)
  })

  it.each(Object.entries(allowed))("%s imports no room but those below it", (room, below) => {
    const astray = imports.filter((each) => {
      const target = roomOf(each.target)
      return each.room === room && target !== undefined && target !== room && !below.includes(target)
    })
    expect(astray).toEqual([])
  })

  it("the loop reaches provider, store and observe only through their services", () => {
    const reached = imports.filter(
      ({ room, target }) => room === "loop" && /^(provider|store|observe)\//.test(target)
    )
    expect(new Set(reached.map(({ target }) => target))).toEqual(new Set(seams))
  })

  it("the core is pure: of effect it imports data modules alone, and nothing of Node", () => {
    const data = ["Duration", "Option", "Result", "Schema", "SchemaTransformation", "Struct"]
    const outside = imports.filter(({ room, target }) => room === "run" && !target.endsWith(".ts"))
    const astray = outside.filter(({ target }) => !data.includes(target.replace("effect/", "")))
    expect(astray).toEqual([])
  })

  it("neither the core nor the stores know effect/ai: what is stored outlives a change in it", () => {
    const astray = imports.filter(
      ({ room, target }) => (room === "run" || room === "store") && target.startsWith("effect/ai")
    )
    expect(astray).toEqual([])
  })

  it("Node's own modules stay where a process or a file is touched", () => {
    const astray = imports.filter(
      ({ room, target }) => target.startsWith("node:") && ["run", "tool", "top"].includes(room)
    )
    expect(astray).toEqual([])
  })

  it("no module needs itself by way of others", () => {
    const needs = new Map(files.map((file) => [file, new Set<string>()]))
    for (const { file, target, isType } of imports)
      if (!isType && needs.has(target)) needs.get(file)?.add(target)
    // What needs nothing that is left is taken away, until only circles are left.
    for (let before = -1; before !== needs.size; ) {
      before = needs.size
      for (const [file, targets] of needs) {
        if (![...targets].some((target) => needs.has(target))) needs.delete(file)
      }
    }
    expect([...needs.keys()]).toEqual([])
  })
})
