/**
 * Which pieces of a streamed reply make up which call, and how the calls are ordered.
 *
 * A piece goes on with the last call under its index or, without one, with the call that has its id or, without either and
 * without a name, with the last call of all. It begins a call if there is no such call, or if it cannot be that one: it
 * has another id, or it names a tool where a call without an id of its own has another name or is complete. Calls come out
 * by index; those with the same one, and after all others those without, in the order in which they began.
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

/** Whether a piece can go on with a call. */
const continues = ({ id, name }: Piece, call: Call): boolean => {
  if (id !== "" && call.id !== "") return id === call.id
  return name === "" || call.name === "" || (name === call.name && !isJson(call.arguments))
}

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

  private find({ id, index, name }: Piece): Call | undefined {
    if (index !== undefined) {
      const under = this.begun.filter((call) => call.index === index)
      return under.find((call) => id !== "" && call.id === id) ?? under.at(-1)
    }
    if (id !== "") return this.begun.find((call) => call.id === id)
    return name === "" ? this.begun.at(-1) : undefined
  }
}
