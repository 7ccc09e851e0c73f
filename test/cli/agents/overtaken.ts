/**
 * An agent with a run that somebody stops between the look at it and the right to drive it: while it waits for the place of
 * another, whose model is made then. `CHECKREIN_TEST_STORE` names the file of the store.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Agent from "../../../src/Agent.ts"
import * as Scripted from "../../../src/provider/Scripted.ts"
import * as NodeSqlite from "../../../src/store/NodeSqlite.ts"

const stopped = Agent.cancel("run", "not this one").pipe(
  Effect.provide(NodeSqlite.runStore(process.env.CHECKREIN_TEST_STORE ?? ""))
)

const usage = { promptTokens: 10, completionTokens: 5 }

export const agent = Agent.make("overtaken", { limits: { turns: 3, time: "1 minute" } })
export const layer = Layer.merge(
  Layer.effectDiscard(stopped),
  Scripted.layer(Scripted.make("overtaken", [Scripted.text("It was driven.")]), { usage })
)
