import { describe, expect, it } from "@effect/vitest"
import { lastWords } from "../../src/run/Answer.ts"
import * as Handoff from "../../src/run/Handoff.ts"
import type { Body, Of } from "../../src/run/RunEvent.ts"
import { call, ran, resumed, started, stateOf, tools, turn } from "./events.ts"

type More = Partial<Omit<Of<"turn">, "type">>

const says = (text: string): More => ({
  message: { role: "assistant", content: text === "" ? [] : [{ type: "text", text }] }
})

const cut: More = { answers: false, cutOff: true, finish: "length", note: "Go on." }
const paused: More = { answers: false, finish: "pause" }
const empty: More = { answers: false, note: "It was empty." }
const filtered: More = { answers: false, finish: "content_filter", note: "It was stopped." }

/** A run of these replies: a text and what else is said of it, or other events in between. */
const heard = (...said: ReadonlyArray<readonly [text: string, more?: More] | ReadonlyArray<Body>>) => {
  let number = 0
  const isReply = (one: (typeof said)[number]): one is readonly [string, More?] => typeof one[0] === "string"
  return stateOf([
    started(),
    ...said.flatMap((one) => {
      if (!isReply(one)) {
        number += one.filter(({ type }) => type === "turn").length
        return one
      }
      number++
      const [text, more] = one
      return turn(number, [], { ...says(text), ...more })
    })
  ])
}

const read = call(tools.read, "c1")
const reads = (number: number) => [...turn(number, [read]), ...ran(read)]
const spoken: Body = { ...resumed, messages: [{ role: "user", content: "Shorter, please." }] }
const handoff: Body = { type: "handoff", exhausted: { resource: "turns", used: 1, limit: 2 } }

describe("the answer", () => {
  it.each([
    ["is one reply", heard(["One."]), "One."],
    [
      "is every reply since the first that was cut off",
      heard(["One, ", cut], ["two, ", cut], ["three."]),
      "One, two, three."
    ],
    [
      "goes on over a pause of the provider",
      heard(["One, ", cut], ["two, ", paused], ["three."]),
      "One, two, three."
    ],
    ["is what comes after a pause, where nothing was cut off", heard(["I look.", paused], ["One."]), "One."],
    ["goes on after an empty reply", heard(["One, ", cut], ["", empty], ["two."]), "One, two."],
    ["is what comes after a call alone", heard(["I look: ", cut], reads(2), ["Two."]), "Two."],
    [
      "is what comes after the content filter alone",
      heard(["One, ", cut], ["tw", filtered], ["Both."]),
      "Both."
    ],
    ["goes on when another driver takes the run up", heard(["One, ", cut], [resumed], ["two."]), "One, two."],
    ["is what comes after a person's word alone", heard(["One, ", cut], [spoken], ["Uno."]), "Uno."],
    [
      "is the last reply in a journal that does not say what is to be read as one",
      heard(["One, ", { ...empty, finish: "length" }], ["One, two."]),
      "One, two."
    ]
  ])("%s", (_, state, result) => {
    expect(state).toMatchObject({ answered: true, result })
    expect(state).not.toHaveProperty("unfinished")
  })

  it("of a handoff is its summary, and goes on from nothing that was said before", () => {
    const state = heard(["I loo", cut], [handoff], ["Found: ", cut], ["a.log."])
    expect(state).toMatchObject({ summary: "Found: a.log." })
    expect(state).not.toHaveProperty("result")
  })
})

describe("the last words", () => {
  it.each([
    ["are those of an answer as far as it has got", heard(["One, ", cut], ["two, ", cut]), "One, two,"],
    ["are those of the last reply that has any", heard(["I look.", { answers: false }], reads(2)), "I look."],
    ["are none where nothing was said", heard(reads(1)), ""]
  ])("%s", (_, state, words) => {
    expect(lastWords(state)).toBe(words)
    const { lastWords: told = "" } = Handoff.of(stateOfStopped(state))
    expect(told).toBe(words)
  })
})

const stateOfStopped = (state: ReturnType<typeof heard>) => ({
  ...state,
  status: "interrupted" as const,
  reason: "cancelled" as const
})

describe("replies that bring nothing", () => {
  it.each([
    [
      "are counted while they follow one another",
      heard(["", empty], ["x", filtered]),
      { replies: 2, filtered: 1 }
    ],
    ["are forgotten after text", heard(["", empty], ["One, ", cut]), undefined],
    ["are forgotten after a call", heard(["", empty], reads(2)), undefined],
    ["are forgotten when the run is taken up", heard(["", empty], [resumed]), undefined],
    ["are forgotten when the handoff begins", heard(["", empty], [handoff]), undefined]
  ])("%s", (_, state, fruitless) => {
    expect(state.fruitless).toEqual(fruitless)
  })
})
