import { describe, expect, it } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { Operation } from "../../src/tool/index.ts"

describe("reports of an operation", () => {
  it("are plain data that is its own encoded form, so that it survives a process", () => {
    const reports = [
      Operation.started({ id: "t1", observe: "observe_test" }),
      Operation.started({ id: "t1", observe: "observe_test", label: "the export test" }),
      Operation.running({ id: "t1" }),
      Operation.running({ id: "t1", label: "4 of 9" }),
      Operation.ended({ id: "t1", outcome: "failed", detail: "1 of 9" })
    ]
    for (const report of reports) {
      const encoded = Schema.encodeSync(Operation.Report)(report)
      expect(JSON.parse(JSON.stringify(encoded))).toEqual({ ...report })
      expect(Schema.decodeUnknownSync(Operation.Report)(JSON.parse(JSON.stringify(encoded)))).toEqual(report)
    }
  })

  it.prop("round-trip, whatever they say", { report: Operation.Report }, ({ report }) => {
    const json: unknown = JSON.parse(JSON.stringify(Schema.encodeSync(Operation.Report)(report)))
    expect(Schema.decodeUnknownSync(Operation.Report)(json)).toEqual(report)
  })

  it("need an id and a name to look at them with", () => {
    expect(() => Operation.started({ id: "", observe: "observe_test" })).toThrow()
    expect(() => Operation.started({ id: "t1", observe: "" })).toThrow()
    expect(() => Operation.running({ id: "" })).toThrow()
  })

  it("keep apart: what was started is nothing that a look has shown", () => {
    const isObserved = Schema.is(Operation.Observed)
    expect(isObserved(Operation.started({ id: "t1", observe: "observe_test" }))).toBe(false)
    expect(isObserved(Operation.running({ id: "t1" }))).toBe(true)
    expect(isObserved({ id: "t1", outcome: "failed", detail: "no tag" })).toBe(false)
  })
})

describe("Control", () => {
  it("is nothing unless a tool is annotated with it", () => {
    expect(Context.get(Tool.make("a").annotations, Operation.Control)).toEqual({})
    const control: Operation.Control = { cancel: () => Effect.void }
    const tool = Tool.make("a").annotate(Operation.Control, control)
    expect(Context.get(tool.annotations, Operation.Control)).toBe(control)
  })
})
