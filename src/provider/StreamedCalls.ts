/**
 * Which pieces of a streamed reply make up which call, and how the calls are ordered.
 *
 * A piece goes on with the call under its index (any call, if it has no index) that has its id, or else with the last
 * one. It begins a call if there is none, or if it names a tool and cannot be that one: it has another id, or where one of
 * the two has no id, the call has another name or is complete. Calls come out by index; those with the same one, and after
 * all others those without, in the order in which they began.
 */
import type * as Schema from "effect/Schema"

/** A piece of a call as an endpoint sends it; whatever it leaves out is empty. */
export interface Piece {
  readonly index: number | undefined
  readonly id: string
  readonly name: string
}

/** A call as far as it has come. */
export interface Call {
  readonly index: number | undefined
  id: string
  name: string
  arguments: string
  extra: Schema.Json | undefined
  readonly partId: string
}

const isJson = (text: string): boolean => {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

/** Whether a piece can go on with a call. Without a name it must, whatever its id: some endpoints make one up for each. */
const continues = ({ id, name }: Piece, call: Call): boolean => {
  if (name === "") return true
  if (id !== "" && call.id !== "") return id === call.id
  return call.name === "" || (name === call.name && !isJson(call.arguments))
}

/** The calls of one streamed reply, put together piece by piece. */
export class StreamedCalls {
  private readonly begun: Array<Call> = []

  /** How many calls have begun. */
  get size(): number {
    return this.begun.length
  }

  /** The call that a piece belongs to: one that has begun, or a new one. */
  callFor(piece: Piece): Call {
    const found = this.find(piece)
    if (found !== undefined && continues(piece, found)) {
      if (found.id === "") found.id = piece.id
      if (found.name === "") found.name = piece.name
      return found
    }
    const { id, index, name } = piece
    const partId = id === "" ? `call-${this.begun.length}` : id
    const call: Call = { index, id, name, arguments: "", extra: undefined, partId }
    this.begun.push(call)
    return call
  }

  /** The calls, in the order in which the model means them. */
  inOrder(): ReadonlyArray<Call> {
    const last = Number.POSITIVE_INFINITY
    return this.begun.toSorted((a, b) => {
      const [first, second] = [a.index ?? last, b.index ?? last]
      return first === second ? 0 : first - second
    })
  }

  private find({ id, index }: Piece): Call | undefined {
    const calls = index === undefined ? this.begun : this.begun.filter((call) => call.index === index)
    return calls.find((call) => id !== "" && call.id === id) ?? calls.at(-1)
  }
}
