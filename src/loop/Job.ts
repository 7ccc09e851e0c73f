/**
 * An agent made ready to run: everything that the loop needs, with its services and its tools' types resolved.
 */
import type * as Prompt from "effect/ai/Prompt"
import type { SpanTransformer } from "effect/ai/Telemetry"
import type * as Tool from "effect/ai/Tool"
import type * as Effect from "effect/Effect"
import type { Price, Usage } from "../run/Money.ts"
import type { Rules } from "../run/NextStep.ts"
import type { BudgetPool } from "../store/BudgetPool.ts"
import type { Contract } from "./Contract.ts"
import type { Policy } from "./Policy.ts"
import type { Probe } from "./Probe.ts"
import type { Tools } from "./ToolRunner.ts"
import type { Reply } from "./Transcript.ts"

/** One agent, ready to run. */
export interface Job {
  readonly agent: string
  /** The agent's tools, with those that the harness adds. One set for all turns. */
  readonly tools: Tools
  readonly contract: Contract | undefined
  readonly rules: Rules
  readonly policy: Policy
  /** Whether a model call that begins now asks for a stream, whose text is published as it comes. */
  readonly isStreamed: () => boolean
  /** What stands around its model calls. */
  readonly probe: Probe
  readonly model: string | undefined
  /** The output cap of the model's requests, in tokens. */
  readonly maxOutputTokens: number | undefined
  /** Describes effect's own span of a model call. */
  readonly chatSpan: SpanTransformer
  /** The budget that the run shares with others. */
  readonly pool: BudgetPool["Service"] | undefined
  readonly priceOf: (model: string | undefined) => Price | undefined
  /** Counts a turn whose usage the provider left out. */
  readonly count: (
    prompt: Prompt.Prompt,
    tools: ReadonlyArray<Tool.Any>,
    reply: Reply
  ) => Effect.Effect<Usage>
}
