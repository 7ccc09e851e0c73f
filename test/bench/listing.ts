/** How long a page of a list takes among 100,000 runs. */
import { isArrayNonEmpty } from "effect/Array"
import * as Effect from "effect/Effect"
import type { ListOptions, RunSummary } from "../../src/store/RunStore.ts"
import { second, summary } from "../../src/testing/conformance/Samples.ts"
import type { Database } from "./databases.ts"
import { median } from "./measure.ts"

/** How a run stands: every fourth waits for an approval, one in 10,000 has an unknown outcome, and one has failed. */
const standing = (n: number): Pick<RunSummary, "status" | "reason"> => {
  if (n % 10_000 === 5_000) return { status: "failed", reason: "defect" }
  if (n % 10_000 === 2_500) return { status: "interrupted", reason: "unknown_outcome" }
  return n % 4 === 1
    ? { status: "interrupted", reason: "approval" }
    : { status: "completed", reason: "answered" }
}

/** Fills a store with small runs: half of them tagged `big`, one in 1,000 `small`; one in 10,000 was told something. */
const fill = Effect.fnUntraced(function* ({ sql }: Database, count: number) {
  const chunk = 500
  // An empty table numbers its rows from 1 on.
  let next = 1
  for (let start = 0; start < count; start += chunk) {
    const runs = Array.from({ length: chunk }, (_, i) => {
      const n = start + i
      const tags = [...(n % 2 === 0 ? ["big"] : []), ...(n % 1_000 === 0 ? ["small"] : [])]
      const rest = { agent: `agent ${n % 10}`, ...standing(n), startedAt: second(n), tags }
      return { run_no: next++, of: summary(`run ${n}`, 1, rest) }
    })
    const rows = runs.map(({ of }) => ({
      run_id: of.runId,
      agent: of.agent,
      status: of.status,
      reason: of.reason ?? null,
      started_at: of.startedAt,
      seq: 1,
      summary: JSON.stringify(of)
    }))
    if (isArrayNonEmpty(rows)) yield* sql`INSERT INTO checkrein_runs ${sql.insert(rows)}`
    const told = runs.filter((_, i) => (start + i) % 10_000 === 1)
    for (const { of } of told) {
      yield* sql`INSERT INTO checkrein_commands (run_id, id, body) VALUES (${of.runId}, 1, '{}')`
    }
    const tagged = runs.flatMap(
      ({ of: { agent, reason = null, runId, startedAt, status, tags = [] }, run_no }) =>
        tags.map((tag) => ({ run_no, tag, agent, status, reason, started_at: startedAt, run_id: runId }))
    )
    if (isArrayNonEmpty(tagged)) yield* sql`INSERT INTO checkrein_tags ${sql.insert(tagged)}`
  }
})

const lists: { readonly [name: string]: ListOptions } = {
  newest: {},
  "by status": { status: "completed" },
  "by a rare status": { status: "failed" },
  "by agent": { agent: "agent 3" },
  "by agent and a rare status": { agent: "agent 0", status: "failed" },
  "by tag": { tag: "big" },
  "by a rare tag": { tag: "small" },
  "by tag and a rare status": { tag: "big", status: "failed" },
  "by tag, agent and a rare status": { tag: "big", agent: "agent 0", status: "failed" },
  "by a tag and an agent that never meet": { tag: "big", agent: "agent 3" },
  "by age": { until: second(50_000) },
  "by tag and age": { tag: "big", since: second(20_000), until: second(50_000) },
  "by status and age": { status: "failed", until: second(20_000) },
  "by reason": { reason: "approval" },
  "by a rare reason": { reason: "unknown_outcome" },
  "by a rare reason and its status": { reason: "unknown_outcome", status: "interrupted" },
  "by a reason and a status that never meet": { reason: "answered", status: "failed" },
  "by agent and a rare reason": { agent: "agent 0", reason: "unknown_outcome" },
  "by an agent and a reason that never meet": { agent: "agent 3", reason: "unknown_outcome" },
  "by tag and a rare reason": { tag: "big", reason: "unknown_outcome" },
  "by a tag and a reason that never meet": { tag: "big", reason: "approval" },
  "by tag, agent and a rare reason": { tag: "big", agent: "agent 0", reason: "unknown_outcome" },
  "by reason, and told something": { reason: "approval", told: true },
  "by reason and age": { reason: "approval", until: second(20_000) },
  "by tag, a rare reason and age": { tag: "big", reason: "unknown_outcome", since: second(20_000) }
}

/** Milliseconds for a page of 50 from the middle of each list: the median and the longest of many. */
export const pages = (database: Database, count: number) =>
  Effect.gen(function* () {
    yield* fill(database, count)
    const middle = { startedAt: second(count / 2), runId: "" }
    const results: Array<{ readonly list: string; readonly ms: number; readonly most: number }> = []
    for (const [list, options] of Object.entries(lists)) {
      const times: Array<number> = []
      for (let i = 0; i < 20; i++) {
        const start = performance.now()
        yield* database.store.list(i % 2 === 0 ? options : { ...options, before: middle })
        times.push(performance.now() - start)
      }
      results.push({ list, ms: median(times), most: Math.max(...times) })
    }
    return results
  })
