import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { Tiktoken } from "js-tiktoken/lite"
import vocabulary from "js-tiktoken/ranks/o200k_base"
import * as BytePairs from "../../src/provider/BytePairs.ts"

const pieces = [
  ...["a", "Z", "é", "e\u0301", "ʰ", "ǅ", "中文", "don't", "'s", "'", "ERROR", "<|endoftext|>", "\u0301"],
  ...[" ", "  ", "\n", "\r\n", "\t", "\u00a0", "x\n/", "/\n", "/"],
  ...['"', '{"', "}", "[", "]", ",", ":", "\\\\", "—", "😀", "═", "7", "1234", "\ud800"]
]
const Text = Schema.Array(Schema.Literals(pieces)).pipe(Schema.check(Schema.isMaxLength(60)))

const unbroken: Readonly<Record<string, string>> = {
  letters: "x",
  capitals: "X",
  Han: "漢字仮名",
  Thai: "ภาษาไทย",
  emoji: "😀🎉",
  "box drawing": "═",
  blanks: " ",
  lines: "\n",
  "slashes and lines": "/\n",
  marks: "\u0301",
  escapes: '\\\\"'
}

describe("BytePairs", () => {
  const count = BytePairs.counter(vocabulary)
  const whole = new Tiktoken(vocabulary)
  const reference = (text: string) => whole.encode(text, [], []).length
  const inChunks = (text: string) => {
    let total = 0
    for (const chunk of BytePairs.chunks(text)) total += count(chunk)
    return total
  }

  it.effect.prop(
    "counts as the reference does",
    { text: Text },
    ({ text }) => Effect.sync(() => expect(count(text.join(""))).toBe(reference(text.join("")))),
    { arbitrary: { runs: 2_000 } }
  )

  it.effect.prop(
    "a cut between chunks changes no count",
    { text: Text, before: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 60 })) },
    ({ before, text }) =>
      Effect.sync(() => {
        // The cut falls somewhere into the text, or before it.
        const long = `${"word ".repeat(BytePairs.longestChunk / 5 - before)} ${text.join("")} and more`
        expect(inChunks(long)).toBe(count(long))
      }),
    { arbitrary: { runs: 150 } }
  )

  it("chunks are bounded, and are the text", () => {
    for (const unit of [...Object.values(unbroken), "Some prose, and a number: 12. "]) {
      for (const shift of ["", "a", "😀"]) {
        const text = shift + unit.repeat(50_000 / unit.length)
        const all = [...BytePairs.chunks(text)]
        expect(all.join("")).toBe(text)
        expect(Math.max(...all.map(({ length }) => length))).toBeLessThanOrEqual(BytePairs.longestChunk)
        expect(all.length).toBeLessThan(6)
        expect(all.every((chunk) => chunk.isWellFormed())).toBe(true)
      }
    }
  })

  it("merges no more bytes in one go than it says, so that the time grows with the text and no faster", () => {
    const merges: Array<number> = []
    const watched = BytePairs.counter(vocabulary, (bytes) => merges.push(bytes))
    for (const unit of Object.values(unbroken)) {
      const text = unit.repeat(40_000 / unit.length)
      merges.length = 0
      for (const chunk of BytePairs.chunks(text)) watched(chunk)
      expect(Math.max(0, ...merges)).toBeLessThanOrEqual(BytePairs.longestPiece)
      expect(merges.reduce((a, b) => a + b, 0)).toBeLessThanOrEqual(Buffer.byteLength(text))
    }
  })

  it("an unbroken run that is counted in pieces is off by two percent at most", () => {
    const off = Object.values(unbroken).map((unit) => {
      const text = unit.repeat(1_600 / Buffer.byteLength(unit))
      return Math.abs(inChunks(text) / reference(text) - 1)
    })
    expect(Math.max(...off)).toBeLessThanOrEqual(0.02)
  })
})
