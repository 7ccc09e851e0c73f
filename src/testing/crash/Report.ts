/**
 * What a check has found: the undisturbed run, and what came of it at each seam and in each way.
 */
import * as Effect from "effect/Effect"
import type { Message } from "../../run/Message.ts"
import * as Observation from "./Observation.ts"
import * as Promises from "./Promises.ts"
import * as Seam from "./Seam.ts"
import type { Observed } from "./Subject.ts"

/** What came of one run. Money in USD. */
export interface Account {
  readonly ending: Observation.Ending
  /** What it was stopped by before it ended, in order: the fault, and what waited for a person. */
  readonly stops: ReadonlyArray<string>
  readonly messages: ReadonlyArray<Message>
  /** Its turns, those of lost model calls included. */
  readonly turns: number
  readonly costUsd: number
  /** The model calls that never came back; each counts as a turn, and costs its estimate. */
  readonly lostTurns: number
  /** Each call of a tool: how often it was started, and what took place. */
  readonly calls: ReadonlyArray<Observation.CallCount>
}

/** What came of a run that was stopped at a seam. */
export interface Visit extends Account, Seam.Fault {
  /** Why it was free to go another way than the undisturbed run; empty if it had to do the same. */
  readonly parted: ReadonlyArray<string>
  readonly broken: ReadonlyArray<Promises.Broken>
}

/** What a check has found. `broken` is empty if every promise was kept. */
export interface Report {
  readonly undisturbed: Account
  /** The seams of the undisturbed run, in order. */
  readonly seams: ReadonlyArray<Seam.Seam>
  readonly visits: ReadonlyArray<Visit>
  readonly broken: ReadonlyArray<Promises.Broken>
}

const accountOf = ({ observation }: Observed): Account => {
  const { ending, entries, runId, runs, stops } = observation
  const root = runs.get(runId)
  const { costUsd = 0, messages = [], turns = 0 } = root?.state ?? {}
  const { lostTurns } = Observation.spentIn(root?.events ?? [])
  return { ending, stops, messages, turns, costUsd, lostTurns, calls: Observation.callsIn(entries) }
}

/** Which seams are visited, in which ways, with which relapse, and how many at a time. */
export interface Plan {
  readonly relapse?: number | undefined
  readonly ways: ReadonlyArray<Seam.Way>
  readonly only: (seam: Seam.Seam) => boolean
  readonly concurrency: number
}

/** How a run is observed: with a fault or without, and with the names of the tools that tell of their effects. */
export type Observe<E, R> = (
  fault: Seam.Fault | undefined,
  telling: ReadonlySet<string>
) => Effect.Effect<Observed, E, R>

const tellingIn = (calls: ReadonlyArray<Observation.CallCount>): ReadonlySet<string> =>
  new Set(calls.filter(({ effects }) => effects.length > 0).map(({ tool }) => tool))

/** What was broken between two undisturbed runs. */
const asRepeated = (broken: Promises.Broken): Promises.Broken =>
  broken.promise === "transcript" || broken.promise === "cost"
    ? {
        ...broken,
        promise: "repeatable",
        problem: `it does not do the same each time: ${broken.problem} ${Promises.stateOutside}`
      }
    : broken

/** What cannot be told of a tool that does not tell. */
const asSilent = ({ callId, runId, tool }: Observed["silent"][number]): Promises.Broken => ({
  promise: "observed",
  runId,
  callId,
  problem:
    `${tool} has run and told of nothing, so that nobody knows whether it takes place once: ` +
    "say CrashKit.happened where its effect is, mark it as Tool.Readonly if it has none, or name it in `silent`"
})

/** Observes the undisturbed run, twice, and then a run for each seam and way. */
export const make = Effect.fnUntraced(function* <E, R>(observe: Observe<E, R>, plan: Plan) {
  const first = yield* observe(undefined, new Set())
  const undisturbed = accountOf(first)
  const telling = tellingIn(undisturbed.calls)
  const { seams } = first

  const second = yield* observe(undefined, telling)
  const unseen = first.silent.map(asSilent)
  const { broken } = Promises.judge(first.observation, second.observation, [])
  if (broken.length > 0) {
    const report: Report = { undisturbed, seams, visits: [], broken: [...unseen, ...broken.map(asRepeated)] }
    return report
  }

  const relapse = plan.relapse === undefined ? {} : { relapse: plan.relapse }
  const faults = seams
    .filter(plan.only)
    .flatMap((seam) => plan.ways.map((way): Seam.Fault => ({ seam, way, ...relapse })))
  const visits = yield* Effect.forEach(
    faults,
    (fault) =>
      Effect.map(observe(fault, telling), (observed): Visit => {
        const { observation, strikes } = observed
        const { broken, parted } = Promises.judge(first.observation, observation, strikes)
        const problem = `it did not come to the seam ${Seam.name(fault.seam)}`
        const missed: Promises.Broken = { promise: "repeatable", fault, runId: observation.runId, problem }
        return {
          ...fault,
          ...accountOf(observed),
          parted,
          broken: strikes.length === 0 ? [missed, ...broken] : broken
        }
      }),
    { concurrency: plan.concurrency }
  )
  const report: Report = {
    undisturbed,
    seams,
    visits,
    broken: [...unseen, ...visits.flatMap(({ broken }) => broken)]
  }
  return report
})
