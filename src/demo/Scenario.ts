/**
 * A scenario is a scripted model put before the log analyst.
 *
 * A stored run can be taken up again by another process, which has nothing but the store: the agent is always called
 * `log-analyst`, and the run's id tells the rest. It is `demo-SCENARIO-SUFFIX`, with the settings that differ from the
 * defaults in between: `demo-plan-3f9a1c02`, `demo-denied-continue-77b0e2d4`. `agentFor` turns such an id into the agent by
 * which the run is resumed.
 */
import { randomUUID } from "node:crypto"
import type * as LanguageModel from "effect/ai/LanguageModel"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Agent from "../Agent.ts"
import * as PriceBook from "../provider/PriceBook.ts"
import type * as Script from "../provider/Script.ts"
import * as Scripted from "../provider/Scripted.ts"
import type { LimitsInput } from "../run/Limits.ts"
import { type RunNotFound, RunStore, type RunStoreError } from "../store/RunStore.ts"
import * as Analyst from "./Analyst.ts"
import * as Catalogue from "./Catalogue.ts"
import * as Fixture from "./Fixture.ts"
import * as LogTools from "./LogTools.ts"
import * as Scripts from "./Scripts.ts"

/** The model of each scenario. */
export const script: { readonly [name in Catalogue.Name]: Script.Script } = {
  plan: Scripts.plan,
  runaway: Scripts.runaway,
  recover: Scripts.recover,
  denied: Scripts.denied,
  repeat: Scripts.repeat,
  "repeat-baseline": Scripts.repeatBaseline,
  destructive: Scripts.destructive,
  "double-delete": Scripts.doubleDelete,
  slow: Scripts.slow
}

/** Every script of the demo, the rule-made analyst included. */
export const scripts: ReadonlyArray<Script.Script> = [...Object.values(script), Analyst.script]

/** What every script costs, in USD per million tokens. */
export const prices: Layer.Layer<never> = PriceBook.layer(
  Object.fromEntries(scripts.map(({ name }) => [name, { input: 2, output: 12 }]))
)

/** The agent's name, as runs are stored under it. */
export const agentName = "log-analyst"

/** What a run may use if nobody says otherwise. The time is a safety net: no scenario comes near it. */
export const limits: LimitsInput = { turns: 20, time: "10 minutes" }

/**
 * The repetition guard is off: the published measurements are of a harness without one, and most scenarios repeat
 * themselves on purpose.
 */
const analyst = (settings: Catalogue.Settings) =>
  Agent.make(agentName, {
    instructions: LogTools.instructions,
    toolkit: LogTools.toolkit,
    limits,
    policy: { ...settings, repetition: "off" }
  }).pipe(Agent.provide(prices))

/** The log analyst in a given world, in need of a model. */
export const agent = (
  settings: Catalogue.Settings,
  world: Fixture.World
): Agent.Agent<string, never, LanguageModel.LanguageModel> =>
  analyst(settings).pipe(Agent.provide(Fixture.layer(world)))

const longestFirst = [...Catalogue.names].sort((a, b) => b.length - a.length).join("|")
const idOf = new RegExp(
  `^demo-(${longestFirst})(?:-(generic|fatal))?(?:-(continue))?(?:-(read-only|all))?-[0-9a-f]+$`
)

/** A new run id, which says by which agent the run is to be taken up again. */
export const newRunId = (name: Catalogue.Name, settings: Catalogue.Settings): Effect.Effect<string> =>
  Effect.sync(() => {
    const words = [
      settings.toolErrors === Catalogue.defaults.toolErrors ? [] : [settings.toolErrors],
      settings.permanent === Catalogue.defaults.permanent ? [] : [settings.permanent],
      settings.dedupe === Catalogue.defaults.dedupe ? [] : [settings.dedupe]
    ]
    return ["demo", name, ...words.flat(), randomUUID().slice(0, 8)].join("-")
  })

/** What a run id says; `undefined` if it is not one of the demo's. */
export const fromRunId = (
  runId: string
): { readonly name: Catalogue.Name; readonly settings: Catalogue.Settings } | undefined => {
  const [, name = "", toolErrors, permanent, dedupe] = idOf.exec(runId) ?? []
  if (!Catalogue.isName(name)) return undefined
  const settings: Catalogue.Settings = {
    toolErrors:
      toolErrors === "generic" || toolErrors === "fatal" ? toolErrors : Catalogue.defaults.toolErrors,
    permanent: permanent === "continue" ? permanent : Catalogue.defaults.permanent,
    dedupe: dedupe === "read-only" || dedupe === "all" ? dedupe : Catalogue.defaults.dedupe
  }
  return { name, settings }
}

/** The world of a stored run as its journal left it, as the tools' handlers. */
const restored = (runId: string) =>
  Layer.unwrap(
    Effect.gen(function* () {
      const store = yield* RunStore
      return Fixture.layer(Fixture.restore(yield* store.read(runId)))
    })
  )

/**
 * The agent by which a stored run of the demo is resumed, with its scripted model, its tools and its prices;
 * `undefined` if the run is not one of the demo's. Its world is put back to where the journal left it.
 */
export const agentFor = (
  runId: string
): Agent.Agent<string, RunNotFound | RunStoreError, RunStore> | undefined => {
  const known = fromRunId(runId)
  return known === undefined
    ? undefined
    : analyst(known.settings).pipe(
        Agent.provide(restored(runId)),
        Agent.provide(Scripted.layer(script[known.name]))
      )
}
