/**
 * The laws that a journal is held to, and how a breach of one is told.
 */

/** The laws, by number. The eighth, that what is written grows no faster than the turns, is not for one journal to break. */
export const laws = {
  1: "Nothing is sent to a model, and no tool is run, before its claim is written down.",
  2: "A call is executed at most once, unless its tool may be repeated; what was cut off is never quietly run again.",
  3: "Every call has exactly one result before the model is asked again, and what was decided about it is said.",
  4: "A call that needs a person starts after its approval, with the arguments that were approved; a decision is used once.",
  5: "One driver writes at a time: the events are one unbroken sequence.",
  6: "A run costs its turns, its lost model calls and its children, exactly, and nothing follows its end.",
  7: "Nothing begins for which a limit leaves no room.",
  9: "What is told of a run without its journal, in its summary and in lists, is what the journal says."
} as const

/** The number of a law. */
export type Law = keyof typeof laws

/** A law that an event breaks, and how, in a sentence. */
export interface Problem {
  readonly law: Law
  readonly problem: string
}

/** A breach of a law. */
export const broken = (law: Law, problem: string): Problem => ({ law, problem })
