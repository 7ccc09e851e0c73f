/**
 * What a reply asks for: the calls with their ids, and what the driver has to know of each before anything starts.
 */
import * as Tool from "effect/ai/Tool"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as SchemaAST from "effect/SchemaAST"
import type * as Limits from "../run/Limits.ts"
import type { AssistantMessage, Message, ToolCallPart } from "../run/Message.ts"
import type { CallEffect, PlannedCall } from "../run/RunEvent.ts"
import type { PendingCall } from "../run/RunState.ts"
import * as Operation from "../tool/Operation.ts"
import { IdempotencyKey, Purpose, Reconcile } from "../tool/ToolPolicy.ts"
import * as Author from "./Author.ts"
import { IsAgent } from "./ChildRun.ts"
import * as Digest from "./Digest.ts"
import type { Job } from "./Job.ts"
import * as ToolRunner from "./ToolRunner.ts"
import * as Words from "./Words.ts"

/** The tool of this name, if there is one. */
export const toolOf = (job: Job, name: string): Tool.Any | undefined =>
  Object.hasOwn(job.tools.tools, name) ? job.tools.tools[name] : undefined

/** Whether a success of a tool may be of this schema, which is known by its identifier: alone, or in a union. */
const admits = ({ successSchema }: Tool.Any, { ast }: Schema.Top): boolean => {
  const identifier = SchemaAST.resolveIdentifier(ast)
  const within = (each: SchemaAST.AST): boolean =>
    SchemaAST.resolveIdentifier(each) === identifier || (SchemaAST.isUnion(each) && each.types.some(within))
  return within(successSchema.ast)
}

/** Whether a tool says that it starts operations. */
export const startsOperations = (tool: Tool.Any): boolean => admits(tool, Operation.Started)

/** Whether a tool says that it only looks at operations. */
export const observesOperations = (tool: Tool.Any): boolean =>
  admits(tool, Operation.Running) && !startsOperations(tool)

/**
 * What a tool does to the world. A tool that does not exist does nothing, nor does one that only the model's provider
 * runs. One that starts operations is no mere read, whatever it is annotated with: two calls of it must not run at once,
 * for they may ask for the same work.
 */
export const effectOf = (tool: Tool.Any | undefined): CallEffect => {
  if (tool === undefined || ToolRunner.isProviders(tool)) return "read"
  const reads = Context.get(tool.annotations, Tool.Readonly)
  if (reads && !startsOperations(tool)) return "read"
  return reads || Context.get(tool.annotations, Tool.Idempotent) ? "idempotent" : "write"
}

/** Whether a tool is an agent. */
export const isAgent = (tool: Tool.Any | undefined): boolean =>
  tool !== undefined && Context.get(tool.annotations, IsAgent)

/** What a tool is for. One that looks at operations is for the handoff, also where its author did not say so. */
export const purposeOf = (tool: Tool.Any | undefined): Limits.Purpose => {
  if (tool === undefined) return "investigate"
  return observesOperations(tool) ? "handoff" : Context.get(tool.annotations, Purpose)
}

/** The key under which a call may be repeated: the tool's own, or a digest. Fails with what is wrong with the tool's own. */
export const keyOf = (job: Job, runId: string, call: PendingCall): Result.Result<string, string> => {
  const { args, argsDigest, callId, tool: name, turn } = call
  const tool = toolOf(job, name)
  const own = tool === undefined ? undefined : Context.get(tool.annotations, IdempotencyKey)
  return own === undefined
    ? Result.succeed(Digest.idempotencyKey({ runId, turn, callId, argsDigest }))
    : Author.yields({ name: `the IdempotencyKey of ${name}`, what: "a text", is: Predicate.isString }, () =>
        own({ runId, callId, tool: name, args })
      )
}

// Ids stand in run ids, in commands that people paste and on the wire: what could be anything else is not taken.
const wellFormed = /^[A-Za-z0-9][\w.:-]{0,127}$/

/**
 * Gives out call ids: the provider's if it is well-formed and new in this run, else one made of turn and index.
 */
export interface Ids {
  /** Keeps an id that a provider has given to a call of its own, which it must find again as it is. */
  readonly keep: (id: string) => void
  readonly assign: (given: string, turn: number, index: number) => string
}

/** The ids of a run whose transcript this is. */
export const ids = (messages: ReadonlyArray<Message>): Ids => {
  const used = new Set<string>()
  for (const message of messages) {
    if (message.role !== "assistant") continue
    for (const part of message.content) if (part.type === "tool-call") used.add(part.id)
  }
  return {
    keep: (id) => void used.add(id),
    assign: (given, turn, index) => {
      let id = wellFormed.test(given) && !used.has(given) ? given : `${turn}.${index}`
      for (let n = 1; used.has(id); n++) id = `${turn}.${index}.${n}`
      used.add(id)
      return id
    }
  }
}

/** The content with the ids that the harness has assigned; these are what goes on the wire from now on. */
export const withIds = (
  content: AssistantMessage["content"],
  turn: number,
  ids: Ids
): AssistantMessage["content"] => {
  for (const part of content) {
    if (part.type === "tool-call" && part.providerExecuted === true) ids.keep(part.id)
  }
  let index = 0
  return content.map((part) =>
    part.type === "tool-call" && part.providerExecuted !== true
      ? { ...part, id: ids.assign(part.id, turn, index++) }
      : part
  )
}

const Question = Schema.Struct({ question: Schema.String })
const isQuestion = Schema.is(Question)

/** Plans the calls of a turn, in the model's order. */
export const plan = Effect.fnUntraced(function* (job: Job, calls: ReadonlyArray<ToolCallPart>) {
  const planned: Array<PlannedCall> = []
  let submitted = false
  for (const call of calls) {
    const tool = toolOf(job, call.name)
    const base = { callId: call.id, argsDigest: Digest.ofArgs(call.params) }
    if (job.contract !== undefined && call.name === Words.submitTool && !submitted) {
      if (Option.isSome(yield* decodeArgs(job.contract.submit, call.params))) {
        submitted = true
        planned.push({
          ...base,
          kind: "submit",
          purpose: "handoff",
          effect: "read"
        })
        continue
      }
    }
    if (job.contract !== undefined && call.name === Words.inputTool && isQuestion(call.params)) {
      planned.push({
        ...base,
        kind: "input",
        purpose: "handoff",
        effect: "read"
      })
      continue
    }
    const asks = tool?.needsApproval !== undefined && tool.needsApproval !== false
    const reconciles = tool !== undefined && Context.get(tool.annotations, Reconcile) !== undefined
    planned.push({
      ...base,
      effect: effectOf(tool),
      ...(purposeOf(tool) === "handoff" ? { purpose: "handoff" as const } : undefined),
      ...(asks ? { approval: "ask" as const } : undefined),
      ...(reconciles ? { reconcile: true as const } : undefined),
      ...(isAgent(tool) ? { agent: true as const } : undefined)
    })
  }
  return planned
})

/** Whether these encoded arguments fit the tool, decoded; `None` if they do not. */
export const decodeArgs = (tool: Tool.Any, args: Schema.Json): Effect.Effect<Option.Option<unknown>> =>
  Effect.matchCause(ToolRunner.decode(tool, args), {
    onFailure: () => Option.none<unknown>(),
    onSuccess: Option.some<unknown>
  })
