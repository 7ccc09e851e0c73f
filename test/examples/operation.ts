import { CurrentCall, Operation } from "checkrein/tool"
import { Clock, Context, Effect, Layer, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"

/** Stands for a service whose tests take a minute: when each was started. */
export class Service extends Context.Service<Service, Map<string, number>>()("TestService") {}

const look = (tests: Map<string, number>, id: string) =>
  Effect.map(Clock.currentTimeMillis, (now) => {
    const startedMs = tests.get(id)
    if (startedMs === undefined) return Operation.ended({ id, outcome: "cancelled", detail: "" })
    return now - startedMs < 60_000
      ? Operation.running({ id })
      : Operation.ended({ id, outcome: "succeeded", detail: "7 of 7 rows" })
  })

// Where there is no such service, this fails, and nothing is said of the test.
const service = Effect.flatMap(Effect.serviceOption(Service), (found) => Effect.fromOption(found))

const StartTest = Tool.make("start_test", {
  parameters: Schema.Struct({ name: Schema.String }),
  success: Operation.Started
}).annotate(Operation.Control, {
  observe: ({ id }) => Effect.flatMap(service, (tests) => look(tests, id)),
  cancel: ({ id }) => Effect.map(service, (tests) => tests.delete(id))
})

const ObserveTest = Tool.make("observe_test", {
  parameters: Schema.Struct({ id: Schema.String }),
  success: Operation.Observed
}).annotate(Tool.Readonly, true)

export const Tests = Toolkit.make(StartTest, ObserveTest)

export const TestsLive = Tests.toLayer(
  Effect.map(Service, (tests) => ({
    start_test: ({ name }) =>
      Effect.gen(function* () {
        const call = yield* CurrentCall.CurrentCall
        const id = call.idempotencyKey
        tests.set(id, yield* Clock.currentTimeMillis)
        return Operation.started({ id, observe: "observe_test", label: `test ${name}` })
      }),
    observe_test: ({ id }) => look(tests, id)
  }))
).pipe(Layer.provideMerge(Layer.sync(Service, () => new Map())))
