/**
 * A run of its own, wherever it is run: what the harness keeps around a run is for that one and the runs below it. In a
 * tool's handler, or whatever else an author's code is asked for, it stands around a plain `Agent.run` as well, which is
 * none of these. What is around a run for everybody stays: the model, a shared budget, the trace, the request parameters.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { CurrentCall } from "../tool/CurrentCall.ts"
import { ChildLink } from "./ChildRun.ts"
import { Drain } from "./Drain.ts"
import { Spent } from "./RunEnd.ts"
import type { Surroundings } from "./Surroundings.ts"

const withoutRun = Context.omit(CurrentCall, ChildLink, Drain, Spent)

/** Drives a run with what is meant for it alone: one below another has that of the run above it. */
export const apart =
  ({ drain, parent }: Surroundings) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    parent === undefined
      ? Effect.updateContext(effect, (around: Context.Context<R>) =>
          drain === undefined ? withoutRun(around) : Context.add(withoutRun(around), Drain, drain)
        )
      : effect
