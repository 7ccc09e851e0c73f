/**
 * The README is true: its code is the code of these files, all of it runs, and its figures are measured here.
 */
import { execFile } from "node:child_process"
import { once } from "node:events"
import { globSync, mkdtempSync, readFileSync, rmSync } from "node:fs"
import { createServer, request } from "node:http"
import type { AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"
import { afterAll, beforeAll, describe, expect, it } from "@effect/vitest"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Console from "effect/Console"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { HttpRouter, HttpServer, HttpServerResponse } from "effect/http"
import * as Layer from "effect/Layer"
import * as Queue from "effect/Queue"
import * as Stream from "effect/Stream"
import { TestClock } from "effect/testing"
import { Agent, MemoryRunStore, PriceBook, RunStore } from "../../src/index.ts"
import { Scripted, ScriptedServer } from "../../src/provider/index.ts"
import { CrashKit, StoppingCases, StoppingReport } from "../../src/testing/index.ts"
import { cli, parsed } from "../cli/support.ts"
import { analyst, LogTools, LogToolsLive } from "./analyst.ts"
import { cleanUp } from "./approval.ts"
import { allAtOnce } from "./budget.ts"
import { Billing, BillingLive, Payments } from "./charge.ts"
import { inWords } from "./endings.ts"
import { inFiveTurns } from "./handoff.ts"
import { Host, serve } from "./host.ts"
import { Routes } from "./http.ts"
import { Store, Telemetry, Trace } from "./layers.ts"
import { Service, Tests, TestsLive } from "./operation.ts"
import { since } from "./output.ts"
import { readme, root } from "./snippets.ts"
import { sse } from "./sse.ts"
import { goOn, stopAfterASecond } from "./stop.ts"
import { watch } from "./stream.ts"
import { report } from "./subAgent.ts"

const text = readFileSync(join(root, "README.md"), "utf8")
const ours = ["check.ts", "snippets.ts", "readme.test.ts"]

const prices = PriceBook.layer({ m: { input: 2, output: 12 } })

const model = (...lines: ReadonlyArray<Scripted.Line>) =>
  Scripted.layer(Scripted.make("script", lines), {
    model: "m",
    usage: { promptTokens: 100, completionTokens: 10 }
  })

const world = (...lines: ReadonlyArray<Scripted.Line>) =>
  Layer.mergeAll(LogToolsLive, model(...lines), prices, MemoryRunStore.layer)

/** Runs an effect on the TestClock, a minute long. */
const passing = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const fiber = yield* Effect.forkChild(effect)
    yield* TestClock.adjust("1 minute")
    return yield* Fiber.join(fiber)
  })

const read = Scripted.call("read_file", { path: "errors.log" })
const answer = Scripted.text("errors.log mentions a timeout.")

// The examples name files by relative paths.
const home = process.cwd()
let folder = home
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "checkrein-readme-"))
  process.chdir(folder)
})
afterAll(() => {
  process.chdir(home)
  rmSync(folder, { recursive: true, force: true })
})

describe("the README", () => {
  it("has the code of every example, and no other", () => {
    const examples = globSync("*.ts", { cwd: import.meta.dirname }).filter((file) => !ours.includes(file))
    const code = examples.map((file) => readFileSync(join(import.meta.dirname, file), "utf8"))
    expect(new Set(readme().map((snippet) => snippet.code))).toEqual(new Set(code))
  })

  it("shows a first agent in twelve lines", () => {
    const [hello] = readme()
    expect(hello?.code.split("\n").filter((line) => line.trim() !== "").length).toBeLessThanOrEqual(12)
  })

  it("lists its sections once before the first of them", () => {
    const titles = [...text.matchAll(/^## (.+)$/gm)].map(([, title = ""]) => title)
    const anchors = titles.map((title) =>
      title
        .toLowerCase()
        .replace(/[^\w\- ]/g, "")
        .replaceAll(" ", "-")
    )
    const intro = text.slice(0, text.indexOf("\n## "))
    const listed = [...intro.matchAll(/\]\(#([^)]+)\)/g)].map(([, anchor]) => anchor)
    expect(listed.toSorted()).toEqual(anchors.toSorted())
  })

  it("names the two commands", () => {
    expect(text).toContain("npm ci && npm start")
    expect(text).toContain("npm ci && npm test")
  })

  it("names the scripts and the files that there are", () => {
    const { scripts } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"))
    for (const [, name] of text.matchAll(/npm run (\w+)/g)) expect(scripts).toHaveProperty(String(name))
    for (const [, path] of text.matchAll(/`((?:src|test)\/[\w/.]*)`/g)) {
      expect(globSync(String(path), { cwd: root })).toHaveLength(1)
    }
  })

  it("names every option of every command as the help does", async () => {
    const helps: Array<string> = []
    const ofRuns = "list show approve reject answer resolve resume cancel recover audit delete".split(" ")
    for (const args of [["run"], ...ofRuns.map((name) => ["runs", name])])
      helps.push((await cli(...args, "--help")).stdout)
    for (const args of [["demo"], ["provider"]]) helps.push((await cli(...args, "--help")).stdout)
    const known = helps.join("\n")
    const section = text.slice(text.indexOf("## Command line"), text.indexOf("## Figures"))
    const named = [...section.matchAll(/--[a-z][a-z-]+/g)].map(([flag]) => flag)
    expect(named).not.toEqual([])
    for (const flag of named) expect(known).toContain(flag)
  })

  it.live("quotes of a turn cap what the demo measures", () =>
    Effect.gen(function* () {
      const Demo = yield* Effect.promise(() => import("../../src/demo/Demo.ts"))
      const quoted = [...text.matchAll(/([\d,]+)(?:\s+tokens)?\s+with\s+a\s+cap\s+of\s+(\d+)/g)]
      expect(quoted.length).toBeGreaterThanOrEqual(3)
      const sent = quoted.map(([, tokens]) => Number(tokens?.replaceAll(",", "")))
      expect(text).toContain(`${((sent[1] ?? 0) / (sent[0] ?? 1)).toFixed(1)} times as many`)
      expect(((sent[2] ?? 0) / (sent[1] ?? 1)).toFixed(2)).toBe("0.50")
      for (const [, tokens, turns] of quoted) {
        const result = yield* Demo.run("runaway", { limits: { turns: Number(turns) } })
        expect([turns, result.promptTokens.toLocaleString("en")]).toEqual([turns, tokens])
      }
    }).pipe(Effect.provide(MemoryRunStore.layer))
  )

  it("has a table of figures that its own commands bring about", async () => {
    const rows = [...text.matchAll(/^\| `(demo [^`]+)` \| (.+) \|$/gm)].filter(([row]) => row.includes("$"))
    expect(rows.length).toBeGreaterThanOrEqual(6)
    for (const [, command = "", cells] of rows) {
      const ended = await cli(...command.split(" "), "--json", "--store", "memory")
      const { costUsd, promptTokens, status, toolRuns, turns } = parsed(ended)
      const measured = [status, turns, toolRuns, promptTokens.toLocaleString("en"), `$${costUsd.toFixed(6)}`]
      expect([command, cells]).toEqual([command, measured.join(" | ")])
    }
  })
})

describe("its examples", () => {
  it.live("a first agent: a process of its own, a real endpoint, an answer", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const script = Scripted.make("small", [
          Scripted.call("read_log"),
          (transcript) => Scripted.text(transcript.saw("timeout") ? "Worker 7 timed out." : "Nothing.")
        ])
        const { baseUrl } = yield* ScriptedServer.start({ scripts: [script], port: 0 })
        const flags = ["--no-warnings", "--conditions=@checkrein/source"]
        const { stderr, stdout } = yield* Effect.promise(() =>
          promisify(execFile)(process.execPath, [...flags, join(import.meta.dirname, "hello.ts")], {
            env: { ...process.env, LLM_BASE_URL: baseUrl, LLM_MODEL: "small" }
          })
        )
        expect([stdout.trim(), stderr]).toEqual(["Worker 7 timed out.", ""])
      })
    )
  )

  for (const [decision, said] of [
    [Agent.approve(), "deleted errors.log"],
    [Agent.approve({ args: { path: "old.log" } }), "old.log was gone"],
    [Agent.reject("keep it"), "declined it: keep it"],
    [Agent.reject(), "declined it. It did not run."]
  ] as const) {
    it.effect(`approval: ${JSON.stringify(decision)}`, () =>
      Effect.gen(function* () {
        const { run } = yield* cleanUp(decision)
        expect(run.messages.find(({ role }) => role === "tool")?.content).toContain(said)
      }).pipe(
        Effect.provide(world(Scripted.call("delete_file", { path: "errors.log" }), Scripted.text("done")))
      )
    )
  }

  it.effect(
    "stop and resume, in two lives of one SQLite file: the file is read again, and the question answered",
    () =>
      Effect.gen(function* () {
        const life = Layer.mergeAll(LogToolsLive, model(read, answer), prices, Store)
        yield* passing(stopAfterASecond).pipe(Effect.provide(life, { local: true }))
        yield* Effect.gen(function* () {
          const store = yield* RunStore.RunStore
          expect(yield* store.summary("night-shift")).toMatchObject({
            status: "interrupted",
            reason: "cancelled",
            detail: "user pressed Stop"
          })
          const { output, run } = yield* passing(goOn)
          expect(output).toBe("errors.log mentions a timeout.")
          expect(run.turns).toBe(2)
          const started = (yield* store.read("night-shift")).filter(({ type }) => type === "tool_start")
          expect(started).toHaveLength(2)
        }).pipe(Effect.provide(life, { local: true }))
      })
  )

  it.effect("resume: what ran into the turn limit goes on with more", () =>
    Effect.gen(function* () {
      const short = { runId: "night-shift", limits: { turns: 1 } }
      const exit = yield* Effect.flip(passing(Agent.run(analyst, "Which file?", short)))
      expect(exit).toMatchObject({ _tag: "MaxTurnsExceeded", run: { toolCalls: 0 } })
      expect((yield* passing(goOn)).output).toBe("errors.log mentions a timeout.")
    }).pipe(Effect.provide(world(read, answer)))
  )

  const guess = Scripted.call("read_file", { path: "guess.log" })
  const expensive = Scripted.call(
    "read_file",
    { path: "errors.log" },
    { usage: { promptTokens: 100_000, completionTokens: 10 } }
  )
  const deletion = Scripted.call("delete_file", { path: "errors.log" })
  const endings: ReadonlyArray<readonly [string, ReadonlyArray<Scripted.Line>, string | RegExp]> = [
    ["Completed", [read, answer], "errors.log mentions a timeout."],
    [
      "MaxTurnsExceeded",
      Array.from({ length: 20 }, (_, n) => Scripted.call("read_file", { path: `${n}` })),
      "no answer in 20 turns"
    ],
    ["BudgetExceeded", [expensive], "no answer for 0.05 usd"],
    ["ApprovalRequired", [deletion], "please decide about delete_file"],
    ["ProviderUnavailable", [Scripted.fail(500)], "the model is away, try again later"],
    ["RunStalled", [guess, guess, guess, guess, guess], "it keeps calling read_file"],
    ["RunFailed", [Scripted.fail(401)], /LLM_API_KEY/]
  ]
  for (const [tag, lines, words] of endings) {
    it.effect(`endings: ${tag}`, () =>
      Effect.gen(function* () {
        const said = yield* passing(inWords)
        if (typeof words === "string") expect(said).toBe(words)
        else expect(said).toMatch(words)
      }).pipe(Effect.provide(world(...lines)))
    )
  }

  it.effect("streaming: progress, text as it is written, and the end", () =>
    Effect.gen(function* () {
      const seen: Array<string> = []
      const caught: Console.Console = Object.assign(Object.create(console), {
        log: (line: string) => seen.push(line)
      })
      yield* passing(watch).pipe(Effect.provideService(Console.Console, caught))
      expect(seen[0]).toBe("read_file: reading errors.log")
      const written = seen.slice(1, -1).map((line) => line.replace("writes: ", ""))
      expect(written.length).toBeGreaterThan(1)
      expect(written.join("")).toBe("errors.log mentions a timeout.")
      expect(seen.at(-1)).toBe("stopped: answered")
    }).pipe(Effect.provide(world(read, answer)))
  )

  it.effect("a sub-agent answers its lead, and its cost is the lead's too", () =>
    Effect.gen(function* () {
      expect(yield* passing(report)).toBe("It was slow because of a timeout.")
      const store = yield* RunStore.RunStore
      const [child, lead] = [...(yield* store.list())].sort((a, b) => b.runId.length - a.runId.length)
      expect(child?.runId.startsWith(`${lead?.runId}/`)).toBe(true)
      expect(child?.costUsd).toBeGreaterThan(0)
      expect(lead?.costUsd).toBeCloseTo(3 * (child?.costUsd ?? 0), 9)
    }).pipe(
      Effect.provide(
        world((transcript) => {
          if (!transcript.tools.includes("ask_analyst")) return answer
          return Scripted.call("ask_analyst", { task: "Which file mentions a timeout?" })
        }, Scripted.text("It was slow because of a timeout."))
      )
    )
  )

  it.effect("an output comes out typed, and prose does not complete the run", () =>
    Effect.gen(function* () {
      expect(yield* since).toBe("a timeout, since 2026")
    }).pipe(
      Effect.provide(
        world(
          Scripted.text("It was a timeout."),
          Scripted.call("submit_result", {
            file: "errors.log",
            cause: "a timeout",
            since: "2026-11-29T00:00:00Z"
          })
        )
      )
    )
  )

  it.effect("a limit leaves a handoff that names what was read, and the model's own summary", () =>
    Effect.gen(function* () {
      const markdown = yield* passing(inFiveTurns)
      for (const words of [
        "Why was the night slow?",
        "read_file",
        "errors.log",
        "so far: a timeout",
        "turns"
      ])
        expect(markdown).toContain(words)
    }).pipe(
      Effect.provide(
        world(
          ...[0, 1, 2, 3, 4].map(
            (n) => (transcript: Scripted.Transcript) =>
              JSON.stringify(transcript.messages).includes("Write a handoff now")
                ? Scripted.text("so far: a timeout")
                : Scripted.call("read_file", { path: n === 0 ? "errors.log" : `${n}.log` })
          )
        )
      )
    )
  )

  it.effect("runs of one pool together spend no more than it has, but for a turn each", () =>
    Effect.gen(function* () {
      const endings = yield* passing(allAtOnce)
      expect(endings.map(({ _tag }) => _tag)).toEqual(["BudgetExceeded", "BudgetExceeded", "BudgetExceeded"])
      for (const ending of endings) expect("message" in ending && ending.message).toContain("team-a")
    }).pipe(
      Effect.provide(
        Layer.merge(
          world(...Array.from({ length: 9 }, (_, n) => Scripted.call("read_file", { path: `${n}.log` }))),
          // So dear that the pool is used up before the limits of the runs are.
          PriceBook.layer({ m: { input: 100, output: 100 } })
        )
      )
    )
  )

  const idIn = ({ toolResults: [first = ""] }: Scripted.Transcript): unknown =>
    /as operation (\S+)\. /.exec(first)?.[1]

  it.effect("work that goes on is started once, looked at, and ends", () =>
    Effect.gen(function* () {
      const tester = Agent.make("tester", { toolkit: Tests, limits: { usd: 1 } }).pipe(
        Agent.provide(TestsLive)
      )
      const { output, run } = yield* passing(Agent.run(tester, "Does the export work?", { runId: "r" }))
      expect(output).toBe("It works.")
      const started = (yield* (yield* RunStore.RunStore).read("r")).filter(
        (event) => event.type === "tool_start" && event.tool === "start_test"
      )
      expect(started).toHaveLength(1)
      expect(run.operations).toMatchObject([{ label: "test export", ended: { outcome: "succeeded" } }])
    }).pipe(
      Effect.provide(
        world(
          Scripted.call("start_test", { name: "export" }),
          Scripted.call("start_test", { name: "export" }),
          (transcript) => Scripted.call("observe_test", { id: idIn(transcript) }),
          (transcript) => Scripted.call("observe_test", { id: idIn(transcript) }, { latency: "1 minute" }),
          Scripted.text("It works.")
        )
      )
    )
  )

  for (const [operations, outcome, by] of [
    ["cancel", "cancelled", "cancel"],
    [{ grace: "2 minutes" }, "succeeded", "grace"]
  ] as const) {
    it.effect(`at a limit it is dealt with as the policy says: ${JSON.stringify(operations)}`, () =>
      Effect.gen(function* () {
        const limits = { turns: 1, usd: 1 }
        const tester = Agent.make("tester", { toolkit: Tests, limits, policy: { operations } })
        const twice = Agent.resume(tester, "r", { limits: { turns: 2 } })
        yield* Effect.flip(Agent.run(tester, "Does the export work?", { runId: "r" }))
        const fiber = yield* Effect.forkChild(Effect.flip(twice))
        yield* TestClock.adjust("2 minutes")
        expect(yield* Fiber.join(fiber)).toMatchObject({ _tag: "MaxTurnsExceeded" })
        const events = yield* (yield* RunStore.RunStore).read("r")
        expect(events.find(({ type }) => type === "operation_ended")).toMatchObject({ outcome, by })
        expect((yield* Service).size).toBe(operations === "cancel" ? 0 : 1)
      }).pipe(
        Effect.provide(
          Layer.merge(
            TestsLive,
            world(Scripted.call("start_test", { name: "a" }), Scripted.call("observe_test", { id: "b" }))
          )
        )
      )
    )
  }

  it.effect("a host starts, has a person decide, and goes on", () =>
    Effect.gen(function* () {
      const summary = yield* serve.pipe(Effect.scoped, Effect.provide(Host))
      expect(summary).toMatchObject({ runId: "ticket-7", status: "completed" })
      const { state } = yield* RunStore.load("ticket-7")
      expect(state.messages.find(({ role }) => role === "tool")?.content).toBe("deleted errors.log")
    }).pipe(
      Effect.provide(world(Scripted.call("delete_file", { path: "errors.log" }), Scripted.text("done")))
    )
  )

  const withoutComments = (body: string) => body.replaceAll(/^:\n\n/gm, "")
  const bodyOf = (response: HttpServerResponse.HttpServerResponse) =>
    Effect.promise(async () => withoutComments(await HttpServerResponse.toWeb(response).text()))

  it.effect("server-sent events: all of them, and then what the run has failed with", () =>
    Effect.gen(function* () {
      const context = yield* Effect.context<RunStore.RunStore | Agent.Services<typeof analyst>>()
      const asked = (runId: string) =>
        bodyOf(sse(Stream.provideContext(Agent.stream(analyst, "Free some space.", { runId }), context)))
      const body = yield* asked("r")
      expect(body).toMatch(/^id: 0\ndata: \{"v":1,/)
      expect(body).toMatch(/"type":"run_stopped","status":"interrupted"/)
      expect(body).toMatch(/\n\nevent: ended\ndata: "run r stopped: [^\n]*"\n\n$/)

      const [call] = (yield* (yield* RunStore.RunStore).summary("r")).approvals
      if (call !== undefined) yield* Agent.decide(call, Agent.reject())
      expect(yield* asked("r")).toMatch(/"type":"run_stopped","status":"completed"[^\n]*\n\n$/)
    }).pipe(Effect.provide(world(deletion, Scripted.text("done"))))
  )

  it.effect("server-sent events begin before there is any, and keep their connection alive", () =>
    Effect.gen(function* () {
      const pieces = yield* Queue.unbounded<string>()
      const { body } = sse(Stream.never)
      const bytes = body._tag === "Stream" ? body.stream : Stream.empty
      yield* bytes.pipe(
        Stream.decodeText(),
        Stream.runForEach((piece) => Queue.offer(pieces, piece)),
        Effect.forkChild
      )
      expect(yield* Queue.take(pieces)).toBe(":\n\n")
      yield* TestClock.adjust("16 seconds")
      expect(yield* Queue.take(pieces)).toBe(":\n\n")
    })
  )

  it.live("a host behind HTTP: start, status, a verdict, events from where they were left, cancel", () =>
    Effect.gen(function* () {
      const asked: Array<string> = []
      const script = Scripted.make("m", (turn, { task }) => {
        asked.push(task)
        if (task === "slow") return Scripted.text("late", { latency: "1 hour" })
        return turn === 0 ? deletion : Scripted.text("done")
      })
      const usage = { promptTokens: 100, completionTokens: 10 }
      const app = HttpRouter.toWebHandler(
        Routes.pipe(
          Layer.provide(Host),
          Layer.provide([LogToolsLive, Scripted.layer(script, { usage }), MemoryRunStore.layer]),
          Layer.provide(PriceBook.layer({ m: { input: 2, output: 12 } })),
          Layer.provide(HttpServer.layerServices)
        ),
        { disableLogger: true }
      )
      yield* Effect.addFinalizer(() => Effect.promise(() => app.dispose()))
      yield* Effect.promise(async () => {
        const send = async (
          method: string,
          path: string,
          body?: string,
          headers: Record<string, string> = {}
        ) => {
          const init = { method, headers, ...(body === undefined ? undefined : { body }) }
          const response = await app.handler(new Request(`http://host/runs/${path}`, init))
          return [response.status, await response.text()] as const
        }
        const status = async (path: string) => JSON.parse((await send("GET", path))[1])
        const seen = (text: string) => [...text.matchAll(/^id: (\d+)$/gm)].map(([, id]) => Number(id))

        expect((await send("GET", "nothing"))[0]).toBe(404)
        expect((await send("GET", "nothing/events"))[0]).toBe(404)
        expect((await send("POST", "a%00b", "Free some space."))[0]).toBe(400)
        expect(await send("POST", "a", "Free some space.")).toEqual([202, '{"runId":"acme:a"}'])
        const [, first] = await send("GET", "a/events")
        expect(first).toMatch(/"type":"run_stopped","status":"interrupted"/)
        expect((await send("GET", "a/result"))[0]).toBe(409)
        expect((await send("POST", "a", "slow"))[0]).toBe(202)

        const [{ argsDigest, callId }] = (await status("a")).approvals
        const wrong = JSON.stringify({ callId, argsDigest: "another", approve: true })
        expect((await send("POST", "a/verdict", wrong))[0]).toBe(409)
        for (const malformed of ["{}", "{", ""])
          expect((await send("POST", "a/verdict", malformed))[0]).toBe(400)
        const verdict = JSON.stringify({ callId, argsDigest, approve: true })
        expect((await send("POST", "a/verdict", verdict))[0]).toBe(202)
        const last = String(seen(first).at(-1))
        const [, rest] = await send("GET", "a/events", undefined, { "last-event-id": last })
        expect(seen(rest)[0]).toBe(Number(last) + 1)
        expect(rest).toMatch(/"type":"run_stopped","status":"completed"/)
        expect(await send("GET", "a/result")).toEqual([200, '{"output":"done"}'])
        const over = { "last-event-id": String(seen(rest).at(-1)) }
        expect(await send("GET", "a/events", undefined, over)).toEqual([204, ""])
        expect((await send("POST", "a/verdict", verdict))[0]).toBe(409)
        expect(asked).not.toContain("slow")

        await send("POST", "b", "slow")
        expect((await send("DELETE", "b"))[0]).toBe(202)
        expect((await send("GET", "b/events"))[1]).toMatch(/"reason":"cancelled","detail":"the user"/)

        await send("POST", "c", "Free some space.")
        await send("GET", "c/events")
        const waiting = (await status("c")).approvals[0]
        await send("DELETE", "c")
        const stale = JSON.stringify({
          callId: waiting.callId,
          argsDigest: waiting.argsDigest,
          approve: true
        })
        expect(await send("POST", "c/verdict", stale)).toEqual([409, '{"error":"the run was cancelled"}'])
        expect((await status("c")).reason).toBe("cancelled")
      })
    }).pipe(Effect.scoped)
  )

  it.effect("its agents keep their promises wherever they are stopped", () =>
    Effect.gen(function* () {
      const lines = (...replies: ReadonlyArray<Scripted.Line>) => Layer.merge(model(...replies), prices)
      const reports = [
        yield* CrashKit.check({
          agent: analyst,
          input: "Free some space.",
          layer: Layer.merge(LogToolsLive, lines(read, deletion, Scripted.text("done"))),
          silent: ["delete_file"],
          ways: ["crash"]
        }),
        yield* CrashKit.check({
          agent: Agent.make("shop", { toolkit: Billing }),
          input: "Charge it.",
          layer: Layer.merge(
            BillingLive,
            lines(Scripted.call("charge", { orderId: "a", cents: 500 }), Scripted.text("done"))
          ),
          silent: ["charge"],
          ways: ["crash"]
        })
      ]
      for (const { broken, visits } of reports) {
        expect(broken).toEqual([])
        expect(visits.length).toBeGreaterThan(5)
      }
    })
  )

  it.effect("the stopping cases can be put to its analyst, without a price", () =>
    Effect.gen(function* () {
      const cases = StoppingCases.all({
        look: (nth) => Scripted.call("read_file", { path: `${nth}.log` }),
        tools: (find) => LogTools.toLayer({ read_file: () => find, delete_file: () => Effect.succeed("") }),
        permitted: ["read_file"]
      })
      const { problems, totals } = yield* StoppingReport.run(analyst, cases)
      expect(problems).toEqual([])
      expect(totals).toMatchObject({ succeeded: 2, unfinished: 2 })
    }).pipe(Effect.provide(MemoryRunStore.layer))
  )

  describe("a safe tool", () => {
    const shop = Agent.make("shop", { toolkit: Billing, limits: { usd: 1 } })
    const charging = (orderId: string, cents: number) =>
      Layer.merge(BillingLive, world(Scripted.call("charge", { orderId, cents }), Scripted.text("done")))
    const told = Effect.map(Agent.run(shop, "charge it", { runId: "r" }), ({ run }) =>
      run.messages.find(({ role }) => role === "tool")
    )
    const attempts = Effect.gen(function* () {
      const events = yield* (yield* RunStore.RunStore).read("r")
      return events.flatMap((event) => (event.type === "tool_start" ? [event.idempotencyKey] : []))
    })

    it.effect("a payment that a Stop cut off is looked up, and happens once", () =>
      Effect.gen(function* () {
        const fiber = yield* Effect.forkChild(told)
        yield* TestClock.adjust("1 second")
        yield* Fiber.interruptAs(fiber, undefined, Context.make(Agent.CancelReason, "deploy"))
        const { run } = yield* Agent.resume(shop, "r")
        expect(run.messages.find(({ role }) => role === "tool")).toMatchObject({
          ok: true,
          content: "receipt for 500 cents"
        })
        expect([(yield* Payments).size, (yield* attempts).length]).toEqual([1, 1])
      }).pipe(Effect.provide(charging("slow", 500)))
    )

    it.effect("without its payments nobody is told that it did not happen", () =>
      Effect.gen(function* () {
        const fiber = yield* Effect.forkChild(told.pipe(Effect.provide(BillingLive)))
        yield* TestClock.adjust("1 second")
        yield* Fiber.interrupt(fiber)
        const handlers = Billing.toLayer({ charge: () => Effect.succeed("") })
        const resumed = Agent.resume(shop, "r").pipe(Effect.provide(handlers))
        expect(yield* Effect.flip(resumed)).toMatchObject({ _tag: "OutcomeUnknown" })
      }).pipe(
        Effect.provide(world(Scripted.call("charge", { orderId: "slow", cents: 500 }), Scripted.text("done")))
      )
    )

    it.effect("so is one that its time limit cut off", () =>
      Effect.gen(function* () {
        expect(yield* passing(told)).toMatchObject({ ok: true, content: "receipt for 500 cents" })
        expect([(yield* Payments).size, (yield* attempts).length]).toEqual([1, 1])
      }).pipe(Effect.provide(charging("slow", 500)))
    )

    it.effect("a bank that is busy is asked three times, under one key", () =>
      Effect.gen(function* () {
        expect(yield* passing(told)).toMatchObject({ ok: false, content: "Error: the bank is busy" })
        const keys = yield* attempts
        expect([keys.length, new Set(keys).size]).toEqual([3, 1])
      }).pipe(Effect.provide(charging("busy", 500)))
    )

    it.effect(
      "what the model can put right is told it; what nobody can ends the run; much money is asked about",
      () =>
        Effect.gen(function* () {
          const zero = yield* told.pipe(Effect.provide(charging("a", 0)))
          expect(zero).toMatchObject({ ok: false, content: "Error: cents is 0, and must be more than 0" })
          const closed = yield* Effect.flip(told.pipe(Effect.provide(charging("closed", 500))))
          expect(closed).toMatchObject({ _tag: "RunFailed", reason: "tool_permanent" })
          const much = yield* Effect.flip(told.pipe(Effect.provide(charging("a", 10_001))))
          expect(much).toMatchObject({ _tag: "ApprovalRequired", run: { toolCalls: 0 } })
        })
    )
  })

  it.live("layers: a trace file and an OpenTelemetry collector hear of a run", () =>
    Effect.gen(function* () {
      const heard: Array<string> = []
      const collector = createServer((request, response) => {
        let body = ""
        request.setEncoding("utf8").on("data", (piece: string) => {
          body += piece
        })
        request.on("end", () => {
          heard.push(`${request.url} ${body}`)
          response.end("{}")
        })
      })
      collector.listen(0, "127.0.0.1")
      yield* Effect.promise(() => once(collector, "listening"))
      const { port } = collector.address() as AddressInfo
      const env = {
        OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}`,
        OTEL_SERVICE_NAME: "night-watch",
        OTEL_TRACES_EXPORTER: "otlp",
        OTEL_METRICS_EXPORTER: "otlp"
      }
      const layers = Layer.mergeAll(world(Scripted.text("Nothing.")), Trace, Telemetry).pipe(
        Layer.provide(ConfigProvider.layer(ConfigProvider.fromEnv({ env })))
      )
      yield* Effect.provide(Agent.run(analyst, "Anything?"), layers)
      collector.close()
      const lines = readFileSync("logs/trace.jsonl", "utf8").trim().split("\n")
      expect(lines.map((line) => JSON.parse(line).type)).toEqual(["run_started", "turn", "run_stopped"])
      const traces = heard.filter((one) => one.startsWith("/v1/traces")).join()
      for (const name of ["invoke_agent log-analyst", "LanguageModel.generateText", "night-watch"])
        expect(traces).toContain(name)
      expect(heard.join()).toContain("/v1/metrics")
      expect(heard.join()).toContain("checkrein.turns")
    })
  )

  it.live(
    "a ManagedRuntime behind an HTTP server and in a Lambda: answers, waits, and stops with its caller",
    () =>
      Effect.gen(function* () {
        let asked = 0
        const script = Scripted.make("m", (_, transcript) => {
          asked++
          if (transcript.task === "slow") return Scripted.text("late", { latency: "1 hour" })
          return transcript.task === "delete" ? deletion : answer
        })
        const usage = { promptTokens: 100, completionTokens: 10 }
        const { baseUrl } = yield* ScriptedServer.start({ scripts: [script], usage })
        const before = { ...process.env }
        Object.assign(process.env, {
          LLM_BASE_URL: baseUrl,
          LLM_MODEL: "m",
          LLM_PRICE_INPUT: "2",
          LLM_PRICE_OUTPUT: "12"
        })
        const { ask, handler, runtime } = yield* Effect.promise(() => import("./server.ts"))
        const app = createServer((request, response) => {
          const chunks: Array<Buffer> = []
          request.on("data", (chunk: Buffer) => chunks.push(chunk))
          request.on("end", () => {
            const body = JSON.parse(Buffer.concat(chunks).toString())
            void ask(Object.assign(request, { body }), response)
          })
        })
        app.listen(0, "127.0.0.1")
        yield* Effect.promise(() => once(app, "listening"))
        const { port } = app.address() as AddressInfo
        const post = (id: string, question: string) =>
          fetch(`http://127.0.0.1:${port}/ask`, {
            method: "POST",
            body: JSON.stringify({ id, text: question })
          })

        yield* Effect.promise(async () => {
          const answered = await post("a", "Which file mentions a timeout?")
          expect([answered.status, await answered.json()]).toEqual([200, { answer: answer.text }])
          const calls = asked
          const again = await post("a", "Which file mentions a timeout?")
          expect([again.status, asked]).toEqual([200, calls])
          const waits = await post("b", "delete")
          expect([waits.status, await waits.json()]).toMatchObject([202, { ending: "ApprovalRequired" }])
          expect(await handler({ id: "c", text: "Which file?" })).toEqual({
            status: 200,
            body: { answer: answer.text }
          })

          const caller = request({ port, host: "127.0.0.1", method: "POST", path: "/ask" })
          caller.on("error", () => {})
          caller.end(JSON.stringify({ id: "d", text: "slow" }))
          const runs = await runtime.runPromise(RunStore.RunStore)
          const until = async (status: string) => {
            for (;;) {
              const stored = await runtime.runPromise(Effect.option(runs.summary("d")))
              if (stored._tag === "Some" && stored.value.status === status) return stored.value
              await new Promise((resolve) => setImmediate(resolve))
            }
          }
          await until("running")
          const meanwhile = await post("d", "slow")
          expect([meanwhile.status, await meanwhile.json()]).toEqual([
            409,
            { ending: "RunBusy", why: expect.stringContaining("run d is driven by somebody else") }
          ])
          caller.destroy()
          expect(await until("interrupted")).toMatchObject({ reason: "cancelled" })
          await runtime.dispose()
        })
        app.close()
        for (const name of Object.keys(process.env)) if (!(name in before)) delete process.env[name]
        Object.assign(process.env, before)
      }).pipe(Effect.scoped)
  )
})
