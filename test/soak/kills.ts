/**
 * `npm run soak:kills`: every script of the demo in a process that is killed with `kill -9`, once at every seam of its run,
 * and taken up in another process. Each has to end as if nothing had happened. A kill takes the time in which a process
 * starts, so all of them take some minutes. Exits with 1 if a promise is broken.
 *
 * `node kills.ts [--only NAME] [--concurrency 4]`
 */
import { parseArgs } from "node:util"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { CrashKit } from "../../src/testing/index.ts"
import { demos } from "../testing/demos.ts"

const { values: flags } = parseArgs({
  options: {
    only: { type: "string" },
    concurrency: { type: "string", default: "4" }
  }
})

const names = demos.map(({ name }) => name).filter((name) => flags.only === undefined || name === flags.only)

const seamOf = ({ fault, promise, problem }: CrashKit.Broken) =>
  fault === undefined
    ? `${promise}: ${problem}`
    : `${fault.seam.point} ${fault.seam.nth}: ${promise}: ${problem}`

const program = Effect.gen(function* () {
  const total = { kills: 0, same: 0, broken: 0 }
  for (const name of names) {
    const began = yield* Clock.currentTimeMillis
    const module = new URL(`../testing/subjects/demo/${name}.ts`, import.meta.url)
    const { broken, visits } = yield* CrashKit.checkKilled(module, { concurrency: Number(flags.concurrency) })
    // Where a call was lost the run was free to go another way, as far as the kit says.
    const same = visits.filter(({ parted }) => parted.length === 0).length
    const seconds = Math.round(((yield* Clock.currentTimeMillis) - began) / 1_000)
    console.log(
      `${name}: killed at ${visits.length} seams, ${same} went the same way, ${broken.length} promises broken, ${seconds} s`
    )
    for (const one of broken) console.log(`  ${seamOf(one)}`)
    total.kills += visits.length
    total.same += same
    total.broken += broken.length
  }
  console.log(
    `${total.kills} kills of ${names.length} scripts, ${total.same} went the same way: ${total.broken === 0 ? "no promise is broken" : `${total.broken} promises are broken`}`
  )
  return total.broken === 0 && names.length > 0
})

process.exitCode = (await Effect.runPromise(program)) ? 0 : 1
