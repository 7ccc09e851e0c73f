import { CurrentCall, Operation } from "checkrein/tool"
import { Clock, Effect, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"

const StartTest = Tool.make("start_test", {
  description: "Starts a test of the export.",
  parameters: Schema.Struct({ name: Schema.String }),
  success: Operation.Started
})

const ObserveTest = Tool.make("observe_test", {
  description: "Looks at a test that was started.",
  parameters: Schema.Struct({ id: Schema.String }),
  success: Operation.Observed
}).annotate(Tool.Readonly, true)

export const Tests = Toolkit.make(StartTest, ObserveTest)

export const TestsLive = Tests.toLayer(
  Effect.sync(() => {
    // Stands for a test service, whose tests take a minute.
    const started = new Map<string, number>()
    return Tests.of({
      start_test: ({ name }) =>
        Effect.gen(function* () {
          const call = yield* CurrentCall.CurrentCall
          started.set(call.idempotencyKey, yield* Clock.currentTimeMillis)
          yield* call.evidence({ kind: "source", name: "exports", digest: "revision 4f2a" })
          const id = call.idempotencyKey
          return Operation.started({ id, observe: "observe_test", label: `test ${name}` })
        }),
      observe_test: ({ id }) =>
        Effect.map(Clock.currentTimeMillis, (now) =>
          now - (started.get(id) ?? now) < 60_000
            ? Operation.running({ id })
            : Operation.ended({ id, outcome: "succeeded", detail: "7 of 7 rows" })
        )
    })
  })
)
