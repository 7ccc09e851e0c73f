/**
 * What a tool reports that it has seen while it serves a call. It is written down with the call's result, and a journal
 * must not grow without bounds because a tool is talkative.
 */
import * as Schema from "effect/Schema"
import { cut } from "../run/EvidenceIndex.ts"
import { Evidence } from "../run/RunEvent.ts"

/** The most items of one call, and characters of a text in one. */
const most = { items: 64, text: 300 } as const

/** The notes of one attempt at a call; `more` counts what there was no room for. */
export interface EvidenceNotes {
  readonly kept: Map<string, Evidence>
  more: number
}

/** No notes yet. */
export const make = (): EvidenceNotes => ({ kept: new Map(), more: 0 })

// Whoever is not held by the compiler may pass anything, and what is stored has to be read again.
const text = (value: unknown): string => cut(String(value), most.text)
const isKind = Schema.is(Evidence.fields.kind)

/** Notes an item; the same one again is nothing new. */
export const add = (notes: EvidenceNotes, { digest, kind, name, outcome }: Evidence): void => {
  const item: Evidence = {
    kind: isKind(kind) ? kind : "observation",
    name: text(name),
    ...(digest == null ? undefined : { digest: text(digest) }),
    ...(outcome == null ? undefined : { outcome: text(outcome) })
  }
  const key = JSON.stringify(item)
  if (notes.kept.has(key)) return
  if (notes.kept.size < most.items) notes.kept.set(key, item)
  else notes.more++
}

/** What of a call's result tells what was seen; nothing if nothing was. An item too many is at least counted. */
export const asResult = (
  notes: EvidenceNotes | undefined
): { readonly evidence: ReadonlyArray<Evidence> } | undefined => {
  if (notes === undefined || notes.kept.size === 0) return undefined
  const { kept, more } = notes
  const rest: ReadonlyArray<Evidence> =
    more === 0 ? [] : [{ kind: "observation", name: `${more} more than were kept` }]
  return { evidence: [...kept.values(), ...rest] }
}
