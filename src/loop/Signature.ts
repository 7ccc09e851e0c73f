/**
 * What a tool takes, in the few words that a model needs to correct its arguments: names, types, and what may be left out.
 */
import * as Tool from "effect/ai/Tool"
import * as Predicate from "effect/Predicate"
import * as PlainText from "../run/PlainText.ts"

const longest = 600
const deepest = 4

type Schema = Readonly<Record<string, unknown>>

const isSchema = (u: unknown): u is Schema => Predicate.isObject(u)

const listOf = (u: unknown): ReadonlyArray<unknown> => (Array.isArray(u) ? u : [])

const oneOf = (types: ReadonlyArray<string>): string => [...new Set(types)].join(" | ")

const nameOf = (name: string): string => (/^[\w$]+$/.test(name) ? name : JSON.stringify(name))

/** The type that a schema stands for. What is nested deeper than `depth` is named and not shown. */
const typeOf = (schema: unknown, depth: number, definitions: Schema): string => {
  if (!isSchema(schema)) return "any"
  const inside = (u: unknown) => typeOf(u, depth - 1, definitions)
  const beside = (u: unknown) => typeOf(u, depth, definitions)
  if (typeof schema.$ref === "string") {
    const name = schema.$ref.slice(schema.$ref.lastIndexOf("/") + 1)
    return depth > 0 ? inside(definitions[name]) : name
  }
  if ("const" in schema) return JSON.stringify(schema.const)
  if (Array.isArray(schema.enum)) return oneOf(schema.enum.map((value) => JSON.stringify(value)))
  const choices = [...listOf(schema.anyOf), ...listOf(schema.oneOf)]
  if (choices.length > 0) return oneOf(choices.map(beside))
  if (Array.isArray(schema.type)) return oneOf(schema.type.map((type) => beside({ ...schema, type })))
  switch (schema.type) {
    case "object": {
      const properties = isSchema(schema.properties) ? Object.entries(schema.properties) : []
      if (depth <= 0) return "object"
      if (properties.length === 0) {
        return isSchema(schema.additionalProperties)
          ? `{ [name]: ${inside(schema.additionalProperties)} }`
          : "{}"
      }
      const needs = (name: string) => listOf(schema.required).includes(name)
      const fields = [
        ...properties.filter(([name]) => needs(name)),
        ...properties.filter(([name]) => !needs(name))
      ].map(([name, property]) => `${nameOf(name)}${needs(name) ? "" : "?"}: ${inside(property)}`)
      return `{ ${fields.join(", ")} }`
    }
    case "array": {
      if (depth <= 0) return "array"
      const fixed = listOf(schema.prefixItems)
      if (fixed.length > 0) return `[${fixed.map(inside).join(", ")}]`
      const item = inside(schema.items)
      return item.includes(" | ") ? `(${item})[]` : `${item}[]`
    }
    default:
      return typeof schema.type === "string" ? schema.type : "any"
  }
}

/**
 * The short form of a JSON schema, as in `{ path: string, lines?: integer }`: at most 600 characters, with less detail
 * where that would not do.
 */
export const ofJsonSchema = (schema: Schema): string => {
  const definitions = isSchema(schema.$defs) ? schema.$defs : {}
  let text = ""
  for (let depth = deepest; depth > 0; depth--) {
    text = typeOf(schema, depth, definitions)
    if (text.length <= longest) return text
  }
  return `${PlainText.head(text, longest - 2)} …`
}

/** What this tool takes; `undefined` if its parameters have no JSON schema. */
export const of = (tool: Tool.Any): string | undefined => {
  try {
    return ofJsonSchema(Tool.getJsonSchema(tool))
  } catch {
    return undefined
  }
}
