/** The events of a run, and how a store writes and reads them. */
export { decode, encode, UnreadableEvent } from "./run/EventCodec.ts"
export * from "./run/RunEvent.ts"
