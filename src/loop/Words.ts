/**
 * Every sentence that the harness says to a model, in one place: what is worded here is what law 3 promises.
 */
import * as EvidenceIndex from "../run/EvidenceIndex.ts"
import type { Exhausted, Resource } from "../run/Limits.ts"
import type { Refusal } from "../run/NextStep.ts"
import type { Operation, PendingCall } from "../run/RunState.ts"
import type { Observed, Outcome } from "../tool/Operation.ts"
import * as Nesting from "./Nesting.ts"

const resource: Record<Resource, string> = {
  turns: "turns",
  usd: "money",
  tokens: "tokens",
  time: "time",
  tool_calls: "tool calls"
}

/** The name of the tool with which a model submits its result. */
export const submitTool = "submit_result"

/** The name of the tool with which a model asks a person. */
export const inputTool = "request_input"

/** A call that is answered without being run, or without being run again. */
export const refusal = (call: PendingCall, why: Refusal): string => {
  if (why._tag === "Rejected") {
    const reason = call.rejection?.trim() ?? ""
    const declined = `Declined: a person was asked about this call and declined it${reason === "" ? "" : `: ${reason}`}.`
    return call.attempts > 0 && call.effect !== "read"
      ? `${declined} It did not run again: it was cut off before. ${mayHaveHappened}`
      : `${declined} It did not run.`
  }
  const not =
    call.attempts > 0 && call.effect !== "read"
      ? `Not run again: it was cut off before. ${mayHaveHappened} What this task may use`
      : "Not run: what this task may use"
  const short = `${not} of ${resource[why.exhausted.resource]} is used up`
  return why._tag === "HandoffOnly"
    ? `${short}, except for what is kept for the handoff.`
    : `${short}. Answer with what you have found.`
}

/** What the model is told when only the reserve is left; `submits` says whether its result has to be submitted. */
export const handoffNote = ({ resource: name }: Exhausted, submits: boolean): string => {
  const short = `What this task may use of ${resource[name]} is used up, except for a small reserve. Do not investigate any further.`
  const written = "what you have found, what is still open, and how to go on."
  return submits
    ? `${short} If what you have found is enough for a valid result, call ${submitTool} now. If not, do not make one up. Write a handoff instead: ${written}`
    : `${short} Write a handoff now: ${written}`
}

const notRun = (calls: number): string => {
  if (calls === 0) return ""
  return calls === 1 ? " Its tool call was not run." : ` None of its ${calls} tool calls was run.`
}

const whereItEnded = "Go on exactly where it ended, without repeating any of it"

/** What the model is told after a reply that was cut off; `goesOn` says that there is text to go on with. */
export const incompleteNote = (why: string, calls: number, goesOn: boolean): string => {
  const lost = `Your last reply was cut off (${why}).${notRun(calls)}`
  if (!goesOn) return `${lost} Answer, or call a tool, in a shorter reply if it was too long.`
  return `${lost} ${calls === 0 ? whereItEnded : `${whereItEnded}, and call again what is still needed`}.`
}

/** What the model is told after a reply that its provider did not let through. */
export const filteredNote = (calls: number): string =>
  `Your last reply was stopped by the provider's content filter.${notRun(calls)} Answer anew, as a whole and in other words, or call a tool.`

/** What the model is told after a reply with neither text nor calls; `goesOn` says that there is text to go on with. */
export const emptyNote = (goesOn: boolean): string =>
  goesOn
    ? `Your last reply was empty, and the one before was cut off. ${whereItEnded}, or call a tool.`
    : "Your last reply was empty. Answer, or call a tool."

/** What the model is told when it answers in prose although a result has to be submitted. */
export const contractNote = `This task is not done until you call ${submitTool} with a valid result. Prose alone does not complete it.`

/** A tool that does not exist. Its name is the model's own invention, and may be of any length. */
export const unknownTool = (name: string, available: ReadonlyArray<string>): string => {
  const shown = name === "" ? "without a name" : EvidenceIndex.cut(name, 100)
  return available.length === 0
    ? `Error: there is no tool ${shown}, and no other tool either.`
    : `Error: there is no tool ${shown}. The tools are: ${available.join(", ")}.`
}

/** A call of a tool that the model's provider runs, which has left it to the harness. */
export const providersTool = (name: string): string =>
  `Error: ${name} is a tool that only the model's provider can run. It did not run.`

const taking = (tool: string, signature: string | undefined): string =>
  signature === undefined ? "" : `\n${tool} takes ${signature}.`

/** Arguments that are not JSON, and what the tool takes. */
export const notJson = (tool: string, signature: string | undefined): string =>
  `Error: the arguments for ${tool} were not valid JSON. It did not run. Call it again with a JSON object.${taking(tool, signature)}`

/** Arguments that are nested deeper than anything reads, and what the tool takes. */
export const tooDeep = (tool: string, signature: string | undefined): string =>
  `Error: the arguments for ${tool} were ${Nesting.tooDeep}, and were not read. It did not run. Call it again with less.${taking(tool, signature)}`

/** Arguments that do not fit the tool's parameters, why, and what it takes. */
export const wrongArguments = (tool: string, problem: string, signature: string | undefined): string =>
  `Error: these arguments do not fit ${tool}. It did not run. ${problem}${taking(tool, signature)}`

/** A failure, in the generic policy or where the tool did not word it for the model. */
export const failed = "Error: the tool failed."

/** What is added where nobody can tell what a tool that changes the world has done before it failed. */
export const mayHaveHappened = "It may have taken effect."

/** A transient failure of a tool that may not be repeated. */
export const notTriedAgain = "It was not tried again, because it may have taken effect."

/** A result that cannot be written down. */
export const unencodable = (tool: string): string =>
  `Error: ${tool} ran, but its result could not be encoded. Do not assume that it failed.`

/** What an interruption has come to: the tool has ended, or nobody can tell whether it has. */
const stopped = (mayRun: boolean): string =>
  mayRun ? "was told to stop, and may still be running" : "was stopped"

/** A call that took too long and may be repeated. */
export const timedOut = (tool: string, ms: number, mayRun = false): string =>
  `Error: ${tool} reached its time limit of ${Math.round(ms)} ms. It ${stopped(mayRun)}.`

/** A call that was started again and again, and whose process was gone each time. */
export const lostTooOften = (tool: string, times: number): string =>
  `Error: ${tool} was started ${times} times, and each time the process that ran it was gone before it came back. It is not started again.`

/** A call that ended itself by interruption. */
export const selfInterrupted = (tool: string): string => `Error: ${tool} was interrupted before it finished.`

/** A call that was cut off and may have taken effect. */
export const outcomeUnknown = (tool: string, mayRun = false): string =>
  `${tool} ${mayRun ? stopped(mayRun) : "was cut off"}. Nobody can tell yet whether it took effect.`

/** A call that a Stop cut off and that will run again when the run is resumed. */
export const cancelled = (tool: string, mayRun = false): string =>
  `${tool} ${stopped(mayRun)}. It runs again when the run is resumed.`

/** A lost call that turned out to have happened, where its result is not known. */
export const happened = "It did take effect."

/** A lost call that turned out not to have happened. */
export const didNotHappen = "This call did not take effect. Call the tool again if it is still needed."

/** What precedes the result of a call whose arguments an approver has changed; `ran` says that it ran with them. */
export const edited = (args: string, ran: boolean): string =>
  ran
    ? `Ran with arguments changed by the approver: ${args}`
    : `The approver had changed its arguments: ${args}`

/** What the model is told when a run goes on after its handoff. */
export const goOn = "There is more room now. Go on with the task."

/** A second submission in one turn. */
export const alreadySubmitted = "Not taken: a result was already submitted in this turn."

/** A question whose arguments could not be read as one. */
export const notAsked = "Not asked."

/** A submission that was taken. */
export const submitted = "Result taken."

const named = ({ label, operationId }: Operation): string => `${operationId} (${label})`

const how: Record<Outcome, string> = {
  succeeded: "has ended and succeeded",
  failed: "has ended and failed",
  cancelled: "was cancelled"
}

const end = (outcome: Outcome, detail: string): string =>
  detail === "" ? `${how[outcome]}.` : `${how[outcome]}: ${detail}`

const lookWith = (observe: string | undefined): string =>
  observe === undefined ? "No tool can look at it." : `Look at it with ${observe}.`

/** How an operation stands as far as the run knows. */
const standing = ({ ended }: Operation, observe: string | undefined): string =>
  ended === undefined
    ? `It has not ended, as far as is known. ${lookWith(observe)}`
    : `It ${end(ended.outcome, ended.detail)}`

/** Work that was started and goes on; `observe` is the tool to look at it with, if there is one. */
export const operationStarted = (id: string, label: string, observe: string | undefined): string =>
  `Started: ${label}, as operation ${id}. It goes on after this call, so nothing is known of its result yet. ${lookWith(observe)}`

/** Work that is asked for again while it goes on. */
export const notStartedAgain = (operation: Operation, observe: string | undefined): string =>
  `Not started again: this very work was started before, as operation ${named(operation)}. ${standing(operation, observe)}`

/** Work that is said to be started under an id that the run knows already. */
export const operationKnown = (tool: string, operation: Operation, observe: string | undefined): string =>
  `${tool} ran and answered with operation ${named(operation)}, which this run has started before. ${standing(operation, observe)}`

/** What a look at an operation has shown; `known` is what the run knew of it before. */
export const operationObserved = (seen: Observed, known: Operation | undefined): string => {
  const ended = seen._tag === "checkrein/OperationEnded"
  const now = ended
    ? end(seen.outcome, seen.detail)
    : seen.label === undefined
      ? "is still running."
      : `is still running: ${seen.label}`
  const said = `Operation ${known === undefined ? seen.id : named(known)} ${now}`
  if (known === undefined) {
    return ended ? said : `${said}\nThis run has not started it under that id, and does not keep track of it.`
  }
  return known.ended === undefined || (ended && seen.outcome === known.ended.outcome)
    ? said
    : `${said}\nBut it was known to have ended before. ${standing(known, known.observe)}`
}

const times = (count: number): string => {
  const last = count % 100 > 10 && count % 100 < 14 ? 0 : count % 10
  return `${count}${["th", "st", "nd", "rd"][last] ?? "th"}`
}

/** What is added to a result that came before. */
export const repeated = (count: number): string =>
  `\n\nNote: this is the ${times(count)} time that this call brought this result. It will not change. Do something else, or answer.`

/** Why a sub-agent failed, in words that tell nothing of its insides. */
export const childFailure = {
  provider_refused: "the model's provider turned it away",
  tool_fatal: "one of its tools failed",
  defect: "it broke down"
} as const

/** Why a sub-agent ended that somebody has stopped. */
export const childCancelled = (reason: string): string => {
  const why = reason.trim()
  return why === "" ? "it was cancelled" : `it was cancelled: ${why}`
}

/** A sub-agent that ended without an answer. */
export const childEnded = (name: string, why: string, found: string): string =>
  found === ""
    ? `${name} ended without an answer: ${why}. It had written nothing down.`
    : `${name} ended without an answer: ${why}. What it had found: ${found}`
