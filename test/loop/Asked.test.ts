/**
 * What a run is asked is refused before anything is stored if no model would take it, or no store could give it back.
 */
import { describe, expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { Agent, type Message, RunStore } from "../../src/index.ts"
import * as Scripted from "../../src/provider/Scripted.ts"
import { check, expectTag, finish, model } from "./support.ts"

const user = { role: "user", content: "go" }
const calling = (...ids: ReadonlyArray<string>) => ({
  role: "assistant",
  content: ids.map((id) => ({ type: "tool-call", id, name: "t", params: {} }))
})
const result = (callId: string) => ({ role: "tool", callId, tool: "t", ok: true, content: "x" })
const own = {
  role: "assistant",
  content: [
    { type: "tool-call", id: "s", name: "search", params: {}, providerExecuted: true },
    { type: "tool-result", id: "s", name: "search", isFailure: false, result: "found" },
    { type: "text", text: "Found." }
  ]
}
const deep = (levels: number): unknown => (levels === 0 ? 1 : [deep(levels - 1)])

const refused: Record<string, unknown> = {
  "no messages": [],
  nothing: undefined,
  null: null,
  "a number": 42,
  "one message outside a list": user,
  "a promise": Promise.resolve("go"),
  "a role that there is not": [{ role: "developer", content: "go" }],
  "a message without content": [{ role: "user" }],
  "a message that is none": [null],
  "content of another kind": [{ role: "user", content: 42 }],
  "a part of another kind": [{ role: "user", content: [{ type: "image", url: "x" }] }],
  "a text alone in a list": ["go"],
  "a result without a call": [result("z")],
  "a result of a call before the last question": [user, calling("z"), result("z"), user, result("z")],
  "two results of one call": [user, calling("z"), result("z"), result("z")],
  "a result of the provider's own call": [user, own, result("s")],
  "a call without a result": [user, calling("z")],
  "a call of two without a result": [user, calling("y", "z"), result("z"), user],
  "a call whose result comes too late": [user, calling("z"), user, result("z")],
  "what JSON cannot carry": [{ ...user, options: { openai: 10n } }],
  "what is nested too deep": [user, { ...calling(), options: { openai: deep(5_000) } }]
}

const taken: Record<string, ReadonlyArray<unknown>> = {
  "a question": [user],
  "instructions and a question": [{ role: "system", content: "Be brief." }, user],
  "a conversation with calls": [user, calling("y", "z"), result("z"), result("y"), user],
  "a conversation that ends with results": [user, calling("z"), result("z")],
  "a conversation with the provider's own calls": [user, own, user],
  "parts, and keys that hold nothing": [
    { ...user, content: [{ type: "text", text: "go" }], options: undefined }
  ]
}

const agentOf = () => {
  const bot = model(() => Scripted.text("done"))
  return { bot, agent: Agent.make("a").pipe(Agent.provide(bot.layer)) }
}

describe("what a run is asked", () => {
  for (const [what, given] of Object.entries(refused)) {
    check(`is refused before anything is stored if it is ${what}`, function* () {
      const store = yield* RunStore.RunStore
      const { agent, bot } = agentOf()
      const input = given as ReadonlyArray<Message.Message>
      for (const asking of [
        Agent.run(agent, input),
        Agent.create(agent, input, { runId: "r" }),
        Stream.runDrain(Agent.stream(agent, input))
      ]) {
        const problem = yield* Effect.flip<unknown, Agent.Failure<never>, RunStore.RunStore>(asking)
        expect(problem).toMatchObject({ _tag: "RunStoreError", kind: "invalid" })
        expect(problem.message).toContain("what the run is asked is refused")
        expect(problem.message.length).toBeLessThan(1_000)
      }
      expect(yield* store.list()).toEqual([])
      expect(bot.requests).toEqual([])
    })
  }

  for (const [what, given] of Object.entries(taken)) {
    check(`may be ${what}`, function* () {
      const { agent } = agentOf()
      const input = given as ReadonlyArray<Message.Message>
      const { exit } = yield* finish(Agent.run(agent, input))
      expectTag(exit, "Completed")
      expect(exit.run.messages.slice(0, exit.run.given)).toStrictEqual(JSON.parse(JSON.stringify(given)))
    })
  }

  check("is told shortly why it is refused, however long it is", function* () {
    const long = [{ role: "user", content: { words: "x".repeat(1_000_000) } }]
    const input = long as unknown as ReadonlyArray<Message.Message>
    const problem = yield* Effect.flip(Agent.run(agentOf().agent, input))
    expect(problem.message.length).toBeLessThan(1_000)
  })
})
