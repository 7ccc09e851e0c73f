/**
 * Arguments and results that are nested thousands of levels deep, which nothing recursive may see.
 */
import { describe, expect, it } from "@effect/vitest"
import * as Response from "effect/ai/Response"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { Agent, RunStore } from "../../src/index.ts"
import * as Nesting from "../../src/loop/Nesting.ts"
import { readReply } from "../../src/loop/Transcript.ts"
import * as Scripted from "../../src/provider/Scripted.ts"
import { check, expectTag, expectValidRequests, finish, model, resultOf } from "./support.ts"

const lists = (depth: number): string => "[".repeat(depth) + "]".repeat(depth)
const depths = [257, 4_000, 20_000]

const taking = (
  parameter: Schema.Codec<Schema.Json> | Schema.Unknown,
  more: { needsApproval?: boolean } = {}
) =>
  Toolkit.make(
    Tool.make("take", { parameters: Schema.Struct({ n: parameter }), success: Schema.Unknown, ...more })
  )

const outcome = (
  parameter: Schema.Codec<Schema.Json> | Schema.Unknown,
  args: string,
  result: unknown = "taken"
) => {
  const bot = model((turn) => (turn === 0 ? Scripted.call("take", args, { id: "c" }) : Scripted.text("done")))
  const toolkit = taking(parameter)
  let ran = 0
  const agent = Agent.make("a", { toolkit }).pipe(
    Agent.provide(toolkit.toLayer({ take: () => Effect.sync(() => ran++).pipe(Effect.as(result)) })),
    Agent.provide(bot.layer)
  )
  return Effect.map(finish(Agent.run(agent, "go", { runId: "r" })), (ended) => ({
    ...ended,
    bot,
    ran: () => ran
  }))
}

describe("arguments that are nested deep", () => {
  for (const [name, parameter] of [
    ["Unknown", Schema.Unknown],
    ["Json", Schema.Json]
  ] as const) {
    check(`run as long as they are ${Nesting.deepest} levels deep (${name})`, function* () {
      // The object is a level itself.
      const { exit: end, ran } = yield* outcome(parameter, `{"n":${lists(Nesting.deepest - 1)}}`)
      expect([ran(), resultOf(expectTag(end, "Completed"), "c").ok]).toEqual([1, true])
    })

    for (const depth of depths) {
      check(`are answered in words when they are ${depth} levels deep (${name})`, function* () {
        const { bot, exit: end, ran } = yield* outcome(parameter, `{"n":${lists(depth)}}`)
        const result = resultOf(expectTag(end, "Completed"), "c")
        expect([ran(), result.ok]).toEqual([0, false])
        expect(result.content).toContain("nested more than 256 levels deep")
        expectValidRequests(bot.requests)
      })
    }
  }

  check("are no valid submission", function* () {
    const bot = model((turn) =>
      Scripted.call("submit_result", turn === 0 ? `{"result":${lists(4_000)}}` : `{"result":1}`, {
        id: `c${turn + 1}`
      })
    )
    const agent = Agent.make("a", { output: Schema.Json }).pipe(Agent.provide(bot.layer))
    const { exit: end } = yield* finish(Agent.run(agent, "go", { runId: "r" }))
    const exit = expectTag(end, "Completed")
    expect(exit.output).toBe(1)
    expect(resultOf(exit, "c1").content).toContain("nested more than 256 levels deep")
    expectValidRequests(bot.requests)
  })

  const approving = Effect.fnUntraced(function* () {
    const bot = model((turn) =>
      turn === 0 ? Scripted.call("take", { n: 1 }, { id: "c" }) : Scripted.text("done")
    )
    const toolkit = taking(Schema.Json, { needsApproval: true })
    const agent = Agent.make("a", { toolkit }).pipe(
      Agent.provide(toolkit.toLayer({ take: () => Effect.succeed("taken") })),
      Agent.provide(bot.layer)
    )
    const first = yield* finish(Agent.run(agent, "go", { runId: "r" }))
    const [asked] = expectTag(first.exit, "ApprovalRequired").calls
    return { agent, asked }
  })

  for (const depth of depths) {
    check(`are refused when a person gives them with an approval, ${depth} levels deep`, function* () {
      const { agent, asked } = yield* approving()
      const given = Agent.approve({ args: JSON.parse(lists(depth)) })
      const error = yield* Effect.flip(Agent.decide(asked, given))
      expect(error).toMatchObject({ _tag: "RunStoreError", kind: "invalid" })
      expect(error.message).toContain("nested more than 256 levels deep")
      yield* Agent.decide(asked, Agent.approve())
      expectTag((yield* finish(Agent.resume(agent, "r"))).exit, "Completed")
    })
  }

  check("are not taken from an inbox: the approval is asked for again", function* () {
    const { agent, asked } = yield* approving()
    const store = yield* RunStore.RunStore
    const args = { n: JSON.parse(lists(2_000)) }
    yield* store.send("r", { type: "decide", callId: asked.callId, decision: "approved", args })
    const second = yield* finish(Agent.resume(agent, "r"))
    const [again] = expectTag(second.exit, "ApprovalRequired").calls
    expect(again.problem).toContain("nested more than 256 levels deep")
    yield* Agent.decide(again, Agent.approve())
    expectTag((yield* finish(Agent.resume(agent, "r"))).exit, "Completed")
  })
})

describe("results that are nested deep", () => {
  for (const depth of depths) {
    check(`end no run (${depth} levels)`, function* () {
      const { exit } = yield* outcome(Schema.Unknown, `{"n":1}`, JSON.parse(lists(depth)))
      expectTag(exit, "Completed")
    })
  }

  it("are left out where the provider has run the tool", () => {
    for (const depth of depths) {
      const result = JSON.parse(lists(depth))
      const part = Response.makePart("tool-result", {
        id: "c",
        name: "search",
        result,
        encodedResult: result,
        isFailure: false,
        providerExecuted: true,
        preliminary: false
      })
      expect(readReply([part]).content).toMatchObject([{ type: "tool-result", result: Nesting.leftOut }])
    }
  })
})
