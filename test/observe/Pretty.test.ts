import { assert, describe, it } from "@effect/vitest"
import { pretty, prettyInTurn } from "../../src/observe/Pretty.ts"
import { LiveEvent } from "../../src/run/RunEvent.ts"
import { samples } from "./events.ts"

describe("Pretty", () => {
  it("is compact, and tells a person how a run goes", () => {
    const shown = Object.values(samples).flatMap((event) => pretty(event) ?? [])
    assert.deepStrictEqual(shown, [
      "▶ log-analyst  n1",
      "▶ resumed  n1",
      '  limits  {"turns":30,"usd":0.05}',
      "  turn 1  204 + 23 tokens  $0.000684",
      "  ! turn 2 failed (RateLimitError), again in 500 ms  slow down",
      "    → list_files {}",
      "    … scan_archive  scanned 200 of 1200 files",
      "    ✓ list_files 1 ms",
      '    ? delete_file {"path":"access.log"}  needs approval (c2)',
      "    ✗ c2 rejected by ada: keep it",
      "    ? Which day? (c4)",
      "    ✓ answered by ada",
      "    ? n1/c3 waits: approval",
      "    ✓ delete_file did not happen",
      "    ↻ reindex  o1 goes on: reindexing",
      "    ↻ o1 cancelled  stopped by request",
      "  ! handing over: usd 0.05 of 0.05 used",
      "■ interrupted: approval  2 turns  $0.00157  delete_file waits for a decision"
    ])
  })

  it("marks what went wrong, and how long things took", () => {
    const result = samples.tool_result
    assert.strictEqual(
      pretty({ ...result, ok: false, ms: 1500, detail: "ENOENT: no such file" }),
      "    ✗ list_files 1.5 s  ENOENT: no such file"
    )
    assert.strictEqual(pretty({ ...result, ok: false, disposition: "refused" }), "    ✗ list_files refused")
    assert.strictEqual(pretty({ ...result, ms: 125_000 }), "    ✓ list_files 2 min 5 s")
    assert.strictEqual(
      pretty({
        ...samples.turn,
        finish: "length",
        usage: { promptTokens: 12_345, completionTokens: 9 },
        totalUsd: 1.5
      }),
      "  turn 1  12.3k + 9 tokens  $1.50  length"
    )
    assert.strictEqual(
      pretty({
        ...samples.turn,
        finish: "broken",
        usage: { promptTokens: 12_345, completionTokens: 9 },
        totalUsd: 1.5,
        error: { reason: "QuotaExhaustedError", detail: "ChatCompletions.streamText: Quota exhausted." }
      }),
      "  turn 1  12.3k + 9 tokens  $1.50  broken  Quota exhausted."
    )
    assert.strictEqual(
      pretty({ ...samples.run_stopped, status: "completed", reason: "answered", turns: 1, costUsd: 0 }),
      "■ completed: answered  1 turn  $0.00"
    )
    assert.strictEqual(
      pretty({ ...samples.approval_resolved, decision: "approved", args: { path: "b" } }),
      "    ✓ c2 approved with other arguments by ada: keep it"
    )
    assert.strictEqual(
      pretty({
        ...samples.turn_failed,
        detail: "ChatCompletions.streamText: TransportError: no answer: connect ECONNREFUSED 127.0.0.1:1"
      }),
      "  ! turn 2 failed (RateLimitError), again in 500 ms  no answer: connect ECONNREFUSED 127.0.0.1:1"
    )
    assert.isUndefined(pretty({ ...samples.approval_resolved, decision: "not_required" }))
    assert.strictEqual(
      pretty({
        ...samples.run_stopped,
        operations: [
          { operationId: "o1", handling: "detached" },
          { operationId: "o2", handling: "still_running" }
        ]
      }),
      "■ interrupted: approval  2 turns  $0.00157  delete_file waits for a decision  2 operations go on"
    )
  })

  it("does not call a run free whose model has no known price, up to its end", () => {
    const shown = prettyInTurn()
    const of = (runId: string, totalUsd: number) => [
      shown({ ...samples.turn, runId, totalUsd, costUsd: 0, unpriced: true }),
      shown({ ...samples.turn, runId, totalUsd: totalUsd + 0.25 }),
      shown({ ...samples.run_stopped, runId, costUsd: totalUsd, status: "completed", reason: "answered" })
    ]
    assert.deepStrictEqual(of("n1", 0), [
      "  turn 1  204 + 23 tokens  not priced",
      "  turn 1  204 + 23 tokens  $0.25 + unpriced",
      "■ completed: answered  2 turns  not priced"
    ])
    assert.strictEqual(of("n2", 0.5)[2], "■ completed: answered  2 turns  $0.50 + unpriced")
    assert.strictEqual(shown({ ...samples.turn, runId: "n3" }), "  turn 1  204 + 23 tokens  $0.000684")
  })

  it("does not call a run priced whose sub-agent is not, nor its last event by itself", () => {
    const shown = prettyInTurn()
    shown({ ...samples.tool_result, runId: "n1", childCostUsd: 0, childUnpriced: true })
    assert.strictEqual(
      shown({ ...samples.turn, runId: "n1" }),
      "  turn 1  204 + 23 tokens  $0.000684 + unpriced"
    )
    const last = { ...samples.run_stopped, costUsd: 0, status: "completed", reason: "answered" } as const
    assert.strictEqual(pretty({ ...last, unpriced: true }), "■ completed: answered  2 turns  not priced")
  })

  it("indents a child run under its parent", () => {
    assert.strictEqual(pretty({ ...samples.tool_start, runId: "n1/c3" }), "      → list_files {}")
  })

  it("shortens what is long, without cutting a character in two", () => {
    const long = pretty({ ...samples.tool_start, args: { text: "x".repeat(10_000) } }, { width: 20 })
    assert.strictEqual(long, `    → list_files {"text":"${"x".repeat(10)}…`)
    const cut = pretty({ ...samples.tool_progress, label: "🐎".repeat(50) }, { width: 10 })
    assert.strictEqual(cut, `    … scan_archive  ${"🐎".repeat(4)}…`)
  })

  it("colours only if asked to", () => {
    assert.strictEqual(
      pretty(samples.tool_result, { colors: true }),
      "    \u001b[32m✓\u001b[0m list_files \u001b[2m1 ms\u001b[0m"
    )
  })

  it("does not let a tool or a model write to the terminal", () => {
    const evil = "\u001b[2J\r\nfake line\u009b31m\u202eabc"
    const shown = pretty({ ...samples.tool_progress, tool: evil, label: evil })
    assert.strictEqual(shown, "    … [2J fake line 31m abc  [2J fake line 31m abc")
  })

  it("keeps a name that a model made up within bounds", () => {
    const shown = pretty({ ...samples.tool_result, tool: "x".repeat(5000) })
    assert.strictEqual(shown, `    ✓ ${"x".repeat(63)}… 1 ms`)
  })

  it.prop(
    "is one bounded line of harmless characters, whatever the event",
    { event: LiveEvent },
    ({ event }) => {
      const text = pretty(event, { width: 40 })
      return text === undefined || (text.length < 300 && !/[\p{Cc}\u2028\u2029\u202a-\u202e]/u.test(text))
    }
  )
})
