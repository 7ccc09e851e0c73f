/**
 * The names of the demo's scenarios and what they show. Nothing else is loaded with it: the command line needs it for
 * its help.
 */

/** What each scenario shows, in one line. */
export const shows = {
  plan: "a run that goes well: lists, reads, answers",
  runaway: "a model that never stops, and the limit that stops it",
  recover: "a wrong guess that an informative error puts right",
  denied: "a permission that is denied, however often it is asked for",
  repeat: "the price of reading the same file twice",
  "repeat-baseline": "the same, read once",
  destructive: "a deletion that waits for a person",
  "double-delete": "what is lost when a writing tool's result is reused (with --approve all --dedupe all)",
  slow: "a slow tool, for pressing Stop",
  investigate: "a bug hunt that runs out of tool calls, and hands over what it has found"
}

/** The name of a scenario. */
export type Name = keyof typeof shows

/** Whether a scenario has this name. */
export const isName = (name: string): name is Name => Object.hasOwn(shows, name)

/** The names of all scenarios. */
export const names: ReadonlyArray<Name> = Object.keys(shows).filter(isName)

/** How the agent treats errors and repeated calls. */
export interface Settings {
  readonly toolErrors: "informative" | "generic" | "fatal"
  readonly permanent: "stop" | "continue"
  readonly dedupe: "off" | "read-only" | "all"
  readonly repetition: "on" | "off"
}

/** The library's own defaults. */
export const defaults: Settings = {
  toolErrors: "informative",
  permanent: "stop",
  dedupe: "off",
  repetition: "on"
}

/** Settings, as far as somebody has given them. */
export type Given = { readonly [name in keyof Settings]?: Settings[name] | undefined }

/**
 * The settings of a scenario, as far as nobody has said otherwise. The published measurements are of a harness without a
 * repetition guard, and most of their scenarios repeat themselves on purpose.
 */
export const settingsOf = (name: Name, given: Given = {}): Settings => ({
  toolErrors: given.toolErrors ?? defaults.toolErrors,
  permanent: given.permanent ?? defaults.permanent,
  dedupe: given.dedupe ?? defaults.dedupe,
  repetition: given.repetition ?? (name === "investigate" ? "on" : "off")
})
