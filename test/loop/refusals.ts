/** What the tests of wrong decisions and options share. */
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { Agent } from "../../src/index.ts"
import * as Scripted from "../../src/provider/Scripted.ts"
import { call, guarded, usage } from "./support.ts"

/** Not everybody is held by the compiler: a test says what its types would not let it say. */
export const unchecked = <A>(value: unknown): A => value as A

/** What the agent has deleted. */
export const done: Array<string> = []
const toolkit = Toolkit.make(guarded("delete"))
/** An agent that deletes something when it is approved. */
export const cleaner = Agent.make("cleaner", { toolkit }).pipe(
  Agent.provide(
    Layer.merge(
      toolkit.toLayer({
        delete: ({ q }) =>
          Effect.as(
            Effect.sync(() => done.push(q)),
            "deleted"
          )
      }),
      Scripted.layer(Scripted.make("cleaner", [call("delete", "c"), Scripted.text("done")]), { usage })
    )
  )
)

/** How something that is said wrongly is refused. */
export const refusal = (problem: string) => ({ _tag: "RunStoreError", kind: "invalid", problem })
