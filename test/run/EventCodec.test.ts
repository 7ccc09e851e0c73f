import { describe, expect, it } from "@effect/vitest"
import * as Arbitrary from "effect/Arbitrary"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { decode, encode } from "../../src/run/EventCodec.ts"
import { RunEvent, version } from "../../src/run/RunEvent.ts"
import { call, journals, many, start, started, tools, turn, written } from "./events.ts"

const read = call(tools.read, "c1")
const events = written([started({ turns: 3 }), ...turn(1, [read]), start(read)], "n1")
const event = events[2]!
const json = JSON.parse(encode(event)) as Record<string, unknown>

const failure = (runId: string, seq: number, text: string) => {
  const result = decode(runId, seq, text)
  return result._tag === "Failure" ? result.failure : undefined
}
const changed = (more: Record<string, unknown>) => JSON.stringify({ ...json, ...more })

describe("an event as it is stored", () => {
  it("is one line of JSON that reads back as the event", () => {
    const text = encode(event)
    expect(text).not.toContain("\n")
    expect(decode("n1", 2, text)).toMatchObject({ _tag: "Success", success: event })
  })

  it("reads back the same when it is known to be intact, and is believed no further than that", () => {
    const text = encode(event)
    expect(decode("n1", 2, text, true)).toEqual(decode("n1", 2, text))
    for (const other of [{ seq: 3 }, { runId: "n2" }, { v: version + 1 }, { type: "dreamt" }]) {
      const changed = JSON.stringify({ ...json, ...other })
      expect(decode("n1", 2, changed, true)).toEqual(decode("n1", 2, changed))
      expect(decode("n1", 2, changed, true)._tag).toBe("Failure")
    }
  })

  it("is corrupt when it is known not to be intact, however well it reads", () => {
    const read = decode("n1", 2, encode(event), false)
    expect(read).toMatchObject({ _tag: "Failure", failure: { kind: "corrupt", runId: "n1", seq: 2 } })
    expect(decode("n1", 2, changed({ v: version + 1 }), false)).toMatchObject({
      failure: { kind: "newer_version" }
    })
  })

  it("has version, number, date and time driven; the run it belongs to is said where it is stored", () => {
    expect(json).toMatchObject({ v: version, seq: 2, at: expect.any(String), elapsedMs: 2 })
    expect(decode("n2", 2, encode(event))).toMatchObject({ success: { runId: "n2" } })
  })

  it("of every type goes through the schema unchanged, so that writing it needs no schema", () => {
    const types = new Set<string>()
    const codec = Schema.toCodecJson(RunEvent)
    const samples = Effect.runSync(Arbitrary.sampleEffect(journals(), { count: 150, size: 300, seed: 8 }))
    for (const journal of samples) {
      for (const one of journal.events) {
        if (types.has(one.type) && one.seq % 5 !== 0) continue
        types.add(one.type)
        expect(Schema.encodeSync(codec)(one)).toEqual(one)
        expect(Schema.decodeUnknownSync(codec)(JSON.parse(JSON.stringify(one)))).toEqual(one)
      }
    }
    // what a simulated run never contains would go untested here
    const all = Object.keys(RunEvent.cases)
    expect(all.filter((type) => !types.has(type))).toEqual([])
  })
})

describe("reading what is not such an event", () => {
  it.each([
    ["nothing", ""],
    ["half a line", encode(event).slice(0, 40)],
    ["a page of HTML", "<html>"],
    ["two lines", `${encode(event)}\n${encode(event)}`]
  ])("%s is corrupt, named by run and number", (_, text) => {
    const error = failure("n1", 2, text)
    expect(error).toMatchObject({ _tag: "UnreadableEvent", kind: "corrupt", runId: "n1", seq: 2 })
    expect(error?.message).toMatch(/event 2 of run n1/)
  })

  it.each(["null", "7", "[]", '"text"', "{}"])("JSON that is no event is corrupt: %s", (text) => {
    expect(failure("n1", 2, text)).toMatchObject({ kind: "corrupt" })
  })

  it("a missing version, or one that is no whole number, is corrupt", () => {
    const { v: _, ...rest } = json
    expect(failure("n1", 2, JSON.stringify(rest))).toMatchObject({ kind: "corrupt" })
    expect(failure("n1", 2, changed({ v: "1" }))).toMatchObject({ kind: "corrupt" })
    expect(failure("n1", 2, changed({ v: 1.5 }))).toMatchObject({ kind: "corrupt" })
  })

  it("a newer version is refused by its name, whatever else it says", () => {
    for (const more of [{}, { type: "dream_started" }, { seq: 9 }, { turn: { nested: true } }]) {
      const error = failure("n1", 2, changed({ ...more, v: version + 1 }))
      expect(error).toMatchObject({ kind: "newer_version", runId: "n1", seq: 2 })
      expect(error?.message).toContain(`version ${version + 1}`)
    }
  })

  it("an unknown type of this version is corrupt", () => {
    expect(failure("n1", 2, changed({ type: "dream_started" }))).toMatchObject({ kind: "corrupt" })
  })

  it("a field of the wrong kind is corrupt, and so is a missing one", () => {
    expect(failure("n1", 2, changed({ costUsd: "cheap" }))).toMatchObject({ kind: "corrupt" })
    expect(failure("n1", 2, changed({ usage: { promptTokens: -1, completionTokens: 0 } }))).toMatchObject({
      kind: "corrupt"
    })
    const { message: _, ...rest } = json
    expect(failure("n1", 2, JSON.stringify(rest))).toMatchObject({ kind: "corrupt" })
  })

  it("an event that was stored under another number than its own is corrupt", () => {
    expect(failure("n1", 3, encode(event))).toMatchObject({ kind: "corrupt", runId: "n1", seq: 3 })
    expect(decode("n1", 1, encode(events[1]!))._tag).toBe("Success")
    expect(failure("n1", 1, encode(events[2]!))).toMatchObject({ kind: "corrupt" })
    expect(failure("n1", 2, encode(events[1]!))).toMatchObject({ kind: "corrupt" })
  })

  it("an event that names another run than the one it was stored under is corrupt", () => {
    expect(decode("n1", 2, changed({ runId: "n1" }))._tag).toBe("Success")
    const error = failure("n2", 2, changed({ runId: "n1" }))
    expect(error).toMatchObject({ kind: "corrupt", runId: "n2", seq: 2 })
    expect(error?.message).toContain("n1")
  })

  it.prop(
    "is total: no damage to a line makes reading throw, and what reads is an event of its place",
    {
      journal: journals(),
      at: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 5000 })),
      junk: Schema.String
    },
    ({ at, journal: { events, runId }, junk }) => {
      const victim = events[at % events.length]!
      const text = encode(victim)
      const cut = at % text.length
      const result = decode(runId, victim.seq, text.slice(0, cut) + junk + text.slice(cut + 1))
      if (result._tag === "Success")
        expect([result.success.runId, result.success.seq]).toEqual([runId, victim.seq])
      else expect(result.failure._tag).toBe("UnreadableEvent")
    },
    many
  )
})
