/**
 * The README is true: its code is the code of these files, and all of it runs.
 */
import { execFile } from "node:child_process"
import { globSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { promisify } from "node:util"
import { describe, expect, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import { TestClock } from "effect/testing"
import { Agent, MemoryRunStore, PriceBook, RunStore } from "../../src/index.ts"
import { Scripted, ScriptedServer } from "../../src/provider/index.ts"
import { files, LogToolsLive } from "./analyst.ts"
import { cleanUp } from "./approval.ts"
import { Billing, BillingLive, payments } from "./charge.ts"
import { inWords } from "./endings.ts"
import { since } from "./output.ts"
import { goOn } from "./resume.ts"
import { readme, root } from "./snippets.ts"
import { stopAfterASecond } from "./stop.ts"
import { watch } from "./stream.ts"
import { report } from "./subAgent.ts"

const text = readFileSync(join(root, "README.md"), "utf8")
const ours = ["check.ts", "snippets.ts", "readme.test.ts"]

const world = (...lines: ReadonlyArray<Scripted.Line>) =>
  Layer.mergeAll(
    LogToolsLive,
    Scripted.layer(Scripted.make("script", lines), {
      model: "m",
      usage: { promptTokens: 100, completionTokens: 10 }
    }),
    PriceBook.layer({ m: { input: 2, output: 12 } }),
    MemoryRunStore.layer
  )

const passing = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const fiber = yield* Effect.forkChild(effect)
    yield* TestClock.adjust("1 minute")
    return yield* Fiber.join(fiber)
  })

const read = Scripted.call("read_file", { path: "errors.log" })
const answer = Scripted.text("errors.log mentions a timeout.")

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

  it("names the two commands", () => {
    expect(text).toContain("npm ci && npm start")
    expect(text).toContain("npm ci && npm test")
  })

  it.live("quotes what the demo measures", () =>
    Effect.gen(function* () {
      const Demo = yield* Effect.promise(() => import("../../src/demo/Demo.ts"))
      for (const [, tokens, turns] of text.matchAll(/([\d,]+)(?: tokens)? with a cap of (\d+)/g)) {
        const result = yield* Demo.run("runaway", { limits: { turns: Number(turns) } })
        expect([turns, result.promptTokens.toLocaleString("en")]).toEqual([turns, tokens])
      }
    }).pipe(Effect.provide(MemoryRunStore.layer))
  )
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
        const { stdout } = yield* Effect.promise(() =>
          promisify(execFile)(process.execPath, [...flags, join(import.meta.dirname, "hello.ts")], {
            env: { ...process.env, LLM_BASE_URL: baseUrl, LLM_MODEL: "small" }
          })
        )
        expect(stdout.trim()).toBe("Worker 7 timed out.")
      })
    )
  )

  for (const [decision, said, left] of [
    [Agent.approve(), "deleted errors.log", 0],
    [Agent.reject("keep it"), "declined it: keep it", 1]
  ] as const) {
    it.effect(`approval: ${decision._tag}`, () =>
      Effect.gen(function* () {
        files.set("errors.log", "ERROR timeout")
        const { run } = yield* cleanUp(decision)
        expect(run.messages.find(({ role }) => role === "tool")?.content).toContain(said)
        expect(files.size).toBe(left)
        files.set("errors.log", "ERROR timeout: worker 7 timed out")
      }).pipe(
        Effect.provide(world(Scripted.call("delete_file", { path: "errors.log" }), Scripted.text("done")))
      )
    )
  }

  it.effect("stop and resume: the file is read once more, and the question answered", () =>
    Effect.gen(function* () {
      yield* passing(stopAfterASecond)
      const store = yield* RunStore.RunStore
      expect(yield* store.summary("night-shift")).toMatchObject({
        status: "interrupted",
        reason: "cancelled",
        detail: "user pressed Stop"
      })
      expect((yield* passing(goOn)).output).toBe("errors.log mentions a timeout.")
    }).pipe(Effect.provide(world(read, answer)))
  )

  it.effect("endings: every one has its words", () =>
    Effect.gen(function* () {
      expect(yield* passing(inWords)).toBe("errors.log mentions a timeout.")
    }).pipe(Effect.provide(world(read, answer)))
  )

  it.effect("streaming: text, progress and the end", () =>
    Effect.gen(function* () {
      yield* passing(watch)
    }).pipe(Effect.provide(world(read, answer)))
  )

  it.effect("a sub-agent answers its lead", () =>
    Effect.gen(function* () {
      expect(yield* passing(report)).toBe("It was slow because of a timeout.")
    }).pipe(
      Effect.provide(
        world((transcript) => {
          if (!transcript.tools.includes("ask_analyst")) return answer
          return Scripted.call("ask_analyst", { task: "Which file mentions a timeout?" })
        }, Scripted.text("It was slow because of a timeout."))
      )
    )
  )

  it.effect("an output comes out typed", () =>
    Effect.gen(function* () {
      expect(yield* since).toBe("a timeout, since 2026")
    }).pipe(
      Effect.provide(
        world(
          Scripted.call("submit_result", {
            file: "errors.log",
            cause: "a timeout",
            since: "2026-11-29T00:00:00Z"
          })
        )
      )
    )
  )

  it.effect("a safe tool: a payment that was cut off is looked up, and happens once", () =>
    Effect.gen(function* () {
      payments.clear()
      const shop = Agent.make("shop", { toolkit: Billing, limits: { usd: 1 } }).pipe(
        Agent.provide(BillingLive)
      )
      const fiber = yield* Effect.forkChild(Agent.run(shop, "charge it", { runId: "r" }))
      yield* TestClock.adjust("1 second")
      yield* Fiber.interruptAs(fiber, undefined, Context.make(Agent.CancelReason, "deploy"))
      const { run } = yield* Agent.resume(shop, "r")
      expect(payments.size).toBe(1)
      expect(run.messages.find(({ role }) => role === "tool")).toMatchObject({
        ok: true,
        content: "receipt for 500 cents"
      })
    }).pipe(
      Effect.provide(
        world(Scripted.call("charge", { orderId: "slow", cents: 500 }), Scripted.text("charged"))
      )
    )
  )
})
