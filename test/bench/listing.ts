/** How long a page of a list takes among 100,000 runs. */
import { isArrayNonEmpty } from "effect/Array"
import * as Effect from "effect/Effect"
import type { ListOptions } from "../../src/store/RunStore.ts"
import { second, summary } from "../../src/testing/conformance/Samples.ts"
import type { Database } from "./databases.ts"
import { median } from "./measure.ts"

/** Fills a store with small runs: half of them tagged `big`, one in 1,000 `small`, one in 10,000 waiting. */
const fill = Effect.fnUntraced(function* ({ sql }: Database, count: number) {
  const chunk = 500
  // An empty table numbers its rows from 1 on.
  let next = 1
  for (let start = 0; start < count; start += chunk) {
    const runs = Array.from({ length: chunk }, (_, i) => {
      const n = start + i
      const status = n % 10_000 === 5_000 ? ("interrupted" as const) : ("completed" as const)
      const tags = [...(n % 2 === 0 ? ["big"] : []), ...(n % 1_000 === 0 ? ["small"] : [])]
      const rest = { agent: `agent ${n % 10}`, status, startedAt: second(n), tags }
      return { run_no: next++, of: summary(`run ${n}`, 1, rest) }
    })
    const rows = runs.map(({ of: { agent, runId, startedAt, status, ...rest } }) => ({
      run_id: runId,
      agent,
      status,
      started_at: startedAt,
      seq: 1,
      summary: JSON.stringify({ agent, runId, startedAt, status, ...rest })
    }))
    if (isArrayNonEmpty(rows)) yield* sql`INSERT INTO checkrein_runs ${sql.insert(rows)}`
    const tagged = runs.flatMap(({ of: { agent, runId, startedAt, status, tags = [] }, run_no }) =>
      tags.map((tag) => ({ run_no, tag, agent, status, started_at: startedAt, run_id: runId }))
    )
    if (isArrayNonEmpty(tagged)) yield* sql`INSERT INTO checkrein_tags ${sql.insert(tagged)}`
  }
})

const lists: { readonly [name: string]: ListOptions } = {
  newest: {},
  "by status": { status: "completed" },
  "by a rare status": { status: "interrupted" },
  "by agent": { agent: "agent 3" },
  "by agent and a rare status": { agent: "agent 0", status: "interrupted" },
  "by tag": { tag: "big" },
  "by a rare tag": { tag: "small" },
  "by tag and a rare status": { tag: "big", status: "interrupted" },
  "by tag, agent and a rare status": { tag: "big", agent: "agent 0", status: "interrupted" },
  "by a tag and an agent that never meet": { tag: "big", agent: "agent 3" },
  "by age": { until: second(50_000) },
  "by tag and age": { tag: "big", since: second(20_000), until: second(50_000) },
  "by status and age": { status: "interrupted", until: second(20_000) }
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
