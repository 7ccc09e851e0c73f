/**
 * A run of three turns over HTTP on loopback, beside a loop written by hand with `fetch`, back to back.
 */
import { execFileSync, spawn } from "node:child_process"
import { once } from "node:events"
import { createInterface } from "node:readline"
import { median } from "./measure.ts"

const names = ["byHand", "busy", "chat", "checkrein"] as const
type Name = (typeof names)[number]

const rounds = 3

const script = (file: string): string => new URL(file, import.meta.url).pathname

/**
 * Median milliseconds of a run: by hand, over effect's `Chat`, and with Checkrein; and by hand with as much work for the
 * processor as a turn of Checkrein takes without transport, since a server that has to wait goes to sleep. Each loop has a
 * process of its own, and they take turns.
 */
export const overHttp = async (turnMs: number) => {
  const server = spawn(process.execPath, ["--no-warnings", script("server.ts")], {
    stdio: ["ignore", "pipe", "inherit"]
  })
  try {
    const [baseUrl] = (await once(createInterface(server.stdout), "line")) as [string]
    const alone = (name: Name): number =>
      Number(
        execFileSync(process.execPath, [
          "--no-warnings",
          script("httpLoop.ts"),
          name,
          baseUrl,
          String(turnMs)
        ])
      )
    const samples: Record<Name, Array<number>> = { byHand: [], busy: [], chat: [], checkrein: [] }
    for (let round = 0; round < rounds; round++) for (const name of names) samples[name].push(alone(name))
    const byHand = median(samples.byHand)
    const times = (name: Name) => median(samples[name]) / byHand
    return { byHand, busy: times("busy"), chat: times("chat"), checkrein: times("checkrein") }
  } finally {
    server.kill()
  }
}
