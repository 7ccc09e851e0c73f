import { Agent } from "checkrein"
import { MemoryBudgetPool } from "checkrein/store"
import { Effect } from "effect"
import { analyst } from "./analyst.ts"

const TeamBudget = MemoryBudgetPool.layer("team-a", { usd: 0.1, toolCalls: 1_000, reserve: { usd: 0.01 } })

export const allAtOnce = Effect.forEach(
  ["errors.log", "access.log", "jobs.log"],
  (file) => Agent.outcome(Agent.run(analyst, `Is anything odd in ${file}?`)),
  { concurrency: "unbounded" }
).pipe(Effect.provide(TeamBudget))
