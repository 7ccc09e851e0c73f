import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { setTimeout } from "node:timers/promises"
import { describe, expect, it } from "vitest"
import {
  agentModule,
  cli,
  elsewhere,
  main,
  parsed,
  Running,
  spawned,
  withoutEndpoint,
  workshop
} from "./support.ts"

const { path } = workshop()
withoutEndpoint()

mkdirSync(path("logs"))
writeFileSync(path("logs", "errors.log"), "ERROR timeout: worker 7\n")
writeFileSync(path("logs", "access.log"), "GET /\n")

const store = ["--store", path("runs.db")]
const waiter = ["--agent", agentModule("waiter")]
const go = { env: { CHECKREIN_TEST_GO: path("logs") } }

/** A run in its own process whose tool waits, once it does. */
const waiting = async (task: string, ...more: ReadonlyArray<string>) => {
  const running = new Running(["run", ...waiter, ...store, ...more, task])
  const started = await running.prints(/▶ \S+ {2}(\S+)\n/)
  await running.prints(/waiting to go/)
  return { running, runId: started[1] ?? "" }
}

describe("the command as a process", () => {
  it("says which Node it needs to one that is too old", async () => {
    const older = (version: string) =>
      `data:text/javascript,Object.defineProperty(process, "versions", { value: { node: "${version}" } })`
    const start = (version: string) =>
      new Running(["--version"], { env: { NODE_OPTIONS: `--import ${JSON.stringify(older(version))}` } })
        .ended
    const old = await start("22.18.0")
    expect([old.code, old.stdout, old.stderr]).toEqual([
      1,
      "",
      "checkrein: needs Node >= 22.19, and this is 22.18.0\n"
    ])
    expect((await start("22.19.0")).code).toBe(0)
    const text = readFileSync(new URL("../../package.json", import.meta.url), "utf8")
    expect(JSON.parse(text).engines.node).toBe(">=22.19")
  })

  it("prints its commands as they can be run: with npx, if that is how it was found", async () => {
    const bin = path("node_modules", ".bin")
    mkdirSync(bin, { recursive: true })
    symlinkSync(main, join(bin, "checkrein"))
    mkdirSync(path("bin"))
    symlinkSync(main, path("bin", "checkrein"))
    const hint = async (as: string, env: NodeJS.ProcessEnv = {}) => {
      const { stderr } = await new Running(["runs", "list", "--store", path("none.db")], { as, env }).ended
      return /`(.*) run` makes one/.exec(stderr)?.[1]
    }
    expect(await hint(join(bin, "checkrein"))).toBe("npx checkrein")
    expect(await hint(path("bin", "checkrein"))).toBe("checkrein")
    expect(await hint(main, { npm_lifecycle_event: "start" })).toBe("npm start --")
  })

  it("shows help with examples on stdout, and its version", async () => {
    const [help, version] = await Promise.all([spawned("runs", "approve", "--help"), spawned("--version")])
    expect(help.code).toBe(0)
    expect(help.stdout).toContain("EXAMPLES")
    expect(help.stdout).toContain("checkrein runs approve k7m2x9qtzb --resume")
    expect(help.stderr).toBe("")
    const manifest = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8"))
    expect(version.stdout.trim()).toBe(`checkrein v${manifest.version}`)
  })

  it("prints one JSON object and nothing else, without any warning of Node, and stores the run", async () => {
    const ended = await spawned("run", "--root", path("logs"), ...store, "--json", "Delete access.log")
    const { runId, status } = parsed(ended)
    expect([ended.code, status]).toEqual([3, "interrupted"])
    expect(ended.stdout.trimEnd().split("\n")).toHaveLength(1)
    expect(ended.stderr).not.toContain("ExperimentalWarning")
    const listed = parsed(await cli("runs", "list", ...store, "--json"))
    expect(listed.runs).toMatchObject([{ runId, reason: "approval" }])
    const approved = await spawned("runs", "approve", runId, ...store)
    expect([approved.code, approved.stdout.includes(`checkrein runs resume ${runId}`)]).toEqual([0, true])
    const resumed = await spawned("runs", "resume", runId, ...store)
    expect([resumed.code, resumed.stdout]).toEqual([0, "Deleted access.log.\n"])
  })

  it.skipIf(!existsSync("/dev/full"))(
    "fails when what it prints cannot be written, and says why",
    async () => {
      const listing = ["runs", "list", ...store, "--json"]
      await cli("run", "--root", path("logs"), ...store, "What is in there?")
      for (const args of [["--help"], listing]) {
        const { code, stderr } = await new Running(args, { stdout: "/dev/full" }).ended
        expect(code).toBe(1)
        expect(stderr).toMatch(/^checkrein: the output could not be written: ENOSPC.*\n$/)
      }
      expect(await new Running(listing, { stdout: "/dev/null" }).ended).toMatchObject({ code: 0, stderr: "" })
    }
  )

  it("ends with 2 when it was not understood, without the whole help", async () => {
    const ended = await spawned("run", "--max-turns", "many", "x")
    expect([ended.code, ended.stdout]).toEqual([2, ""])
    expect(ended.stderr.trimEnd().split("\n")).toHaveLength(2)
    expect(ended.stderr).toContain("Run `checkrein run --help` to see how it is used.")
  })
})

describe("a stderr that nobody reads", () => {
  it("lets a run go on to its answer when its reader goes away", async () => {
    const { running, runId } = await elsewhere(store, "ticker", "12", /turn 2 /)
    running.closeStderr()
    expect(await running.ended).toMatchObject({ code: 0, stdout: "It has ticked.\n" })
    const { run } = parsed(await cli("runs", "show", runId, ...store, "--json"))
    expect(run).toMatchObject({ status: "completed", turns: 13 })
  })

  it.skipIf(!existsSync("/dev/full"))("changes nothing of what is printed and of the exit code", async () => {
    const rooted = ["run", "--root", path("logs"), ...store]
    const commands: ReadonlyArray<ReadonlyArray<string>> = [
      [...rooted, "Which file mentions a timeout?"],
      [...rooted, "--json", "--max-calls", "0", "Which file mentions a timeout?"],
      ["runs", "show", "nobody", ...store, "--json"],
      ["runs", "recover", ...store],
      ["runs", "list", "--limit", "none"]
    ]
    // Ids and times are new with every run.
    const same = (stdout: string) => stdout.replaceAll(/\b[b-z2-9]{10}\b/g, "ID").replaceAll(/\d+/g, "N")
    for (const args of commands) {
      const heard = await spawned(...args)
      expect(heard.stderr).not.toBe("")
      const unheard = await new Running(args, { stderr: "/dev/full" }).ended
      expect([unheard.code, same(unheard.stdout)]).toEqual([heard.code, same(heard.stdout)])
    }
  })
})

describe("an agent module that ends the process", () => {
  const imports = `
    import { Effect, Layer, Schema } from ${JSON.stringify(import.meta.resolve("effect"))}
    import { Tool, Toolkit } from ${JSON.stringify(import.meta.resolve("effect/ai"))}
    import * as Agent from ${JSON.stringify(new URL("../../src/Agent.ts", import.meta.url).href)}
    import * as Scripted from ${JSON.stringify(new URL("../../src/provider/Scripted.ts", import.meta.url).href)}
    const toolkit = Toolkit.make(Tool.make("work", { success: Schema.String }))
    export const agent = Agent.make("leaver", { toolkit, limits: { turns: 5, time: "1 minute" } })
    const script = Scripted.make("leaver", [Scripted.call("work", {}), Scripted.text("Done.")])
    const usage = { promptTokens: 10, completionTokens: 5 }
    const layerOf = (work) => Layer.merge(toolkit.toLayer({ work: () => work }), Scripted.layer(script, { usage }))`
  const leaver = (name: string, code: string): ReadonlyArray<string> => {
    const file = path(`${name}.mjs`)
    writeFileSync(file, `${imports}\n${code}`)
    return ["run", "--agent", file, ...store]
  }
  const waits = 'Effect.andThen(Effect.sync(() => console.error("at work")), Effect.never)'
  const said = /^checkrein: ended by a call of process\.exit/m

  it.each([
    ["while it is loaded", "process.exit(0)"],
    ["with a code of its own", "process.exit(7)"],
    ["with the code of another ending", "process.exit(3)"],
    ["with no code", "process.exit()"],
    ["with a code that it has set before", "process.exitCode = 0; process.exit()"],
    ["from a tool", "export const layer = layerOf(Effect.sync(() => process.exit(0)))"],
    ["from a timer", `setTimeout(() => process.exit(0), 200); export const layer = layerOf(${waits})`],
    [
      "from a handler of errors",
      `process.on("uncaughtException", () => process.exit(0))
       setTimeout(() => { throw new Error("the timer") }, 200); export const layer = layerOf(${waits})`
    ]
  ])("has failed, and says so: %s", async (name, code) => {
    const ended = await spawned(...leaver(name.replaceAll(" ", "-"), code), "Work.")
    expect([ended.code, ended.stdout]).toEqual([1, ""])
    expect(ended.stderr).toMatch(said)
  })

  it("prints an error object with --json", async () => {
    const ended = await spawned(...leaver("json", "process.exit(0)"), "Work.", "--json")
    expect([ended.code, parsed(ended).error.tag]).toEqual([1, "ProcessExit"])
    expect(ended.stderr).toBe(`checkrein: ${parsed(ended).error.message}\n`)
  })

  it("ends with the code of the signal, if one has come", async () => {
    const code = `process.on("SIGTERM", () => process.exit(0)); export const layer = layerOf(${waits})`
    const running = new Running([...leaver("signal", code), "Work."])
    await running.prints(/at work/)
    running.signal("SIGTERM")
    const ended = await running.ended
    expect(ended.code).toBe(143)
    expect(ended.stderr).toMatch(said)
  })

  it("leaves an error that nobody has caught to Node", async () => {
    const code = `setTimeout(() => { throw new Error("the timer") }, 100); export const layer = layerOf(${waits})`
    const ended = await spawned(...leaver("thrower", code), "Work.")
    expect(ended.code).toBe(1)
    expect(ended.stderr).toContain("Error: the timer")
    expect(ended.stderr).not.toMatch(said)
  })
})

describe("Ctrl-C", () => {
  it("stops the run with its reason while a tool runs, says how to resume, and the run goes on", async () => {
    const { runId, running } = await waiting("Wait.")
    // Twice in a row is what arrives under npm, and is one Ctrl-C.
    running.signal("SIGINT")
    running.signal("SIGINT")
    const ended = await running.ended
    expect([ended.code, ended.stdout]).toEqual([130, ""])
    expect(ended.stderr).toContain(`run ${runId} stopped short: interrupted (cancelled): Ctrl-C`)
    const [, resume = ""] = /^ {2}checkrein (runs resume .*)$/m.exec(ended.stderr) ?? []
    expect(resume).toBe(`runs resume ${runId} ${waiter.join(" ")} ${store.join(" ")}`)
    const resumed = await new Running(resume.split(" "), go).ended
    expect([resumed.code, resumed.stdout]).toEqual([0, "It went.\n"])
  })

  it("reaches a run that nothing else keeps alive, which is not taken for one that is done", async () => {
    const never = new Running(["run", "--agent", agentModule("never"), "--store", "memory", "Wait."])
    await never.prints(/▶ never/)
    never.signal("SIGINT")
    expect((await never.ended).code).toBe(130)
  })

  it("ends the process at once when it comes again, with the code of the last signal, and says nothing of it", async () => {
    const { running } = await elsewhere(store, "stubborn", "Go.", /busy/)
    running.signal("SIGTERM")
    // Sooner, the second would be taken for what npm passes on of the first.
    await setTimeout(600)
    running.signal("SIGINT")
    const ended = await running.ended
    expect([ended.code, ended.stdout]).toEqual([130, ""])
    expect(ended.stderr).not.toContain("process.exit")
  })

  it("reaches a command whose agent module never ends loading", async () => {
    const module = path("loading.mjs")
    writeFileSync(module, 'console.error("loading"); await new Promise(() => {}); export const agent = 1')
    const loading = new Running(["run", "--agent", module, "--store", "memory", "Wait."])
    await loading.prints(/loading/)
    loading.signal("SIGINT")
    expect((await loading.ended).code).toBe(130)
  })

  it("is told as one JSON object too", async () => {
    const { runId, running } = await waiting("Wait.", "--json")
    running.signal("SIGTERM")
    const ended = await running.ended
    expect(ended.code).toBe(143)
    expect(parsed(ended)).toMatchObject({
      runId,
      status: "interrupted",
      reason: "cancelled",
      detail: "SIGTERM"
    })
  })

  it("leaves the outcome of a writing tool to a person", async () => {
    const { runId, running } = await waiting("Please send.")
    running.signal("SIGINT")
    expect((await running.ended).code).toBe(130)
    // Resumed in this process: what happened to the call is not known there either.
    const lost = await cli("runs", "resume", runId, ...waiter, ...store, "--json")
    expect(parsed(lost)).toMatchObject({
      reason: "unknown_outcome",
      unknown: [{ callId: "c1", tool: "send" }]
    })
    expect(parsed(lost).next[0]).toContain(`runs resolve ${runId} c1 happened`)
    const resolved = await cli(
      "runs",
      "resolve",
      runId,
      "c1",
      "happened",
      "--result",
      "was sent",
      "--resume",
      ...waiter,
      ...store
    )
    expect([resolved.code, resolved.stdout]).toEqual([0, "It was sent."])
  })
})

describe("a run that dies, or that another process stops", () => {
  it("is cancelled from here, and says why there", async () => {
    const { runId, running } = await waiting("Wait.", "--json")
    const cancelled = await cli("runs", "cancel", runId, "--reason", "wrong directory", ...store, "--json")
    expect(parsed(cancelled)).toEqual({
      runId,
      cancelled: true,
      status: "interrupted"
    })
    const ended = await running.ended
    expect(parsed(ended)).toMatchObject({
      runId,
      reason: "cancelled",
      detail: "wrong directory"
    })
    expect(ended.code).toBe(3)
    const again = await cli("runs", "cancel", runId, ...store)
    expect(again.stdout).toBe(`Nobody drives run ${runId}: it is interrupted (cancelled): wrong directory`)
    expect(again.code).toBe(0)
  })

  it("is still running after a kill, and goes on in another process", async () => {
    const { runId, running } = await waiting("Wait.")
    running.signal("SIGKILL")
    await running.ended
    const { stdout } = await cli("runs", "show", runId, ...store)
    expect(stdout).toContain(
      `${runId} is running, and a process drives it, unless that has died in the last 17 s`
    )
    expect(stdout.slice(stdout.indexOf("To go on"))).toMatch(
      /^To go on\n {2}checkrein runs show \S+ --follow .*\n {2}checkrein runs cancel /
    )
    const resumed = await new Running(["runs", "resume", runId, ...waiter, ...store], go).ended
    expect([resumed.code, resumed.stdout]).toEqual([0, "It went.\n"])
  })
})

describe("checkrein provider", () => {
  it("serves the scripts, and a run uses them as an endpoint", async () => {
    const server = new Running(["provider"])
    const [, address = ""] = await server.prints(/export LLM_BASE_URL=(\S+)\n/)
    const [, model = ""] = await server.prints(/export LLM_MODEL=(\S+)\n/)
    process.env.LLM_BASE_URL = address
    process.env.LLM_MODEL = "runaway"
    const ask = (...more: ReadonlyArray<string>) =>
      cli("run", "--root", path("logs"), ...store, ...more, "Which file mentions a timeout?")

    const answered = await ask("--model", model)
    expect(answered.stdout).toBe('errors.log mentions "timeout": ERROR timeout: worker 7')
    expect(answered.stderr).not.toContain("built-in script")

    const unpriced = await ask("--max-usd", "0.05")
    expect(unpriced.stderr).toBe(
      "checkrein: the price of the model runaway is not known, so money cannot be limited: set LLM_PRICE_INPUT and LLM_PRICE_OUTPUT (USD per million tokens)"
    )
    process.env.LLM_PRICE_INPUT = "2"
    process.env.LLM_PRICE_OUTPUT = "12"
    const priced = await ask("--max-usd", "0.001", "--json")
    expect(parsed(priced)).toMatchObject({
      status: "budget_exceeded",
      reason: "max_budget"
    })
    process.env.LLM_PRICE_OUTPUT = "much"
    const wrong = await ask()
    expect([wrong.code, wrong.stdout]).toEqual([1, ""])
    expect(wrong.stderr).toBe(
      "checkrein: LLM_PRICE_OUTPUT cannot be used: set it to a price of at least 0, in USD per million tokens"
    )
    delete process.env.LLM_PRICE_OUTPUT
    expect((await ask()).stderr).toContain("checkrein: LLM_PRICE_OUTPUT is not set: set it to a price")
    delete process.env.LLM_MODEL
    expect((await ask()).stderr).toBe(
      "checkrein: LLM_MODEL is not set: set it to the name of the model at LLM_BASE_URL"
    )

    const taken = await cli("provider", "--port", new URL(address).port)
    expect(taken.stderr).toContain(
      `the server cannot listen on port ${new URL(address).port}: listen EADDRINUSE: address already in use`
    )
    expect(taken.code).toBe(1)
    server.signal("SIGINT")
    expect((await server.ended).code).toBe(130)
  })
})
