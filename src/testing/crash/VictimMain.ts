/**
 * The process that is killed starts here.
 */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { obey } from "./Victim.ts"

NodeRuntime.runMain(obey)
