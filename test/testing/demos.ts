/**
 * The scripts of the demo as subjects of the crash kit: each with its agent in a world of its own, which is new in each
 * run.
 */

import * as Catalogue from "../../src/demo/Catalogue.ts"
import * as Fixture from "../../src/demo/Fixture.ts"
import * as LogTools from "../../src/demo/LogTools.ts"
import * as RuleModel from "../../src/demo/RuleModel.ts"
import * as Scenario from "../../src/demo/Scenario.ts"
import { Scripted } from "../../src/provider/index.ts"

/** The tools of the demo that change something know nothing of the kit. */
const silent = ["delete_file", "start_test", "save_handoff"]

const stage = (name: Catalogue.Name) => Scenario.stage(name, Catalogue.settingsOf(name))

interface Stages {
  /** The agent in a world that outlives its drivers, as other services do. */
  readonly agent: () => Scenario.Stage["agent"]
  /** The agent in a world that dies with its process: the next one puts it back to where the journal has left it. */
  readonly restored: (runId: string) => ReturnType<typeof Scenario.restored>
}

const demoOf = (script: Scripted.Script, input: string, { agent, restored }: Stages) => {
  const subject = {
    input,
    // The runaway goes through the same seams in each turn, as many as it is given.
    limits: script === Scenario.script.runaway ? { turns: 5 } : {},
    layer: Scripted.layer(script, { usage: { promptTokens: 200, completionTokens: 20 } }),
    silent
  }
  // The kit names the only run of a store so.
  const mortal = { ...subject, agent: () => restored("crash-kit") }
  return { name: script.name, subject: { ...subject, agent }, mortal }
}

/** Every script of the demo, the rule-made analyst included. */
export const demos = [
  ...Catalogue.names.map((name) =>
    demoOf(Scenario.script[name], stage(name).task, {
      agent: () => stage(name).agent,
      restored: (runId) => Scenario.restored(runId, name, Catalogue.settingsOf(name))
    })
  ),
  demoOf(RuleModel.script, LogTools.task, {
    agent: () => Scenario.agent(Catalogue.defaults, Fixture.make()),
    restored: (runId) => Scenario.restored(runId, "plan", Catalogue.defaults)
  })
]

export type Demo = (typeof demos)[number]

/** The one of this name. */
export const demo = (name: string): Demo => {
  const found = demos.find((one) => one.name === name)
  if (found === undefined) throw new Error(`the demo has no script named ${name}`)
  return found
}
