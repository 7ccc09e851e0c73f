/** The flags that limit a run: what they say, that they reach the run, and how a wrong one is refused. */
import { mkdirSync, writeFileSync } from "node:fs"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { describe, expect, it } from "vitest"
import * as LimitFlags from "../../src/cli/LimitFlags.ts"
import * as Scripts from "../../src/demo/Scripts.ts"
import type * as Script from "../../src/provider/Script.ts"
import * as ScriptedServer from "../../src/provider/ScriptedServer.ts"
import { agentModule, cli, parsed, withoutEndpoint, workshop } from "./support.ts"

const { path } = workshop()
withoutEndpoint()

mkdirSync(path("logs"))
writeFileSync(path("logs", "errors.log"), "ERROR timeout: worker 7\n")

const question = "Which file mentions a timeout?"
const run = (...args: ReadonlyArray<string>) =>
  cli("run", "--root", path("logs"), "--store", path("runs.db"), "--json", ...args, question)

const none: LimitFlags.Values = {
  maxTurns: Option.none(),
  maxCalls: Option.none(),
  maxUsd: Option.none(),
  maxTokens: Option.none(),
  maxTime: Option.none(),
  reserveTurns: Option.none(),
  reserveCalls: Option.none(),
  reserveUsd: Option.none(),
  reserveTokens: Option.none(),
  reserveTime: Option.none(),
  money: Option.none()
}

describe("toLimits", () => {
  it("names nothing that was not said", () => {
    expect(LimitFlags.toLimits(none)).toEqual({})
    expect(Object.keys(LimitFlags.toLimits(none))).toEqual([])
  })

  it("puts every limit and every reserve in its place", () => {
    const some = Option.some
    expect(
      LimitFlags.toLimits({
        maxTurns: some(1),
        maxCalls: some(2),
        maxUsd: some(3),
        maxTokens: some(4),
        maxTime: some(5),
        reserveTurns: some(6),
        reserveCalls: some(7),
        reserveUsd: some(8),
        reserveTokens: some(9),
        reserveTime: some(10),
        money: some("hold")
      })
    ).toEqual({
      turns: 1,
      toolCalls: 2,
      usd: 3,
      tokens: 4,
      time: 5,
      money: "hold",
      reserve: { turns: 6, toolCalls: 7, usd: 8, tokens: 9, time: 10 }
    })
  })
})

describe("the flags of checkrein run", () => {
  it("limit the tool calls", async () => {
    const { code, stdout } = await run("--max-calls", "1")
    expect(parsed({ stdout }).toolCalls).toBe(1)
    expect(code).toBe(0)
  })

  it("limit the tokens", async () => {
    const { code, stdout } = await run("--max-tokens", "1")
    expect(parsed({ stdout })).toMatchObject({ status: "budget_exceeded", turns: 1 })
    expect(parsed({ stdout }).detail).toContain("of a limit of 1 tokens")
    expect(code).toBe(3)
  })

  it("limit the time", async () => {
    const { code, stdout } = await run("--max-time", "0s")
    expect(parsed({ stdout })).toMatchObject({ status: "budget_exceeded", turns: 0 })
    expect(code).toBe(3)
  })

  it("keep a part for a handoff, and propose twice the limit afterwards", async () => {
    const { code, stdout } = await run("--max-calls", "2", "--reserve-calls", "1")
    const { next, ...ended } = parsed({ stdout })
    expect(ended).toMatchObject({ status: "budget_exceeded", toolCalls: 1, turns: 2 })
    expect(ended.detail).toContain("of a limit of 2 tool calls")
    expect(next[0]).toContain("--max-calls 4")
    expect(code).toBe(3)
  })

  it("keep a part of each of the others", async () => {
    for (const reserve of [
      ["--max-turns", "1", "--reserve-turns", "1"],
      ["--max-usd", "1", "--reserve-usd", "1"],
      ["--max-tokens", "9999", "--reserve-tokens", "9999"],
      ["--max-time", "10m", "--reserve-time", "10m"]
    ]) {
      // All of it is kept, so that there is nothing to investigate with: the first turn is the handoff.
      const { stdout } = await run(...reserve)
      expect([reserve, parsed({ stdout })]).toEqual([reserve, expect.objectContaining({ toolCalls: 0 })])
    }
  })

  it("lift a limit", async () => {
    const { code, stdout } = await run("--max-turns", "none", "--max-time", "none")
    expect(parsed({ stdout }).status).toBe("completed")
    expect(code).toBe(0)
  })

  it("hold spend to its limit, or let the last turn pass it", async () => {
    const over = parsed(await run("--max-usd", "0.002"))
    expect(over.costUsd).toBeGreaterThan(0.002)
    const held = parsed(await run("--max-usd", "0.002", "--money", "hold"))
    expect(held).toMatchObject({ status: "budget_exceeded", costUsd: 0, turns: 0 })
    const enough = parsed(await run("--max-usd", "0.05", "--money", "hold"))
    expect(enough.status).toBe("completed")
  })

  it("are refused with one sentence and exit code 2 where they make no sense", async () => {
    const store = ["--store", path("runs.db")]
    const cases = [
      [["--max-calls", "-1"], "a whole number of at least 0, or none, got -1"],
      [["--max-calls", "1.5"], "a whole number"],
      [["--max-calls", "99999999999999999999"], "a whole number"],
      [["--max-usd", "lots"], "an amount of at least 0, or none, got lots"],
      [["--max-usd", "Infinity"], "an amount"],
      [["--max-tokens", ""], "a whole number"],
      [["--max-time", "10"], "Expected a duration"],
      [["--reserve-calls", "none"], "a whole number of at least 0, got none"],
      [["--reserve-time", "soon"], "Expected a duration"],
      [["--reserve-usd", "-0.5"], "an amount"],
      [["--reserve-calls", "2"], "reserve.toolCalls is 2, more than the limit of none at all"],
      [["--max-calls", "1", "--reserve-calls", "2"], "reserve.toolCalls is 2, more than the limit of 1"],
      [["--money", "sometimes"], '"hold" | "over-by-one-turn"'],
      [["--repetition", "maybe"], '"on" | "off"'],
      [["--max-tool-calls", "3"], "--max-tool-calls"]
    ] as const
    for (const [args, sentence] of cases) {
      const ended = await cli("run", "--root", path("logs"), ...store, ...args, question)
      const said = ended.stderr.split("\n").filter((line) => line.startsWith("checkrein: "))
      expect([args, said.length, ended.code, ended.stdout]).toEqual([args, 1, 2, ""])
      expect(said[0]).toContain(sentence)
    }
  })

  it("leave the policy of another agent alone", async () => {
    const args = [
      "run",
      "--agent",
      agentModule("waiter"),
      "--store",
      "memory",
      "--repetition",
      "off",
      "hello"
    ]
    const { code, stderr } = await cli(...args)
    expect(stderr).toContain("--repetition is for the built-in log analyst")
    expect(code).toBe(2)
  })

  it("are all in the help, with examples", async () => {
    const { stdout } = await cli("run", "--help")
    for (const resource of ["turns", "calls", "usd", "tokens", "time"]) {
      expect(stdout).toContain(`--max-${resource}`)
      expect(stdout).toContain(`--reserve-${resource}`)
    }
    for (const flag of ["--money", "--repetition", "--reserve-calls 2 --reserve-time 30s"]) {
      expect(stdout).toContain(flag)
    }
  })
})

describe("the flags of checkrein run, with a model at an endpoint", () => {
  const forget = Effect.sync(() => {
    for (const name of Object.keys(process.env)) if (name.startsWith("LLM_")) delete process.env[name]
  })

  const endpoint = (script: Script.Script, check: () => Promise<void>) =>
    Effect.gen(function* () {
      const { baseUrl } = yield* ScriptedServer.start({ scripts: [script] })
      Object.assign(process.env, { LLM_BASE_URL: baseUrl, LLM_MODEL: script.name })
      yield* Effect.ensuring(Effect.promise(check), forget)
    }).pipe(Effect.scoped, Effect.runPromise)

  it("stop a model that repeats itself, unless they are told not to", () =>
    endpoint(Scripts.runaway, async () => {
      expect(parsed(await run("--max-turns", "8"))).toMatchObject({ reason: "stalled", turns: 5 })
      expect(parsed(await run("--max-turns", "8", "--repetition", "on"))).toMatchObject({ reason: "stalled" })
      const off = parsed(await run("--max-turns", "8", "--repetition", "off"))
      expect(off).toMatchObject({ reason: "max_turns", turns: 8 })
    }))

  it("hold the worst case only where LLM_MAX_OUTPUT_TOKENS says what it is", () =>
    endpoint(Scripts.plan, async () => {
      Object.assign(process.env, { LLM_PRICE_INPUT: "2", LLM_PRICE_OUTPUT: "12" })
      const held = () => run("--max-usd", "0.05", "--money", "hold")
      const unknown = await held()
      expect(unknown.code).toBe(1)
      expect(unknown.stderr).toContain("set LLM_MAX_OUTPUT_TOKENS")
      process.env.LLM_MAX_OUTPUT_TOKENS = "few"
      expect((await held()).stderr).toBe(
        "checkrein: LLM_MAX_OUTPUT_TOKENS cannot be used: set it to the most tokens that a reply may have, a whole number of at least 1"
      )
      process.env.LLM_MAX_OUTPUT_TOKENS = "500"
      expect(parsed(await held())).toMatchObject({ status: "completed" })
      process.env.LLM_MAX_OUTPUT_TOKENS = "50000"
      expect(parsed(await held())).toMatchObject({ status: "budget_exceeded", turns: 0, costUsd: 0 })
    }))
})
