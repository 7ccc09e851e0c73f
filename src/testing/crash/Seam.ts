/**
 * The places at which a run can be stopped, and the ways of stopping it there.
 */
import * as Schema from "effect/Schema"

/** Where a run meets the world. */
export const Point = Schema.Literals([
  "before append",
  "after append",
  "in model call",
  "before tool",
  "in tool",
  "after tool"
])
export type Point = typeof Point.Type

/**
 * One moment of a run: the `nth` time, counted from 1, that it comes to a point. `what` says what it is about there: the
 * types of the events, or the name of the tool.
 */
export const Seam = Schema.Struct({ point: Point, nth: Schema.Natural, what: Schema.String })
export type Seam = typeof Seam.Type

/** A seam in words. */
export const name = ({ nth, point, what }: Seam): string =>
  `${point} ${nth}${what === "" ? "" : ` (${what})`}`

/**
 * How a run is stopped: the interruption of its fiber (`interruption`), a bug at that very place (`defect`), the death of
 * its driver, which from then on writes nothing (`crash`), or the death of its process by `kill -9` (`kill`).
 */
export const Way = Schema.Literals(["interruption", "defect", "crash", "kill"])
export type Way = typeof Way.Type

/** The ways that need no process of their own. */
export const inProcess: ReadonlyArray<Way> = ["interruption", "defect", "crash"]

/**
 * A seam at which a run is stopped, and how. With `relapse` the driver that takes the run up is stopped as well, in the
 * same way, at this seam of its own, counted from 1.
 */
export interface Fault {
  readonly seam: Seam
  readonly way: Way
  readonly relapse?: number
}
