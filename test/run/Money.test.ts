import { describe, expect, it } from "@effect/vitest"
import * as Arbitrary from "effect/Arbitrary"
import * as Schema from "effect/Schema"
import * as Money from "../../src/run/Money.ts"

const natural = (maximum: number) =>
  Arbitrary.schema(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum })))
const many = { arbitrary: { runs: 1000, size: 100 } }

/** An amount of whole nano-dollars in USD, read from its decimal text: no arithmetic on floats. */
const usd = (nanos: bigint): number => {
  const digits = nanos.toString().padStart(10, "0")
  return Number(`${digits.slice(0, -9)}.${digits.slice(-9)}`)
}

/** The exact cost in nano-dollars times a million, rounded to a whole nano-dollar, half to even. */
const expected = (
  prices: { input: bigint; cached: bigint; write: bigint; output: bigint },
  usage: Money.Usage
): bigint => {
  const cached = BigInt(usage.cachedTokens ?? 0)
  const written = BigInt(usage.cacheWriteTokens ?? 0)
  const plain = BigInt(usage.promptTokens) - cached - written
  const exact =
    plain * prices.input +
    cached * prices.cached +
    written * prices.write +
    BigInt(usage.completionTokens) * prices.output
  const twice = exact * 2n
  const floor = exact / 1_000_000n
  const distance = twice - floor * 2_000_000n
  if (distance === 1_000_000n) return floor % 2n === 0n ? floor : floor + 1n
  return distance > 1_000_000n ? floor + 1n : floor
}

describe("costOf", () => {
  const price: Money.Price = { input: 2, output: 12 }

  it("the published turns", () => {
    expect(Money.costOf(price, { promptTokens: 204, completionTokens: 23 })).toBe(0.000684)
    expect(Money.costOf(price, { promptTokens: 269, completionTokens: 29 })).toBe(0.000886)
    expect(Money.costOf(price, { promptTokens: 342, completionTokens: 18 })).toBe(0.0009)
    expect(Money.costOf(price, { promptTokens: 815, completionTokens: 70 })).toBe(0.00247)
  })

  it("nothing costs nothing", () => {
    expect(Money.costOf(price, Money.noUsage)).toBe(0)
    expect(Money.costOf({ input: 0, output: 0 }, { promptTokens: 9_000_000, completionTokens: 9 })).toBe(0)
  })

  it.prop(
    "is the exact rational number, rounded once to a nano-dollar, half to even",
    {
      input: natural(100_000_000_000),
      cached: natural(1_000_000_000),
      write: natural(10_000_000_000),
      output: natural(300_000_000_000),
      plain: natural(2_000_000),
      cachedTokens: natural(500_000),
      cacheWriteTokens: natural(500_000),
      completionTokens: natural(200_000)
    },
    ({ cached, cachedTokens, cacheWriteTokens, completionTokens, input, output, plain, write }) => {
      const prices = {
        input: BigInt(input),
        cached: BigInt(cached),
        write: BigInt(write),
        output: BigInt(output)
      }
      const usage = {
        promptTokens: plain + cachedTokens + cacheWriteTokens,
        completionTokens,
        cachedTokens,
        cacheWriteTokens
      }
      const cost = Money.costOf(
        {
          input: usd(prices.input),
          cachedInput: usd(prices.cached),
          cacheWrite: usd(prices.write),
          output: usd(prices.output)
        },
        usage
      )
      expect(cost).toBe(usd(expected(prices, usage)))
    },
    many
  )

  it.prop(
    "at exact halves the even nano-dollar wins, and a hair above or below decides for itself",
    { whole: natural(1000) },
    ({ whole }) => {
      // a price of `n` nano-dollars per million tokens makes one token cost `n` millionths of a nano-dollar
      const one = (millionths: bigint) =>
        Money.costOf({ input: usd(millionths), output: 0 }, { promptTokens: 1, completionTokens: 0 })
      const half = BigInt(whole) * 1_000_000n + 500_000n
      const even = BigInt(whole % 2 === 0 ? whole : whole + 1)
      expect(one(half)).toBe(usd(even))
      expect(one(half - 1n)).toBe(usd(BigInt(whole)))
      expect(one(half + 1n)).toBe(usd(BigInt(whole) + 1n))
    },
    many
  )

  it("is rounded once, not for each kind of token", () => {
    // 0.4 and 0.4 of a nano-dollar are 0.8, which is one, and not nothing
    const cents = { input: 0.0004, output: 0.0004 }
    expect(Money.costOf(cents, { promptTokens: 1, completionTokens: 1 })).toBe(1e-9)
    expect(Money.costOf(cents, { promptTokens: 1, completionTokens: 0 })).toBe(0)
  })

  it("cached and written tokens are part of the prompt tokens, and have their own prices", () => {
    const prices = { input: 2, cachedInput: 0.2, cacheWrite: 2.5, output: 12 }
    const usage = { promptTokens: 1000, completionTokens: 0, cachedTokens: 600, cacheWriteTokens: 300 }
    expect(Money.costOf(prices, usage)).toBe(0.00107)
  })

  it("without prices of their own, cached and written tokens cost what input costs", () => {
    const usage = { promptTokens: 1000, completionTokens: 10, cachedTokens: 600, cacheWriteTokens: 300 }
    expect(Money.costOf(price, usage)).toBe(Money.costOf(price, { promptTokens: 1000, completionTokens: 10 }))
  })

  it("a provider that counts cached tokens beside the prompt never makes plain tokens negative", () => {
    const prices = { input: 2, cachedInput: 0.2, output: 0 }
    const usage = { promptTokens: 100, completionTokens: 0, cachedTokens: 600 }
    expect(Money.costOf(prices, usage)).toBe(0.00012)
  })
})

describe("sums", () => {
  it.prop(
    "of thousands of amounts are exact and print without dust",
    { seed: natural(1_000_000) },
    ({ seed }) => {
      let sum = 0
      let exact = 0n
      for (let index = 0; index < 3000; index++) {
        const nanos = (seed * 7919 + index * 104_729) % 3_000_017
        sum = Money.add(sum, nanos / 1e9)
        exact += BigInt(nanos)
      }
      expect(sum).toBe(usd(exact))
      const [, decimals = ""] = String(sum).split(".")
      expect(decimals.length).toBeLessThanOrEqual(9)
    },
    { arbitrary: { runs: 50 } }
  )

  it("ten dimes are a dollar, where plain floats are not", () => {
    const dime = (sum: number) => Money.add(sum, 0.1)
    let sum = 0
    for (let index = 0; index < 10; index++) sum = dime(sum)
    expect(sum).toBe(1)
    expect(Money.add(0.1, 0.2)).toBe(0.3)
    expect(Money.subtract(0.3, 0.1)).toBe(0.2)
    expect(Money.subtract(0.8, 0.1)).toBe(0.7)
  })

  it.prop(
    "what was added can be taken off again, in any order",
    { a: natural(2_000_000_000), b: natural(2_000_000_000), c: natural(2_000_000_000) },
    ({ a, b, c }) => {
      const [x, y, z] = [usd(BigInt(a)), usd(BigInt(b)), usd(BigInt(c))] as const
      expect(Money.subtract(Money.add(x, y), y)).toBe(x)
      expect(Money.add(Money.add(x, y), z)).toBe(Money.add(x, Money.add(y, z)))
      expect(Money.add(x, y)).toBe(usd(BigInt(a) + BigInt(b)))
    },
    many
  )

  it("an amount from outside is put on the grid", () => {
    expect(Money.round(0.1 + 0.2)).toBe(0.3)
    expect(Money.round(1 / 3)).toBe(0.333333333)
    expect(Money.round(0.000000001)).toBe(0.000000001)
  })

  it.prop(
    "of usages are the sums of their tokens, and an absent kind stays absent",
    { a: Money.Usage, b: Money.Usage },
    ({ a, b }) => {
      const { cachedTokens, cacheWriteTokens, completionTokens, promptTokens } = Money.addUsage(a, b)
      expect(promptTokens).toBe(a.promptTokens + b.promptTokens)
      expect(completionTokens).toBe(a.completionTokens + b.completionTokens)
      expect(cachedTokens ?? 0).toBe((a.cachedTokens ?? 0) + (b.cachedTokens ?? 0))
      expect(cacheWriteTokens ?? 0).toBe((a.cacheWriteTokens ?? 0) + (b.cacheWriteTokens ?? 0))
      expect(Money.addUsage(Money.noUsage, Money.noUsage)).toEqual({ promptTokens: 0, completionTokens: 0 })
    },
    many
  )
})
