/**
 * What the agent of `checkrein run` tells of its work.
 */
import { createHash } from "node:crypto"
import { mkdirSync, writeFileSync } from "node:fs"
import * as NodeServices from "@effect/platform-node/NodeServices"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import * as LogAnalyst from "../../../src/cli/analyst/LogAnalyst.ts"
import { Agent, Handoff, MemoryRunStore } from "../../../src/index.ts"
import * as Scripted from "../../../src/provider/Scripted.ts"
import { workshop } from "../support.ts"

const { path } = workshop()
mkdirSync(path("logs"))
writeFileSync(path("logs", "errors.log"), "ERROR timeout: worker 7\n")
writeFileSync(path("logs", "old.log"), "a timeout\nanother timeout\n")

const usage = { promptTokens: 10, completionTokens: 5 }

/** What is handed over after one turn with these calls. */
const handedOverAfter = (...calls: ReadonlyArray<Scripted.Answer>) =>
  Effect.gen(function* () {
    const analyst = yield* LogAnalyst.make(path("logs"))
    const running = Agent.run(analyst, "What went wrong?", { limits: { turns: 2 } })
    const { run } = yield* Agent.outcome(running)
    return Handoff.of(run)
  }).pipe(
    Effect.provide(
      Layer.mergeAll(
        NodeServices.layer,
        MemoryRunStore.layer,
        Scripted.layer(Scripted.make("m", [Scripted.turn(...calls), Scripted.text("done")]), { usage })
      )
    )
  )

describe("what the built-in agent tells", () => {
  it.live("which directory it looked into, once, and which files it read, by digest", () =>
    Effect.gen(function* () {
      const { files, observations, sources } = yield* handedOverAfter(
        Scripted.call("list_files", {}, { id: "c1" }),
        Scripted.call("read_file", { path: "errors.log" }, { id: "c2" }),
        Scripted.call("read_file", { path: "errors.log", offset: 6 }, { id: "c3" })
      )
      const sha256 = (text: string) => `sha256:${createHash("sha256").update(text).digest("hex")}`
      expect(sources).toEqual([{ name: path("logs") }])
      // Reading calls run at the same time, so any of them may be the first.
      expect([...files].sort((a, b) => (a.callId < b.callId ? -1 : 1))).toEqual([
        { callId: "c2", name: "errors.log", digest: sha256("ERROR timeout: worker 7\n") },
        {
          callId: "c3",
          name: "errors.log",
          digest: sha256("timeout: worker 7\n"),
          part: "bytes 6 to 24 of 24"
        }
      ])
      expect(observations.map(({ tool }) => tool)).toEqual(["list_files"])
    })
  )

  it.live("what it searched for and where that is, and what it could not read", () =>
    Effect.gen(function* () {
      const { files, observations } = yield* handedOverAfter(
        Scripted.call("scan_archive", { text: "Timeout" }, { id: "c1" }),
        Scripted.call("scan_archive", { text: "nothing" }, { id: "c2" }),
        Scripted.call("read_file", { path: "gone.log" }, { id: "c3" })
      )
      expect(
        observations
          .map(({ ok, result, saw }) => [ok, saw ?? result])
          .sort()
          .reverse()
      ).toEqual([
        [true, 'searched for "nothing": in none of 2 text files'],
        [true, 'searched for "Timeout": in old.log (2), errors.log (1), of 2 text files'],
        [false, "Error: no such file: gone.log. Call list_files to see what exists."]
      ])
      expect(files).toEqual([])
    })
  )
})
