/** Another process on the same store, as a test sees it: what it says, and when it ends. */
import { spawn } from "node:child_process"
import { fileURLToPath } from "node:url"
import * as Effect from "effect/Effect"

const elsewhere = new URL("./elsewhere.ts", import.meta.url)

export interface Process {
  /** Waits until it has said this; fails if it ends before. */
  readonly says: (text: string) => Effect.Effect<void, string>
  /** Waits for its end, and fails with what it said if that was not a success. */
  readonly ended: Effect.Effect<void, string>
  readonly signal: (signal: NodeJS.Signals) => Effect.Effect<void>
  readonly said: () => string
}

/** Starts `elsewhere.ts`, or another script; it is killed when the scope closes. */
export const start = (args: ReadonlyArray<string>, leaseSeconds = 15, script = elsewhere) =>
  Effect.acquireRelease(
    Effect.sync((): Process => {
      const child = spawn(process.execPath, ["--no-warnings", fileURLToPath(script), ...args], {
        stdio: ["ignore", "pipe", "pipe"],
        env: { ...process.env, CHECKREIN_TEST_LEASE: String(leaseSeconds) }
      })
      let out = ""
      let complaint = ""
      let code: number | null | undefined
      const waiting = new Set<() => void>()
      const notify = () => {
        for (const look of waiting) look()
      }
      child.stdout.on("data", (chunk) => {
        out += chunk
        notify()
      })
      child.stderr.on("data", (chunk) => {
        complaint += chunk
      })
      child.on("close", (exit) => {
        code = exit
        notify()
      })
      const until = (done: () => Effect.Effect<void, string> | undefined) =>
        Effect.callback<void, string>((resume) => {
          const look = () => {
            const result = done()
            if (result === undefined) return
            waiting.delete(look)
            resume(result)
          }
          waiting.add(look)
          look()
          return Effect.sync(() => waiting.delete(look))
        })
      const failure = () => Effect.fail(`it ended with ${code}, having said: ${out}${complaint}`)
      return {
        says: (text) =>
          until(() => (out.includes(text) ? Effect.void : code === undefined ? undefined : failure())),
        ended: until(() => (code === undefined ? undefined : code === 0 ? Effect.void : failure())),
        signal: (signal) => Effect.sync(() => child.kill(signal)),
        said: () => out
      }
    }),
    (process) => process.signal("SIGKILL")
  )
