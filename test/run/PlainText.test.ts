import { describe, expect, it } from "@effect/vitest"
import * as Signature from "../../src/loop/Signature.ts"
import * as ProviderError from "../../src/provider/ProviderError.ts"
import * as EvidenceIndex from "../../src/run/EvidenceIndex.ts"
import * as PlainText from "../../src/run/PlainText.ts"

const origin = { module: "m", method: "generateText", url: "u", model: "m", secrets: [] } as const

describe("a text that is cut", () => {
  it.each<readonly [string, (text: string) => string]>([
    ["alone", (text) => PlainText.head(text, 20)],
    ["as evidence", (text) => EvidenceIndex.cut(text, 20)],
    ["as what a tool takes", (text) => Signature.ofJsonSchema({ const: text })],
    ["as what an endpoint has answered", (text) => ProviderError.excerpt(origin, text)]
  ])("%s, has no half of a character", (_, cut) => {
    for (const shift of ["", "x"]) {
      const long = shift + "😀".repeat(1000)
      const short = cut(long)
      expect(short.isWellFormed()).toBe(true)
      expect(short.length).toBeLessThan(long.length)
    }
  })

  it("is as long as it may be, and itself where it is no longer", () => {
    expect(["abc", "ab😀", "a😀b"].map((text) => PlainText.head(text, 3))).toEqual(["abc", "ab", "a😀"])
    expect(PlainText.head("a\ud83d", 5)).toBe("a\ud83d")
  })
})
