/** The scripted endpoint in a process of its own; prints its address. */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import { ScriptedServer } from "../../src/provider/index.ts"
import * as Workload from "./workload.ts"

const program = Effect.gen(function* () {
  const { baseUrl } = yield* ScriptedServer.start({
    scripts: [Workload.script(3)],
    usage: Workload.usage,
    port: 0
  })
  yield* Console.log(baseUrl)
  return yield* Effect.never
})

NodeRuntime.runMain(Effect.scoped(program))
