/**
 * How a run is asked for, and how it is taken up again: what may be said then, and what is refused before anything is done.
 */
import * as Effect from "effect/Effect"
import * as Given from "../run/Given.ts"
import type { LimitsInput } from "../run/LimitsInput.ts"
import * as Names from "../store/Names.ts"
import type { RunStoreError } from "../store/RunStore.ts"
import type { Surroundings } from "./Surroundings.ts"

/**
 * How a run is asked for. An option of another name is refused with `RunStoreError` (`invalid`): a limit that is misspelt
 * would be none.
 */
export interface RunOptions {
  /**
   * The id of the run, by default a new one. An id that is stored already starts nothing: its run is taken up, and the
   * input given now is ignored. Whoever knows an id gets its answer, so put the tenant that you have authenticated in it.
   * An empty one, one of more than 512 bytes and one with a NUL or half of a surrogate pair, which not every database can
   * keep, is refused with `RunStoreError` (`invalid`), as is a tag with such letters or of more than 256 bytes.
   */
  readonly runId?: string | undefined
  /** Limits over those of the agent; those that are not named stay. */
  readonly limits?: LimitsInput | undefined
  /**
   * The id of a completed run, whose transcript this one begins with: a follow-up, with limits of its own. Fails with
   * `RunNotCompleted` if that run has not completed.
   */
  readonly after?: string | undefined
  /** What runs are listed and deleted by, such as a tenant. They stay as the run was started with. */
  readonly tags?: ReadonlyArray<string> | undefined
}

/** How a stopped run is taken up again. An option of another name is refused with `RunStoreError` (`invalid`). */
export interface ResumeOptions {
  /** Limits over those that the run has; those that are not named stay, and what was used stays used. */
  readonly limits?: LimitsInput | undefined
  /** The answer to the question that the run has stopped for, or else something that is said to the model. */
  readonly message?: string | undefined
  /** Takes up a run that has failed too, once its cause is mended. Default: it fails again with the same. */
  readonly force?: boolean | undefined
}

const kinds: Given.Kinds<RunOptions> = {
  runId: Given.text,
  limits: Given.anything,
  after: Given.text,
  tags: Given.anything
}

const resumeKinds: Given.Kinds<ResumeOptions> = {
  limits: Given.anything,
  message: Given.anything,
  force: { what: "true or false", is: (value) => typeof value === "boolean" }
}

/**
 * Yields the id that a run is given, `undefined` where it is to have a new one. Fails if it may not have that, or its tags, or
 * if the options cannot be what was meant. The id of a sub-agent's run is made of its parent's, and is longer.
 */
export const checkRun = (
  options: RunOptions,
  { parent }: Pick<Surroundings, "parent"> = {}
): Effect.Effect<string | undefined, RunStoreError> => {
  const wrong = Names.refusedOptions("", options, kinds)
  if (wrong !== undefined) return Effect.fail(wrong)
  const { runId, tags } = options
  const isGiven = runId !== undefined && parent === undefined
  const refused =
    (isGiven ? Names.refusedId(runId, Names.mostBytes.givenId) : undefined) ??
    Names.refusedTags(runId ?? "", tags)
  return refused === undefined ? Effect.succeed(runId) : Effect.fail(refused)
}

/** Fails if the options of a resume cannot be what was meant. */
export const checkResume = (runId: string, options: ResumeOptions): Effect.Effect<void, RunStoreError> => {
  const wrong = Names.refusedOptions(runId, options, resumeKinds)
  return wrong === undefined ? Effect.void : Effect.fail(wrong)
}
