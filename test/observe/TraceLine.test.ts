import { assert, describe, it } from "@effect/vitest"
import { line } from "../../src/observe/TraceLine.ts"
import { LiveEvent } from "../../src/run/RunEvent.ts"
import { samples } from "./events.ts"

describe("TraceLine", () => {
  it("writes the lines of the design, to the letter", () => {
    assert.strictEqual(
      line(samples.turn),
      '{"runId":"n1","type":"turn","turn":1,"prompt_tokens":204,"completion_tokens":23,"total_tokens":227,"costUsd":0.000684,"finish":"tool_calls"}'
    )
    assert.strictEqual(
      line(samples.tool_start),
      '{"runId":"n1","type":"tool_start","toolName":"list_files","args":"{}","callId":"c1"}'
    )
    assert.strictEqual(
      line(samples.tool_progress),
      '{"runId":"n1","type":"tool_progress","toolName":"scan_archive","label":"scanned 200 of 1200 files"}'
    )
    assert.strictEqual(
      line(samples.tool_result),
      '{"runId":"n1","type":"tool_result","toolName":"list_files","ms":1,"ok":true}'
    )
    assert.strictEqual(
      line(samples.approval_required),
      '{"runId":"n1","type":"approval_required","toolName":"delete_file","args":"{\\"path\\":\\"access.log\\"}","callId":"c2"}'
    )
    assert.strictEqual(
      line(samples.run_stopped),
      '{"runId":"n1","type":"run_stopped","status":"interrupted","reason":"approval","turns":2,"costUsd":0.00157}'
    )
  })

  it("writes small lines for the other events, and none for deltas and claims", () => {
    const { approval_resolved, child_suspended, handoff, input_given, input_required, limits_changed } =
      samples
    const { operation_ended, operation_started, outcome_resolved, run_resumed, run_started, turn_failed } =
      samples
    const rest = [
      run_started,
      run_resumed,
      limits_changed,
      turn_failed,
      approval_resolved,
      input_required,
      input_given,
      child_suspended,
      outcome_resolved,
      operation_started,
      operation_ended,
      handoff
    ]
    assert.deepStrictEqual(
      rest.map((event) => line(event)),
      [
        '{"runId":"n1","type":"run_started","agent":"log-analyst"}',
        '{"runId":"n1","type":"run_resumed","messages":1}',
        '{"runId":"n1","type":"limits_changed","limits":{"turns":30,"usd":0.05}}',
        '{"runId":"n1","type":"turn_failed","turn":2,"attempt":1,"reason":"RateLimitError","retryInMs":500}',
        '{"runId":"n1","type":"approval_resolved","callId":"c2","decision":"rejected","by":"ada","reason":"keep it"}',
        '{"runId":"n1","type":"input_required","callId":"c4"}',
        '{"runId":"n1","type":"input_given","callId":"c4","by":"ada"}',
        '{"runId":"n1","type":"child_suspended","callId":"c3","childRunId":"n1/c3","reason":"approval","childCostUsd":0.001}',
        '{"runId":"n1","type":"outcome_resolved","toolName":"delete_file","callId":"c2","outcome":"did_not_happen","by":"ada"}',
        '{"runId":"n1","type":"operation_started","toolName":"reindex","callId":"c5","operationId":"o1","label":"reindexing"}',
        '{"runId":"n1","type":"operation_ended","operationId":"o1","outcome":"cancelled","by":"cancel"}',
        '{"runId":"n1","type":"handoff","resource":"usd","used":0.05,"limit":0.05}'
      ]
    )
    assert.isUndefined(line(samples.text_delta, { bodies: true }))
    assert.isUndefined(line(samples.turn_started, { bodies: true }))
  })

  it("says what is out of the ordinary", () => {
    assert.strictEqual(
      line({ ...samples.run_stopped, operations: [{ operationId: "o1", handling: "detached" }] }),
      '{"runId":"n1","type":"run_stopped","status":"interrupted","reason":"approval","turns":2,"costUsd":0.00157,"operations":[{"operationId":"o1","handling":"detached"}]}'
    )
    assert.strictEqual(
      line({ ...samples.tool_result, ok: false, disposition: "refused", ms: 0 }),
      '{"runId":"n1","type":"tool_result","toolName":"list_files","ms":0,"ok":false,"disposition":"refused"}'
    )
    assert.strictEqual(
      line({ ...samples.tool_start, attempt: 2 }),
      '{"runId":"n1","type":"tool_start","toolName":"list_files","args":"{}","callId":"c1","attempt":2}'
    )
    assert.strictEqual(
      line({ ...samples.approval_resolved, decision: "approved", args: { path: "b.log" } }),
      '{"runId":"n1","type":"approval_resolved","callId":"c2","decision":"approved","edited":true,"by":"ada","reason":"keep it"}'
    )
    assert.strictEqual(
      line({ ...samples.run_started, parent: { runId: "n0", callId: "c1" }, after: "n9" }),
      '{"runId":"n1","type":"run_started","agent":"log-analyst","parentRunId":"n0","after":"n9"}'
    )
  })

  it("adds bodies when asked, after the other fields", () => {
    assert.strictEqual(
      line(samples.run_resumed, { bodies: true }),
      '{"runId":"n1","type":"run_resumed","messages":[{"role":"user","content":"go on"}]}'
    )
    assert.strictEqual(
      line(samples.tool_result, { bodies: true }),
      '{"runId":"n1","type":"tool_result","toolName":"list_files","ms":1,"ok":true,"content":"access.log\\nerror.log"}'
    )
    assert.include(line(samples.turn, { bodies: true }), '"message":{"role":"assistant"')
    assert.include(line(samples.run_started, { bodies: true }), "mentions a timeout")
    assert.include(line(samples.turn_failed, { bodies: true }), '"detail":"slow down"')
    const broken = { ...samples.turn, error: { reason: "QuotaExhaustedError", detail: "no more" } }
    assert.include(line(broken), '"reason":"QuotaExhaustedError"')
    assert.notInclude(line(broken), "no more")
    assert.include(line(broken, { bodies: true }), '"detail":"no more"')
    assert.include(line(samples.input_required, { bodies: true }), '"question":"Which day?"')
    assert.include(line(samples.input_given, { bodies: true }), '"answer":"Monday"')
    assert.include(line(samples.outcome_resolved, { bodies: true }), '"content":"the file is still there"')
  })

  it.prop("is one line of JSON, whatever the event", { event: LiveEvent }, ({ event }) => {
    const text = line(event, { bodies: true })
    if (text === undefined) return event.type === "text_delta" || event.type === "turn_started"
    const read = JSON.parse(text)
    return !text.includes("\n") && read.runId === event.runId && read.type === event.type
  })

  it.prop(
    "never says what was said, unless asked to",
    { event: LiveEvent },
    ({ event }) => {
      const planted = plant(event, [])
      const text = line(planted) ?? ""
      return !text.includes(secret)
    },
    { arbitrary: { runs: 1_000 } }
  )

  it("would say it if it were asked to, so the property above can fail", () => {
    for (const event of [samples.turn, samples.run_started, samples.tool_result, samples.input_given]) {
      assert.include(line(plant(event, []), { bodies: true }), secret)
    }
    const called = plant({ ...samples.tool_start, args: { path: "a" } }, ["args"])
    assert.include(line(called), `"args":"{\\"path\\":\\"a\\"}"`)
  })
})

const secret = "SECRET-4711"

// What a line is meant to hold: names, ids, reasons, and the arguments of calls where they are part of the line. All
// other strings, those of fields that are yet to be added to an event included, are words of the run.
const allowed = new Set(
  "type runId agent callId tool operationId at after finish reason by label decision expires outcome status resource disposition limits operations".split(
    " "
  )
)

const inside: Record<string, ReadonlyArray<string>> = { exhausted: ["resource", "pool"], error: ["reason"] }

const plant = (event: LiveEvent, also: ReadonlyArray<string>): LiveEvent => {
  const argsShown = event.type === "tool_start" || event.type === "approval_required"
  const keep = new Set([...allowed, ...also, ...(argsShown ? ["args"] : [])])
  const top: Record<string, unknown> = {}
  for (const [key, value] of Object.entries(event)) {
    if (keep.has(key) || key === "parent") top[key] = value
    else if (key === "suspension") top[key] = replace(value, new Set(["runId", "reason"]))
    else top[key] = replace(value, new Set(inside[key]))
  }
  return top as LiveEvent
}

const replace = (value: unknown, keep: ReadonlySet<string>): unknown => {
  if (typeof value === "string") return secret
  if (Array.isArray(value)) return value.map((one) => replace(one, none))
  if (typeof value !== "object" || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, one]) => [key, keep.has(key) ? one : replace(one, none)])
  )
}

const none: ReadonlySet<string> = new Set()
