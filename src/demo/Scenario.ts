/**
 * A scenario is a scripted model put before the log analyst, or before the investigator.
 *
 * A stored run can be taken up again by another process, which has nothing but the store: the run's id tells by which
 * agent. It is `demo-SCENARIO-SUFFIX`, with the settings that differ from the
 * scenario's own in between: `demo-plan-3f9a1c02`, `demo-denied-continue-77b0e2d4`. `agentFor` turns such an id into the agent by
 * which the run is resumed.
 */
import { randomUUID } from "node:crypto"
import type * as LanguageModel from "effect/ai/LanguageModel"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Agent from "../Agent.ts"
import * as PriceBook from "../provider/PriceBook.ts"
import type * as Script from "../provider/Script.ts"
import type { LimitsInput } from "../run/Limits.ts"
import type { RunEvent } from "../run/RunEvent.ts"
import { RunStore, type RunStoreError } from "../store/RunStore.ts"
import * as Catalogue from "./Catalogue.ts"
import * as Fixture from "./Fixture.ts"
import * as Investigation from "./Investigation.ts"
import * as InvestigationTools from "./InvestigationTools.ts"
import * as LogTools from "./LogTools.ts"
import * as Provider from "./Provider.ts"
import * as RuleModel from "./RuleModel.ts"
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
  slow: Scripts.slow,
  investigate: Scripts.investigate
}

/** Every script of the demo, the rule-made analyst included. */
export const scripts: ReadonlyArray<Script.Script> = [...Object.values(script), RuleModel.script]

/** What every script costs, in USD per million tokens. */
export const prices: Layer.Layer<never> = PriceBook.layer(
  Object.fromEntries(scripts.map(({ name }) => [name, { input: 2, output: 12 }]))
)

/** What a run may use if nobody says otherwise. The time is a safety net: no scenario comes near it. */
export const limits: LimitsInput = { turns: 20, time: "10 minutes" }

/** The investigator has twelve tool calls besides, and keeps two of them for its handoff. */
const investigatorLimits: LimitsInput = { ...limits, toolCalls: 12, reserve: { toolCalls: 2 } }

const policyOf = ({ repetition, ...rest }: Catalogue.Settings): Agent.PolicyInput =>
  repetition === "off" ? { ...rest, repetition } : rest

const analyst = (settings: Catalogue.Settings) =>
  Agent.make("log-analyst", {
    instructions: LogTools.instructions,
    toolkit: LogTools.toolkit,
    limits,
    policy: policyOf(settings)
  }).pipe(Agent.provide(prices))

const investigator = (settings: Catalogue.Settings) =>
  Agent.make("investigator", {
    instructions: InvestigationTools.instructions,
    toolkit: InvestigationTools.toolkit,
    output: InvestigationTools.Diagnosis,
    limits: investigatorLimits,
    policy: policyOf(settings)
  }).pipe(Agent.provide(prices))

/** The log analyst in a given world, in need of a model. */
export const agent = (
  settings: Catalogue.Settings,
  world: Fixture.World
): Agent.Agent<string, never, LanguageModel.LanguageModel> =>
  analyst(settings).pipe(Agent.provide(Fixture.layer(world)))

/** A scenario set up in a world of its own: its agent, what that is asked, and what it has deleted by now. */
export interface Stage {
  readonly agent: Agent.Agent<unknown, never, LanguageModel.LanguageModel>
  readonly task: string
  readonly deleted: () => ReadonlyArray<string>
}

/** Sets a scenario up. */
export const stage = (name: Catalogue.Name, settings: Catalogue.Settings): Stage => {
  if (name === "investigate") {
    return {
      agent: investigator(settings).pipe(Agent.provide(Investigation.layer(Investigation.make()))),
      task: InvestigationTools.task,
      deleted: () => []
    }
  }
  const world = Fixture.make()
  return { agent: agent(settings, world), task: LogTools.task, deleted: () => world.deleted }
}

const longestFirst = [...Catalogue.names].sort((a, b) => b.length - a.length).join("|")
const idOf = new RegExp(
  `^demo-(${longestFirst})(?:-(generic|fatal))?(?:-(continue))?(?:-(read-only|all))?(?:-repetition-(on|off))?-[0-9a-f]+$`
)

/** A new run id, which says by which agent the run is to be taken up again. */
export const newRunId = (name: Catalogue.Name, settings: Catalogue.Settings): Effect.Effect<string> =>
  Effect.sync(() => {
    const own = Catalogue.settingsOf(name)
    const words = [
      settings.toolErrors === own.toolErrors ? [] : [settings.toolErrors],
      settings.permanent === own.permanent ? [] : [settings.permanent],
      settings.dedupe === own.dedupe ? [] : [settings.dedupe],
      settings.repetition === own.repetition ? [] : ["repetition", settings.repetition]
    ]
    return ["demo", name, ...words.flat(), randomUUID().slice(0, 8)].join("-")
  })

/** What a run id says; `undefined` if it is not one of the demo's. */
export const fromRunId = (
  runId: string
): { readonly name: Catalogue.Name; readonly settings: Catalogue.Settings } | undefined => {
  const [, name = "", toolErrors, permanent, dedupe, repetition] = idOf.exec(runId) ?? []
  if (!Catalogue.isName(name)) return undefined
  const settings = Catalogue.settingsOf(name, {
    ...(toolErrors === "generic" || toolErrors === "fatal" ? { toolErrors } : undefined),
    ...(permanent === "continue" ? { permanent } : undefined),
    ...(dedupe === "read-only" || dedupe === "all" ? { dedupe } : undefined),
    ...(repetition === "on" || repetition === "off" ? { repetition } : undefined)
  })
  return { name, settings }
}

/** The tools' handlers in the world of a run, as its journal left it; in a new one if it has not begun. */
const handlersIn = <R>(runId: string, handlers: (events: ReadonlyArray<RunEvent>) => Layer.Layer<R>) =>
  Layer.unwrap(
    Effect.gen(function* () {
      const store = yield* RunStore
      const events = yield* Effect.catchTag(store.read(runId), "RunNotFound", () => Effect.succeed([]))
      return handlers(events)
    })
  )

/** The agent of a scenario, in need of a model, in the world that the journal of a run has left. */
export const restored = (
  runId: string,
  name: Catalogue.Name,
  settings: Catalogue.Settings
): Agent.Agent<unknown, RunStoreError, LanguageModel.LanguageModel | RunStore> =>
  name === "investigate"
    ? investigator(settings).pipe(
        Agent.provide(handlersIn(runId, (events) => Investigation.layer(Investigation.restore(events))))
      )
    : analyst(settings).pipe(
        Agent.provide(handlersIn(runId, (events) => Fixture.layer(Fixture.restore(events))))
      )

/**
 * The agent by which a stored run of the demo is resumed, with its scripted model, its tools and its prices;
 * `undefined` if the run is not one of the demo's. Its world is put back to where the journal left it.
 */
export const agentFor = (runId: string): Agent.Agent<unknown, RunStoreError, RunStore> | undefined => {
  const known = fromRunId(runId)
  return known === undefined
    ? undefined
    : restored(runId, known.name, known.settings).pipe(Agent.provide(Provider.inProcess(script[known.name])))
}
