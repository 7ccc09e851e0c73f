/**
 * How long the first import of the built package takes in a fresh process.
 */
import { execFileSync } from "node:child_process"
import { median } from "./measure.ts"

const code = "const t = performance.now(); await import('checkrein'); console.log(performance.now() - t)"

/** Median milliseconds. */
export const importTime = (rounds: number): number =>
  median(
    Array.from({ length: rounds }, () =>
      Number(
        execFileSync(process.execPath, ["--input-type=module", "--eval", code], {
          cwd: new URL("../..", import.meta.url).pathname,
          encoding: "utf8"
        })
      )
    )
  )
