import { describe, expect, it } from "@effect/vitest"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { vi } from "vitest"
import { Agent, MemoryRunStore, PriceBook } from "../../src/index.ts"
import * as ChatCompletions from "../../src/provider/ChatCompletions.ts"
import type * as Playback from "../../src/provider/Playback.ts"
import * as Scripted from "../../src/provider/Scripted.ts"
import * as ScriptedServer from "../../src/provider/ScriptedServer.ts"
import { Files } from "./support.ts"

const vocabulary = vi.hoisted(() => ({ loaded: 0 }))

// The vocabulary takes a good part of a second and many megabytes.
vi.mock("js-tiktoken/ranks/o200k_base", (actual) => {
  vocabulary.loaded++
  return actual()
})

const script = Scripted.make("m", [
  Scripted.turn(
    Scripted.text("I look."),
    Scripted.call("list_files"),
    Scripted.call("read_file", { path: "a.log" })
  ),
  Scripted.call("ask", { task: "Look closer." }),
  Scripted.text("Found nothing.")
])
const helper = Scripted.make("helper", [Scripted.call("list_files"), Scripted.text("Nothing.")])

const handlers = Files.toLayer({
  list_files: () => Effect.succeed(["a.log"]),
  read_file: () => Effect.succeed("ERROR timeout")
})

/** A run with tools, a sub-agent, and limits of money and tokens, over HTTP. */
const overHttp = (usage: NonNullable<Playback.Options["usage"]>, way: "whole" | "streamed") =>
  Effect.gen(function* () {
    const { baseUrl } = yield* ScriptedServer.start({ scripts: [script, helper], usage })
    const model = (name: string) =>
      ChatCompletions.layer({ baseUrl, model: name }).pipe(Layer.provide(FetchHttpClient.layer))
    const ask = Agent.asTool(
      Agent.make("helper", { toolkit: Files }).pipe(Agent.provide(handlers), Agent.provide(model("helper"))),
      { name: "ask", description: "Asks the helper." }
    )
    const agent = Agent.make("lead", {
      toolkit: Toolkit.merge(Files, Toolkit.make(ask.tool)),
      limits: { usd: 1, tokens: 100_000, reserve: { usd: 0.1 } }
    }).pipe(Agent.provide(ask.layer), Agent.provide(handlers), Agent.provide(model("m")))
    const run = way === "whole" ? Agent.run(agent, "go") : Stream.runDrain(Agent.stream(agent, "go"))
    const price = { input: 1, output: 1 }
    yield* Effect.provide(run, [MemoryRunStore.layer, PriceBook.layer({ m: price, helper: price })])
  })

describe("the tokenizer's vocabulary", () => {
  const usage = { promptTokens: 100, completionTokens: 10 }

  it.live("is never loaded for a model whose provider reports its usage, whole or streamed", () =>
    Effect.gen(function* () {
      yield* overHttp(usage, "whole")
      yield* overHttp(usage, "streamed")
      expect(vocabulary.loaded).toBe(0)
    })
  )

  it.live("is loaded once for one that leaves it out", () =>
    Effect.gen(function* () {
      yield* overHttp("omitted", "whole")
      yield* overHttp("omitted", "streamed")
      expect(vocabulary.loaded).toBe(1)
    })
  )
})
