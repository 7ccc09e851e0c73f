import { execFileSync } from "node:child_process"
import { describe, expect, it } from "vitest"
import * as Ending from "../../src/cli/Ending.ts"
import type { Body } from "../../src/run/RunEvent.ts"
import { call, decided, result, start, started, stateOf, stopped, tools, turn } from "../run/events.ts"
import { cli, elsewhere, module, parsed, withoutEndpoint, workshop } from "./support.ts"

const { path } = workshop()
withoutEndpoint()

const limited = (resource: "turns" | "usd" | "tokens" | "time" | "tool_calls", used: number) =>
  stopped(
    resource === "turns" ? "max_turns_exceeded" : "budget_exceeded",
    resource === "turns" ? "max_turns" : "max_budget",
    {
      exhausted: { resource, used, limit: used }
    }
  )

const outOfPool = stopped("budget_exceeded", "max_budget", {
  exhausted: { resource: "tool_calls", used: 12, limit: 12, pool: "team's" }
})

const save = call(tools.append, "c3", { row: 1 })
const waits: ReadonlyArray<Body> = [
  ...turn(1, [
    call(tools.remove, "c5", { path: "tmp.csv" }),
    save,
    call(tools.input, "c7", { question: "Which day?" })
  ]),
  start(save),
  result(save, { disposition: "unknown" })
]
const mail = call(tools.mail, "c4", { to: "ann" })
const sent: ReadonlyArray<Body> = [
  ...turn(1, [mail]),
  decided(mail, "approved"),
  start(mail),
  result(mail, { disposition: "unknown" }),
  stopped("interrupted", "cancelled")
]
const odd: ReadonlyArray<Body> = turn(1, [call(tools.remove, "it's $HOME `id` \u001b[2J")])
const below: Body = {
  type: "run_started",
  agent: "analyst",
  messages: [],
  limits: {},
  parent: { runId: "top/k1", callId: "k2" }
}

/** Runs by how they stand; each waits for something else. */
const stopsOf = {
  "at its limit of turns": [started(), limited("turns", 20)],
  "at its limit of money": [started(), limited("usd", 0.0000004)],
  "at its limit of tokens": [started(), limited("tokens", 1000)],
  "at its limit of time": [started(), limited("time", 90_500)],
  "at its limit of calls": [started(), limited("tool_calls", 12)],
  "at the limit of a pool": [started(), outOfPool],
  "that waits for people at the limit of a pool": [started(), ...waits, outOfPool],
  failed: [started(), ...waits, stopped("failed", "defect")],
  cancelled: [started(), stopped("interrupted", "cancelled")],
  "cancelled in a call that its tool can look up": [started(), ...sent],
  "that was lost": [started()],
  "that was lost while it waits for people": [started(), ...waits],
  "that waits for people": [started(), ...waits, stopped("interrupted", "approval")],
  "that waits for people at a limit": [started(), ...waits, limited("turns", 1)],
  "with ids that a shell would read": [started(), ...odd, stopped("interrupted", "approval")],
  "of a child": [below, ...waits, stopped("interrupted", "approval")],
  "of a child without its model": [below, stopped("interrupted", "provider")],
  "of a child cancelled with its parent": [
    below,
    stopped("interrupted", "cancelled", { detail: "run top/k1 was stopped" })
  ]
} as const satisfies Record<string, ReadonlyArray<Body>>

/** The arguments of a command, as a shell hands them over. */
const pasted = (command: string): ReadonlyArray<string> =>
  execFileSync("bash", ["-c", `checkrein() { printf '%s\\0' "$@"; }; ${command}`], { encoding: "utf8" })
    .split("\0")
    .slice(0, -1)

const commandsOf = (bodies: ReadonlyArray<Body>, runId: string, where: Ending.Where) => {
  const run = stateOf(bodies, runId)
  return Ending.handoff(run, where).next.flatMap(({ commands = [] }) => commands)
}

describe("the commands of a handoff", () => {
  it.each(Object.entries(stopsOf))("of a run %s are understood as they are printed", async (_, bodies) => {
    for (const runId of ["run", "-r", "it's"]) {
      for (const store of [path("gone.db"), "-gone 's.db"]) {
        const where = { store, agent: "-my agent.ts", root: runId }
        const commands = commandsOf(bodies, runId, where)
        expect(commands.length).toBeGreaterThan(0)
        for (const command of [...commands, ...Ending.next(stateOf(bodies, runId), where)]) {
          const ended = await cli(...pasted(command))
          expect([command, ended.code, ended.stderr]).toEqual([
            command,
            1,
            expect.stringContaining(`there is no store ${store} here`)
          ])
        }
      }
    }
  })

  it("are those of both ways in which a call can have ended, or be decided, and resume the run", () => {
    const where = { store: path("runs.db"), agent: "agent.ts", root: "run" }
    const flags = `--agent agent.ts --store ${where.store}`
    const run = stateOf(stopsOf["that waits for people at a limit"])
    const settling = [
      ["happened", "did-not-happen"].map(
        (outcome) => `checkrein runs resolve run c3 ${outcome} --resume --max-turns 2 ${flags}`
      ),
      ["approve", "reject"].map((verb) => `checkrein runs ${verb} run c5 --resume --max-turns 2 ${flags}`),
      [`checkrein runs answer run 'YOUR ANSWER' --resume --max-turns 2 ${flags}`]
    ]
    const resuming = `checkrein runs resume run --max-turns 2 ${flags}`
    expect(Ending.handoff(run, where).next.map(({ commands }) => commands)).toEqual([...settling, [resuming]])
    expect(Ending.next(run, where)).toEqual(settling.flat())
    expect(Ending.next(run, where, new Set(["run c3", "run c5"]))).toEqual(settling[2])
    expect(Ending.next(run, where, new Set(["run c3", "run c5", "run c7"]))).toEqual([resuming])
    const failed = commandsOf(stopsOf.failed, "run", where)
    expect(failed.at(-1)).toBe(`checkrein runs resume run --force ${flags}`)
    expect(Ending.next(stateOf(stopsOf.failed), where)).toEqual(failed)
    expect(failed).toContain(`checkrein runs resolve run c3 did-not-happen --store ${where.store}`)
  })

  it("have people settle what a lost run would stop for, before it is taken up", () => {
    const where = { store: path("runs.db"), agent: undefined, root: "run" }
    const lost = Ending.next(stateOf(stopsOf["that was lost while it waits for people"]), where)
    expect(lost).toHaveLength(5)
    expect(lost[0]).toBe(`checkrein runs resolve run c3 happened --resume --store ${where.store}`)
    expect(Ending.next(stateOf(stopsOf["that was lost"]), where)).toEqual([
      `checkrein runs resume run --store ${where.store}`
    ])
  })

  it("have the run look up by itself what its tool can", () => {
    const where = { store: path("runs.db"), agent: "agent.ts", root: "run" }
    const resuming = [`checkrein runs resume run --agent agent.ts --store ${where.store}`]
    const run = stateOf(stopsOf["cancelled in a call that its tool can look up"])
    expect(Ending.next(run, where)).toEqual(resuming)
    expect(Ending.handoff(run, where).next.map(({ commands }) => commands)).toEqual([resuming])
  })

  it("raise no limit of a run that a shared budget has stopped: it is resumed as it is, once there is room", () => {
    const where = { store: path("runs.db"), agent: "agent.ts", root: "run" }
    const flags = `--agent agent.ts --store ${where.store}`
    const run = stateOf(stopsOf["at the limit of a pool"])
    expect(Ending.next(run, where)).toEqual([`checkrein runs resume run ${flags}`])
    expect(Ending.handoff(run, where).next).toMatchObject([
      {
        what: expect.stringContaining("once the budget pool team's has room again"),
        commands: [`checkrein runs resume run ${flags}`]
      }
    ])
    for (const command of Ending.next(
      stateOf(stopsOf["that waits for people at the limit of a pool"]),
      where
    ))
      expect(command).toMatch(new RegExp(` --resume ${flags}$`))
  })

  it("go on with the run at the top, and are none for a child that has told how it ended", () => {
    const where = { store: path("runs.db"), agent: undefined, root: "top" }
    expect(commandsOf(stopsOf["of a child"], "top/k1/k2", where).at(-1)).toBe(
      `checkrein runs resume top --store ${where.store}`
    )
    for (const ending of [
      limited("turns", 2),
      limited("usd", 1),
      stopped("interrupted", "stalled"),
      stopped("interrupted", "cancelled"),
      stopped("interrupted", "stop_condition"),
      stopped("failed", "tool_permanent")
    ]) {
      const told = [below, ...odd, ending]
      expect(commandsOf(told, "top/k1/k2", where)).toEqual([])
      expect(Ending.next(stateOf(told, "top/k1/k2"), where)).toEqual([])
      // Somebody has to find out first what became of a call.
      expect(commandsOf([below, ...waits, ending], "top/k1/k2", where).at(-1)).toBe(
        `checkrein runs resume top --store ${where.store}`
      )
    }
  })

  it("do what they say: a lost call that did not happen is told to the model, and the run goes on", async () => {
    const store = ["--store", path("lost.db")]
    const { runId, running } = await elsewhere(store, "waiter", "send", /waiting to go/)
    running.signal("SIGINT")
    await running.ended
    const flags = [...module("waiter"), ...store]
    const { handoff } = parsed(await cli("runs", "show", runId, "--json", ...flags))
    const [, didNot] = handoff.next[0].commands
    const ended = await cli(...pasted(didNot))
    expect([ended.code, ended.stderr.includes("send did not happen")]).toEqual([0, true])
    const again = await cli(...pasted(handoff.next[1].commands[0]))
    expect([again.code, again.stdout]).toEqual([0, ended.stdout])
  })
})
