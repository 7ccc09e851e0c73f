/**
 * The agent, the tool and the scripts that every benchmark uses.
 */
import * as Chat from "effect/ai/Chat"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { Agent, PriceBook } from "../../src/index.ts"
import { Scripted } from "../../src/provider/index.ts"

export const task = "Which log file mentions a timeout?"
export const names = ["access.log", "errors.log", "notes.txt"]
export const usage = { promptTokens: 200, completionTokens: 20 }
export const prices = PriceBook.layer({ m: { input: 2, output: 12 } })

/** Calls a tool in each turn but the last, which answers. */
export const script = (turns: number) =>
  Scripted.make("bench", (turn) =>
    turn < turns - 1
      ? Scripted.call("list_files", { at: turn }, { id: `c${turn}` })
      : Scripted.text("errors.log mentions a timeout.")
  )

/** The script in-process, with a usage that needs no tokenizer. */
export const model = (turns: number) => Scripted.layer(script(turns), { model: "m", usage })

/** Calls a tool in each turn, and asks in the last of them for one that a person has to approve. */
export const asking = (turns: number) =>
  Scripted.layer(
    Scripted.make("bench", (turn) =>
      turn < turns - 1
        ? Scripted.call("list_files", { at: turn }, { id: `c${turn}` })
        : Scripted.call("delete_file", {}, { id: "last" })
    ),
    { model: "m", usage }
  )

const listing = {
  description: "Lists the files.",
  parameters: Schema.Struct({ at: Schema.Int }),
  success: Schema.Array(Schema.String)
}
const ListFiles = Tool.make("list_files", listing).annotate(Tool.Readonly, true)
const DeleteFile = Tool.make("delete_file", { success: Schema.String, needsApproval: true })

export const toolkit = Toolkit.make(ListFiles)
const both = Toolkit.make(ListFiles, DeleteFile)
export const handlers = both.toLayer({
  list_files: () => Effect.sync(() => names),
  delete_file: () => Effect.succeed("deleted")
})

const options = {
  limits: { turns: Number.POSITIVE_INFINITY, usd: 1_000 },
  policy: { repetition: "off" }
} as const

export const analyst = Agent.make("log-analyst", { toolkit, ...options })
/** The same, of a tool that says nothing about what it does: each call has to survive a power cut. */
export const writer = Agent.make("log-writer", {
  toolkit: Toolkit.make(Tool.make("list_files", listing)),
  ...options
})
export const asker = Agent.make("log-asker", { toolkit: both, ...options })

/** The same loop over effect's own `Chat`, without anything that Checkrein adds to it. */
export const chat = Effect.gen(function* () {
  const session = yield* Chat.empty
  for (let prompt: string | [] = task; ; prompt = []) {
    const { text, toolCalls } = yield* session.generateText({ prompt, toolkit })
    if (toolCalls.length === 0) return text
  }
})
