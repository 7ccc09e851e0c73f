import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { describe, expect, it } from "vitest"
import { durationMs } from "../../src/cli/Amount.ts"
import { agentModule, cli, parsed, withoutEndpoint, workshop } from "./support.ts"

const { path } = workshop()
withoutEndpoint()

mkdirSync(path("logs"))
writeFileSync(path("logs", "errors.log"), "ERROR timeout: worker 7\n")
writeFileSync(path("logs", "access.log"), "GET /\n")

const store = ["--store", path("runs.db")]
const onLogs = (task: string, ...more: ReadonlyArray<string>) =>
  cli("run", "--root", path("logs"), ...store, ...more, task)

describe("checkrein run", () => {
  it("puts the answer on stdout and everything else on stderr", async () => {
    const ended = await onLogs("Which file mentions a timeout?")
    expect(ended.stdout).toBe('errors.log mentions "timeout": ERROR timeout: worker 7')
    expect(ended.stderr).toContain("the built-in script answers")
    expect(ended.stderr).toContain("scanned 2 of 2 files")
    expect(ended.stderr).toContain("■ completed: answered")
    expect(ended.code).toBe(0)
  })

  it("prints exactly one JSON object with --json", async () => {
    const ended = await onLogs("How many files are there?", "--json")
    expect(ended.stdout.split("\n")).toHaveLength(1)
    expect(parsed(ended)).toMatchObject({
      agent: `log-analyst@${path("logs")}`,
      status: "completed",
      reason: "answered",
      answer: "There are 2 files.",
      turns: 2,
      toolCalls: 1,
      next: []
    })
    expect(ended.code).toBe(0)
  })

  it("stops short with exit code 3, the reason, and the way to go on", async () => {
    const ended = await onLogs("Which file mentions a timeout?", "--max-turns", "1", "--json")
    const { next, runId, ...run } = parsed(ended)
    expect(run).toMatchObject({
      status: "max_turns_exceeded",
      reason: "max_turns",
      answer: null,
      turns: 1
    })
    expect(next).toEqual([`checkrein runs resume ${runId} --max-turns 2 --store ${path("runs.db")}`])
    expect(ended.stderr).toContain(`run ${runId} stopped short: max turns exceeded (max turns): `)
    expect(ended.stderr).toContain(next[0])
    expect(ended.code).toBe(3)
  })

  it("hands over what it has found when it stops at a limit", async () => {
    const limits = ["--max-turns", "3", "--reserve-turns", "1"]
    const ended = await onLogs("Which file mentions a timeout?", ...limits, "--json")
    const { handoff, runId } = parsed(ended)
    expect(handoff).toMatchObject({
      task: "Which file mentions a timeout?",
      summary: expect.stringContaining("I had to stop before I had an answer. The last that I saw: {"),
      sources: [{ name: path("logs") }],
      observations: [{ tool: "list_files", result: expect.stringContaining("errors.log") }],
      refused: [{ tool: "scan_archive", args: '{"text":"timeout"}' }],
      spend: { turns: { used: 3, limit: 3, reserve: 1 } }
    })
    const screen = ended.stderr.slice(ended.stderr.indexOf("checkrein: run "))
    expect(screen).toContain("\n  What the model hands over, in its own words:\n    > I had to stop before")
    expect(screen).toContain(`\n  Looked at:\n    - \`${path("logs")}\`\n`)
    expect(screen).toContain(`\nIn full: checkrein runs show ${runId} --handoff --store ${path("runs.db")}\n`)
    expect(parsed(await onLogs("How many files are there?", "--json")).handoff).toBeNull()
  })

  it("stops at a budget and proposes twice as much", async () => {
    const ended = await onLogs("Which file mentions a timeout?", "--max-usd", "0.001", "--json")
    const { next, ...run } = parsed(ended)
    expect(run).toMatchObject({
      status: "budget_exceeded",
      reason: "max_budget"
    })
    expect(next[0]).toContain("--max-usd 0.002")
    expect(ended.code).toBe(3)
  })

  it("appends trace lines to a file", async () => {
    const ended = await onLogs("How many files are there?", "--trace", path("deep", "trace.jsonl"), "--json")
    const lines = readFileSync(path("deep", "trace.jsonl"), "utf8").trimEnd().split("\n")
    const events = lines.map((line) => JSON.parse(line))
    expect(events.at(-1)).toMatchObject({
      runId: parsed(ended).runId,
      type: "run_stopped",
      reason: "answered"
    })
  })

  it("says in one sentence what is wrong", async () => {
    const cases = [
      [1, ["run", "--root", path("gone"), ...store, "x"], `there is no directory ${path("gone")}`],
      [1, ["run", "--root", path("logs"), "--store", path("logs"), "x"], "it is a directory"],
      [2, ["run", "--root", path("logs"), "--store", "postgres:h/db", "x"], "no URL of a Postgres database"],
      [2, ["runs", "list", "--store", "postgres://"], "no URL of a Postgres database"],
      [2, ["run", "--root", path("logs"), "--store", "mysql://h/db", "x"], "no mysql URL"],
      [2, ["runs", "list", "--store", "~/runs.db"], "write $HOME, or ./~/runs.db"],
      [2, ["run", "--root", path("logs"), "--store=~ann/runs.db", "x"], "a ~ that the shell has left"],
      [2, ["run", "--root", path("logs"), ...store, "--model", "big", "x"], "set LLM_BASE_URL"],
      [2, ["run", "--root", path("logs"), "--agent", "a.ts", ...store, "x"], "use one of them"],
      [2, ["run", ...store, " "], "the task is empty"],
      [2, ["run", ...store], "task"],
      [2, ["run", "--max-turns", "-1", ...store, "x"], "at least 0"],
      [2, ["run", "--max-time", "soon", ...store, "x"], "Expected a duration"],
      [2, ["run", "--max-time", "-1h", ...store, "x"], "Expected a duration"],
      [2, ["runs", "approve", "r", "--expires", "-1.5 h"], "Expected a duration"],
      [2, ["runs", "list", "--older-than", "-2h", ...store], "Expected an age"],
      [2, ["runs", "list", "--limit", "0", ...store], "Expected a whole number of at least 1, got 0"],
      [2, ["runs", "recover", "--concurrency", "1.5", ...store], "Expected a whole number of at least 1"],
      [2, ["demo", "plan", "--kill-after", "0", ...store], "Expected the number of a turn, from 1 on"],
      [2, ["demo", "plan", "--latency", "x", ...store], "Expected a duration such as 1200ms"],
      [1, ["run", ...store, "--root", path("gone"), "--", "-1h"], `there is no directory ${path("gone")}`],
      [2, ["run", "--nope", ...store, "x"], "--nope"],
      [2, ["nonsense"], "nonsense"]
    ] as const
    for (const [code, args, sentence] of cases) {
      const ended = await cli(...args)
      const said = ended.stderr.split("\n").filter((line) => line.startsWith("checkrein: "))
      expect([args, said.length, ended.code, ended.stdout]).toEqual([args, 1, code, ""])
      expect(said[0]).toContain(sentence)
    }
  })

  it("takes no empty name of an agent, a model, a directory or a file of traces, in any command", async () => {
    const driving = ["agent", "model", "trace"]
    const cases: ReadonlyArray<readonly [ReadonlyArray<string>, ReadonlyArray<string>]> = [
      [
        ["run", "x"],
        [...driving, "root"]
      ],
      [["runs", "resume", "r"], driving],
      [["runs", "recover"], driving],
      [["runs", "approve", "r"], driving],
      [["runs", "reject", "r"], driving],
      [["runs", "answer", "r", "x"], driving],
      [["runs", "resolve", "r", "c", "happened"], driving],
      [["runs", "show", "r"], ["agent"]]
    ]
    for (const [command, flags] of cases)
      for (const flag of flags)
        for (const empty of ["", " "]) {
          const args = [...command, ...store, `--${flag}`, empty]
          const { code, stderr, stdout } = await cli(...args)
          expect([args, code, stdout]).toEqual([args, 2, ""])
          expect(stderr).toMatch(new RegExp(`^checkrein: .*--${flag}.*an empty text$`, "m"))
        }
  })

  it("says it as JSON too, and still in one object", async () => {
    const wrong = await cli("run", "--json", "--root", path("gone"), ...store, "x")
    expect(parsed(wrong)).toEqual({
      error: {
        tag: "CommandFailed",
        message: `there is no directory ${path("gone")}`
      }
    })
    const usage = await cli("run", "--json", "--nope", "x")
    expect(parsed(usage).error).toEqual({
      tag: "UsageError",
      message: expect.stringContaining("--nope")
    })
    const empty = await cli("run", "--json", ...store, " ")
    expect(parsed(empty).error.tag).toBe("UsageError")
    expect([wrong.code, usage.code, empty.code]).toEqual([1, 2, 2])
  })

  it("keeps nothing of a run in memory", async () => {
    const ended = await cli("run", "--root", path("logs"), "--store", "memory", "How many files are there?")
    expect([ended.code, ended.stdout]).toEqual([0, "There are 2 files."])
    expect(existsSync("memory")).toBe(false)
  })

  it("reads durations as people write them", () => {
    const read = (text: string) => {
      const ms = durationMs(text)
      return ms._tag === "Some" ? ms.value : undefined
    }
    expect(["90s", "1.5h", "10 minutes", "250ms", "2 hours", "1 min"].map(read)).toEqual([
      90_000, 5_400_000, 600_000, 250, 7_200_000, 60_000
    ])
    expect(["", "10", "s", "-1s", "10 parsecs", "Infinity"].map(read)).toEqual(Array(6).fill(undefined))
  })
})

describe("checkrein run --agent", () => {
  const module = (name: string, text: string): string => {
    writeFileSync(path(name), text)
    return path(name)
  }

  const makes = `import { make } from ${JSON.stringify(new URL("../../src/Agent.ts", import.meta.url).href)}\n`

  it("runs the agent of a module with its own layer", async () => {
    process.env.CHECKREIN_TEST_GO = path("logs")
    const ended = await cli("run", "--agent", agentModule("waiter"), ...store, "Go.")
    expect([ended.code, ended.stdout]).toEqual([0, "It went."])
    delete process.env.CHECKREIN_TEST_GO
  })

  it("explains a module that is missing, no file, broken, throws, or exports something else", async () => {
    const cases = [
      [path("gone.ts"), "does not exist"],
      [path("logs"), "is not a file"],
      [module("broken.mjs", "export const agent = ("), "cannot be loaded"],
      [
        module("throws.mjs", "throw new RangeError('no such config')"),
        "cannot be loaded: RangeError: no such config"
      ],
      [module("object.mjs", "throw { code: 7, why: 'no config' }"), "{ code: 7, why: 'no config' }"],
      [module("needs.mjs", "import 'a-package-that-is-missing'"), "a-package-that-is-missing"],
      [
        module("empty.mjs", "const a = 1"),
        "exports no agent: it has to export `agent`, made with Agent.make of the checkrein whose command this is, and exports nothing"
      ],
      [module("function.mjs", "export const agent = () => {}"), "and exports agent (a function)"],
      [
        module("promise.mjs", "export default Promise.resolve({}); export const b = 1"),
        "and exports default (a Promise: await it in the module), b"
      ],
      [
        module(
          "effect.mjs",
          `import { Effect } from ${JSON.stringify(import.meta.resolve("effect"))}\nexport const agent = Effect.void`
        ),
        "and exports agent (an Effect)"
      ],
      [module("other.mjs", "export const agent = { name: 'x' }; export const b = 1"), "and exports agent, b"],
      [
        module("foreign.mjs", "export default { [Symbol.for('checkrein/Agent')]: {}, name: 'x', pipe() {} }"),
        "exports no agent: it has to export `agent`, made with Agent.make of the checkrein whose command this is"
      ],
      [
        module("layerless.mjs", `${makes}export const agent = make('x'); export const layer = 7`),
        "exports a `layer` that is not a Layer"
      ],
      [
        module("limits.mjs", `${makes}export default { agent: make('x'), budget: { usd: 5 } }`),
        "exports a `budget` that is not a function of a run"
      ]
    ] as const
    for (const [file, problem] of cases) {
      const ended = await cli("run", "--agent", file, ...store, "x")
      expect(ended.stderr).toContain(`checkrein: the agent module ${file} `)
      expect(ended.stderr).toContain(problem)
      expect([file, ended.code, ended.stdout]).toEqual([file, 1, ""])
    }
  })

  it("says so if what `budget` yields is no budget, or it fails", async () => {
    for (const [body, problem] of [
      ["async () => undefined", "yields [object Promise], and not an Effect of a BudgetPool"],
      ["({ tags: [tenant] }) => tenant.length", "fails: TypeError: "]
    ]) {
      const file = module(
        `budget-${body?.length}.mjs`,
        `${makes}export const agent = make('x'); export const budget = ${body}`
      )
      const ended = await cli("run", "--agent", file, "--store", "memory", "x")
      expect(ended.stderr).toContain(`checkrein: the agent module ${file}: its \`budget\` ${problem}`)
      expect(ended.code).toBe(1)
    }
  })

  it("says what a layer has failed with, also if that is a plain object", async () => {
    const index = new URL("../../src/index.ts", import.meta.url).href
    const file = module(
      "layer-fails.mjs",
      `import { Agent } from ${JSON.stringify(index)}
import { Effect, Layer } from ${JSON.stringify(import.meta.resolve("effect"))}
export const agent = Agent.make("x")
export const layer = Layer.effectDiscard(Effect.fail({ code: 7, why: "no \\u001b[2J config" }))`
    )
    const ended = await cli("run", "--agent", file, "--store", "memory", "x")
    expect(ended.stderr).not.toContain("[object Object]")
    expect(ended.stderr).not.toContain("\u001b")
    expect(ended.stderr).toContain("code: 7")
    expect(ended.code).toBe(1)
  })

  const noModel =
    "the agent has no model: have its module export a `layer` that provides a LanguageModel, or set LLM_BASE_URL and LLM_MODEL"
  const index = JSON.stringify(new URL("../../src/index.ts", import.meta.url).href)

  it("refuses an agent without a model before anything of the run is stored, and says where to get one", async () => {
    const file = module(
      "modelless.ts",
      `import { Agent } from ${index}\nexport const agent = Agent.make("modelless")`
    )
    const own = ["--store", path("modelless.db")]
    const ended = await cli("run", "--agent", file, ...own, "x")
    expect([ended.code, ended.stdout, ended.stderr]).toEqual([1, "", `checkrein: ${noModel}`])
    const asked = await cli("run", "--agent", file, ...own, "--json", "x")
    expect([asked.code, parsed(asked)]).toEqual([1, { error: { tag: "CommandFailed", message: noModel } }])
    expect(parsed(await cli("runs", "list", ...own, "--json"))).toEqual({ runs: [] })
  })

  const code = (layer: string) => `import { Agent } from ${index}
import { Scripted } from ${JSON.stringify(new URL("../../src/provider/index.ts", import.meta.url).href)}
import { Context, Effect, Layer, Schema } from ${JSON.stringify(import.meta.resolve("effect"))}
import { Tool, Toolkit } from ${JSON.stringify(import.meta.resolve("effect/ai"))}
const tools = Toolkit.make(Tool.make("q", { success: Schema.String }))
const Db = Context.Service("my/Db")
const script = Scripted.make("own", [Scripted.call("q", {}), Scripted.text("mine")])
const model = Scripted.layer(script, { model: "mine", usage: { promptTokens: 10, completionTokens: 5 } })
export const agent = Agent.make("own", { toolkit: tools })
export const layer = ${layer}`

  it("says in one sentence what a module has not provided, and not as a bug of its own", async () => {
    const own = ["--store", path("incomplete.db")]
    for (const [name, layer, lack] of [
      ["handlerless", "model", "no handler of q is provided: add the layer of its toolkit"],
      [
        "dbless",
        "Layer.merge(tools.toLayer(Effect.map(Db, (db) => ({ q: () => Effect.succeed(db) }))), model)",
        "Service not found: my/Db"
      ]
    ] as const) {
      const file = module(`${name}.mjs`, code(layer))
      const ended = await cli("run", "--agent", file, ...own, "x")
      expect([ended.code, ended.stdout, ended.stderr]).toEqual([
        1,
        "",
        `checkrein: the agent module ${file} is not complete (${lack}): what its agent needs belongs into the \`layer\` that it exports`
      ])
    }
  })

  it("prices and caps the model of a module as the environment says, if that is LLM_MODEL, or else as the module does", async () => {
    const handler = 'tools.toLayer({ q: () => Effect.succeed("x") })'
    const file = module("prices.mjs", code(`Layer.merge(${handler}, model)`))
    const held = ["--store", "memory", "--max-usd", "1", "--money", "hold"]
    const run = async (env: Record<string, string>, agent = file) => {
      Object.assign(process.env, env)
      const ended = await cli("run", "--agent", agent, ...held, "--json", "x")
      for (const name of Object.keys(env)) delete process.env[name]
      return parsed(ended)
    }
    const prices = { LLM_PRICE_INPUT: "2", LLM_PRICE_OUTPUT: "12" }
    const cap = { LLM_MAX_OUTPUT_TOKENS: "100" }
    const unpriced = (await run({ ...prices, ...cap })).error.message
    expect(unpriced).toContain("the price of the model mine is not known")
    expect(unpriced).toContain("(USD per million tokens) with LLM_MODEL=mine, or")
    expect(unpriced).toContain('provide PriceBook.layer({ "mine": { input, output } })')
    const uncapped = (await run({ ...prices, LLM_MODEL: "mine" })).error.message
    expect(uncapped).toContain("set RequestParams.maxOutputTokens")
    expect(uncapped).toContain("LLM_MAX_OUTPUT_TOKENS sets maxOutputTokens")
    const costs = { status: "completed", answer: "mine", costUsd: 0.00016 }
    expect(await run({ ...prices, ...cap, LLM_MODEL: "mine" })).toMatchObject(costs)
    const priced = module(
      "priced.mjs",
      `import { PriceBook } from ${index}
import { RequestParams } from ${JSON.stringify(new URL("../../src/provider/index.ts", import.meta.url).href)}
${code(`Layer.mergeAll(${handler}, model, PriceBook.layer({ mine: { input: 2, output: 12 } }), Layer.succeed(RequestParams.RequestParams, { maxOutputTokens: 100 }))`)}`
    )
    expect(await run({}, priced)).toMatchObject(costs)
  })

  it("takes the model that an agent brings without a layer beside it", async () => {
    const provider = JSON.stringify(new URL("../../src/provider/index.ts", import.meta.url).href)
    const file = module(
      "own-model.ts",
      `import { Agent } from ${index}
import { Scripted } from ${provider}
const model = Scripted.layer(Scripted.make("own", [Scripted.text("mine")]), { usage: "omitted" })
export const agent = Agent.make("own").pipe(Agent.provide(model))`
    )
    const ended = await cli("run", "--agent", file, ...store, "x")
    expect([ended.code, ended.stdout]).toEqual([0, "mine"])
  })

  it("leaves a run as it was that is resumed without a model, and still tells the answer of one that has it", async () => {
    const file = path("lost-model.ts")
    const own = ["--store", path("lost-model.db")]
    const make = `export const agent = Agent.make("ticker", { limits: { time: "1 minute" } })`
    writeFileSync(file, `import { Agent } from ${index}\n${make}`)
    const ticker = ["run", "--json", "--agent", agentModule("ticker"), ...own]
    const atLimit = parsed(await cli(...ticker, "--max-turns", "1", "2")).runId
    const done = parsed(await cli(...ticker, "0")).runId
    const journal = async () =>
      parsed(await cli("runs", "show", atLimit, "--events", "--json", ...own)).events
    const before = await journal()
    const resume = (runId: string) =>
      cli("runs", "resume", runId, "--max-turns", "9", "--agent", file, ...own)
    const refused = await resume(atLimit)
    expect([refused.code, refused.stderr]).toEqual([1, `checkrein: ${noModel}`])
    expect(await journal()).toEqual(before)
    expect(await resume(done)).toMatchObject({ code: 0, stdout: "It has ticked." })
  })
})
