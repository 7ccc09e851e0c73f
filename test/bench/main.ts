/**
 * `npm run bench`: what Checkrein costs, beside what it is allowed to cost. Exits with 1 if anything costs more.
 */
import * as Effect from "effect/Effect"
import { claims } from "./claims.ts"
import { overHttp } from "./http.ts"
import { importTime } from "./imports.ts"
import { waitingRuns } from "./memory.ts"
import { overhead } from "./overhead.ts"
import { fileSize } from "./size.ts"
import { figures } from "./stores.ts"

let missed = 0

const row = (what: string, measured: string, allowed: string, within: boolean): void => {
  if (!within) missed++
  console.log(`${within ? "ok  " : "over"}  ${what.padEnd(46)} ${measured.padStart(14)}   allowed ${allowed}`)
}

const round = (value: number, digits = 0): string => value.toFixed(digits)

console.log("per turn, without transport (µs: by hand / over Chat / Checkrein)")
const costs = [await overhead(3, 3_000), await overhead(100, 90), await overhead(400, 24)] as const
for (const cost of costs) {
  const all = `${round(cost.bare, 1)} / ${round(cost.chat)} / ${round(cost.checkrein)}`
  console.log(`      ${`${cost.turns} turns`.padEnd(46)} ${all.padStart(14)}`)
}
for (const cost of costs.slice(0, 2)) {
  row(
    `over a loop by hand, ${cost.turns} turns`,
    `${round(cost.excess)} µs/turn`,
    "150 µs",
    cost.excess <= 150
  )
}
const power = Math.log((costs[2].excess * 400) / (costs[1].excess * 100)) / Math.log(4)
row("growth from 100 to 400 turns", `turns^${round(power, 2)}`, "turns^1.3", power <= 1.3)

const { own, shared } = claims()
row("a claim by a run's own limits", `${round(own, 2)} µs`, "10 µs", own <= 10)
row("a claim from a shared budget in memory", `${round(shared, 2)} µs`, "10 µs", shared <= 10)

const http = await overHttp(costs[0].excess / 1_000)
row(
  "3 turns over HTTP, against fetch by hand",
  `${round(http.checkrein, 2)} times`,
  "1.5 times",
  http.checkrein <= 1.5
)
console.log(`      ${"by hand".padEnd(46)} ${round(http.byHand, 2).padStart(11)} ms`)
console.log(`      ${"over effect's Chat".padEnd(46)} ${round(http.chat, 2).padStart(8)} times`)
console.log(
  `      ${"by hand, and busy for as long as Checkrein".padEnd(46)} ${round(http.busy, 2).padStart(8)} times`
)

for (const turns of [100, 200, 400]) {
  const { allowed, bytes, events, messages } = await fileSize(turns)
  row(
    `SQLite file, ${turns} turns`,
    `${round(bytes / 1024)} KiB`,
    `${round(allowed / 1024)} KiB`,
    bytes <= allowed
  )
  console.log(`      ${events} events, ${round(messages / 1024)} KiB of messages`)
}

const memory = await Effect.runPromise(waitingRuns(2_000))
const each = memory.bytesEach / 1024
row(`${memory.count} runs waiting at once`, `${round(each, 1)} KiB each`, "50 KiB", each <= 50)
row("of which completed", String(memory.completed), String(memory.count), memory.completed === memory.count)

const ms = importTime(9)
row("import of the package", `${round(ms)} ms`, "300 ms", ms <= 300)

for (const { allowed, measured, what, within } of await Effect.runPromise(figures)) {
  if (allowed === undefined) console.log(`      ${what.padEnd(62)} ${measured}`)
  else row(what, measured, allowed, within ?? true)
}

process.exitCode = missed === 0 ? 0 : 1
