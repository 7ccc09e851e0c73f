/**
 * Processes that are really killed, on files that really stay.
 */
import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { CrashKit } from "../../src/testing/index.ts"
import { describePostgres, url } from "../store/postgres.ts"

// A process takes a second to start, and much longer on a machine that has other things to do.
const patience = 120_000

const subject = (name: string) => new URL(`./subjects/${name}.ts`, import.meta.url)

/** The seams of the cashier that differ most: a process takes its time to start. */
const some = new Set([
  "after append run_resumed, approval_resolved",
  "in model call 3",
  "before tool charge",
  "in tool charge",
  "after tool charge",
  "in tool send_receipt",
  "in tool refund",
  "before append turn, run_stopped",
  "after append turn, run_stopped"
])

const nameOf = ({ nth, point, what }: CrashKit.Seam) => `${point} ${what === "" ? nth : what}`

const countsOf = ({ calls }: CrashKit.Account) =>
  Object.fromEntries(calls.map(({ effects, times, tool }) => [tool, [times, effects.length]]))

describe("a process that is killed with kill -9", () => {
  it.live(
    "leaves a run that goes on with nothing lost and nothing twice",
    () =>
      Effect.gen(function* () {
        const report = yield* CrashKit.checkKilled(subject("cashier"), {
          only: (seam) => some.has(nameOf(seam))
        })
        expect(report.broken).toEqual([])
        const visits = new Map(report.visits.map((visit) => [nameOf(visit.seam), visit]))
        expect(new Set(visits.keys())).toEqual(some)

        const all = { read_order: [1, 0], charge: [1, 1], send_receipt: [1, 1], refund: [1, 1] }
        for (const [name, { lostTurns, parted, stops, ...visit }] of visits) {
          expect(visit.way).toBe("kill")
          expect(stops[0]).toBe("killed")
          // The charge changes the world and cannot be looked up: a person has to.
          expect(stops.includes("OutcomeUnknown"), name).toBe(/(before|in|after) tool charge/.test(name))
          expect(lostTurns, name).toBe(/model call|before append turn/.test(name) ? 1 : 0)
          if (parted.length === 0) expect(visit.messages).toEqual(report.undisturbed.messages)
        }
        const counts = (name: string) => countsOf(visits.get(name) ?? report.undisturbed)
        expect(counts("before tool charge")).toEqual({
          read_order: [1, 0],
          send_receipt: [1, 1],
          refund: [1, 1]
        })
        expect(counts("in tool charge")).toEqual({ ...all, charge: [1, 0] })
        expect(counts("after tool charge")).toEqual(all)
        // A receipt may be sent again, and its world takes it once; the refund is looked up.
        expect(counts("in tool send_receipt")).toEqual({ ...all, send_receipt: [2, 1] })
        expect(counts("in tool refund")).toEqual(all)
      }),
    patience
  )

  it.live(
    "may have said keys that are other ones when its run goes on, and has paid for them",
    () =>
      Effect.gen(function* () {
        const { broken, visits } = yield* CrashKit.checkKilled(subject("telltale"), {
          only: ({ nth, point }) => point === "in model call" && nth < 4
        })
        expect(broken).toEqual([])
        expect(visits.map(({ lostTurns }) => lostTurns)).toEqual([1, 1, 1])
      }),
    patience
  )

  it.live(
    "shows what is not safe",
    () =>
      Effect.gen(function* () {
        const report = yield* CrashKit.checkKilled(subject("careless"), {
          only: ({ point }) => point === "in tool"
        })
        expect(report.broken).toMatchObject([
          {
            promise: "at_most_once",
            problem: '"a mail" took place 2 times instead of once',
            fault: { way: "kill" }
          }
        ])
      }),
    patience
  )

  it.live(
    "is one of a module that there is, with a subject in it",
    () =>
      Effect.gen(function* () {
        const missing = yield* Effect.flip(CrashKit.checkKilled(subject("nobody")))
        expect(missing).toMatchObject({
          _tag: "KillFailed",
          problem: expect.stringContaining("cannot be loaded")
        })
        const other = new URL("./agents.ts", import.meta.url)
        const empty = yield* Effect.flip(CrashKit.checkKilled(other))
        expect(empty).toMatchObject({
          _tag: "KillFailed",
          problem: expect.stringContaining("CrashKit.subject")
        })
      }),
    patience
  )

  it.live(
    "has to get as far as its run",
    () =>
      Effect.gen(function* () {
        const flags = ["--no-such-flag"]
        const failed = yield* Effect.flip(
          CrashKit.checkKilled(subject("careless"), { flags, only: ({ point }) => point === "in tool" })
        )
        expect(failed).toMatchObject({
          _tag: "KillFailed",
          problem: expect.stringContaining("--no-such-flag")
        })
        // Whoever dies of something else says what it was, wherever it says it.
        const says = "data:text/javascript,console.log('out of memory');process.exit(9)"
        const died = yield* Effect.flip(
          CrashKit.checkKilled(subject("careless"), {
            flags: ["--import", says],
            only: ({ point }) => point === "in tool"
          })
        )
        expect(died).toMatchObject({ _tag: "KillFailed", problem: expect.stringContaining("out of memory") })
      }),
    patience
  )
})

describePostgres("on Postgres", () => {
  it.live(
    "a process that is killed leaves a run that goes on",
    () =>
      Effect.gen(function* () {
        const seams = new Set(["in tool charge", "in tool send_receipt", "after append turn, run_stopped"])
        const report = yield* CrashKit.checkKilled(subject("cashier"), {
          store: yield* url,
          clock: "live",
          only: (seam) => seams.has(nameOf(seam))
        })
        expect(report.broken).toEqual([])
        expect(report.visits).toHaveLength(seams.size)
      }),
    patience
  )
})
