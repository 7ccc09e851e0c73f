/** An agent that cannot be driven: what it needs is not there. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Agent from "../../../src/Agent.ts"

export const agent = Agent.make("broken", { limits: { turns: 3, time: "1 minute" } })
export const layer = Layer.effectDiscard(Effect.fail(new Error("no database of customers")))
