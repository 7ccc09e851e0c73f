/**
 * A tool's result that ends its run and the end itself: a process that dies anywhere leaves both or neither.
 */
import { describe, expect } from "@effect/vitest"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import { Agent, ToolFailure } from "../../src/index.ts"
import * as Scripted from "../../src/provider/Scripted.ts"
import type { RunEvent } from "../../src/run/RunEvent.ts"
import { call, check, dying, finish, journal, model, of, reader, writer } from "./support.ts"

const read = reader("read")
const write = writer("write")
const tools = Toolkit.make(read, write)

const denied = ({ q }: { readonly q: string }) =>
  q === "denied" ? Effect.fail(ToolFailure.permanent("denied")) : Effect.succeed(q)
const handlers = tools.toLayer({ read: denied, write: denied })

const turns: { readonly [name: string]: Scripted.Answer } = {
  "a read": call("read", "a", "denied"),
  "a write": call("write", "a", "denied"),
  "one of several reads, the first": Scripted.turn(call("read", "a", "denied"), call("read", "b")),
  "one of several reads, the last": Scripted.turn(call("read", "a"), call("read", "b", "denied")),
  "all of several reads": Scripted.turn(call("read", "a", "denied"), call("read", "b", "denied")),
  "a write after reads": Scripted.turn(call("read", "a"), call("write", "b", "denied"))
}

const policies = { tool_permanent: {}, tool_fatal: { permanent: "continue", toolErrors: "fatal" } } as const

describe("a result that ends the run", () => {
  for (const [reason, policy] of Object.entries(policies)) {
    for (const [name, turn] of Object.entries(turns)) {
      check(`${name}: ${reason}, wherever its process dies`, function* () {
        const agent = Agent.make("analyst", { toolkit: tools, policy }).pipe(Agent.provide(handlers))
        const script = () => model([turn, Scripted.text("never mind")]).layer
        const whole = yield* finish(Agent.run(agent, "go", { runId: "whole" })).pipe(Effect.provide(script()))
        expect(whole.exit).toMatchObject({ _tag: "RunFailed", reason })
        for (const { seq } of whole.events) {
          for (const crash of [
            { after: (event: RunEvent) => event.seq >= seq },
            { before: (event: RunEvent) => event.seq >= seq }
          ]) {
            const runId = `${seq} ${Object.keys(crash)}`
            yield* Effect.exit(Agent.run(agent, "go", { runId })).pipe(
              Effect.provide([script(), dying(crash)])
            )
            const left = yield* Effect.orElseSucceed(journal(runId), () => [])
            const denials = of(left, "tool_result").filter(({ content }) => content.includes("denied"))
            expect(denials.length > 0, runId).toBe(of(left, "run_stopped").length > 0)
            const { exit } = yield* finish(Agent.run(agent, "go", { runId })).pipe(Effect.provide(script()))
            // A write that was cut off may have taken effect.
            if (exit._tag === "OutcomeUnknown") expect(exit.calls).toMatchObject([{ tool: "write" }])
            else expect(exit, runId).toMatchObject({ _tag: "RunFailed", reason })
          }
        }
      })
    }
  }
})
