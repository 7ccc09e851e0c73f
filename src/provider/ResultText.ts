/**
 * The text of a tool's result as the transcript has it, beside the part of a prompt that carries the result as a value.
 * Who writes text reads it here, and need not make it of the value again.
 */
import type * as Prompt from "effect/ai/Prompt"

// By the part itself: one that somebody has made of it, with a result of its own, has no text here.
const texts = new WeakMap<Prompt.ToolResultPart, string>()

/** Keeps the text of a part, which it yields. */
export const keep = (part: Prompt.ToolResultPart, text: string): Prompt.ToolResultPart => {
  texts.set(part, text)
  return part
}

/** The text that was kept of a part, if any. */
export const of = (part: Prompt.ToolResultPart): string | undefined => texts.get(part)
