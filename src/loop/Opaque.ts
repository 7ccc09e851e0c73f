/**
 * Parameters of which nothing says how JSON carries them: a class that is known by `instanceof`, a declared type. Their
 * JSON Schema is empty, so a model cannot know what to give, and hardly ever gives what is taken.
 */
import type * as Tool from "effect/ai/Tool"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as SchemaAST from "effect/SchemaAST"

const isCarried = ({ annotations }: SchemaAST.Declaration): boolean =>
  annotations?.toCodecJson !== undefined || annotations?.toCodec !== undefined

/** Where a value of this schema needs one that nobody can give, as a path; only what has to be given counts. */
const within = (ast: SchemaAST.AST, path: string): ReadonlyArray<string> => {
  if (SchemaAST.isDeclaration(ast)) return isCarried(ast) ? [] : [path]
  if (SchemaAST.isObjects(ast)) {
    return ast.propertySignatures.flatMap(({ name, type }) =>
      SchemaAST.isOptional(type) ? [] : within(type, path === "" ? String(name) : `${path}.${String(name)}`)
    )
  }
  if (SchemaAST.isUnion(ast)) {
    const each = ast.types.map((type) => within(type, path))
    return each.some((paths) => paths.length === 0) ? [] : (each[0] ?? [])
  }
  return []
}

const named = new WeakSet<Tool.Any>()

/** Names in the log, once for each of these tools, the parameters that a model cannot give. */
export const warn = (tools: ReadonlyArray<Tool.Any>): Effect.Effect<void> =>
  Effect.suspend(() => {
    const warnings: Array<string> = []
    for (const tool of tools) {
      if (named.has(tool)) continue
      named.add(tool)
      const { name, parametersSchema } = tool
      if (!Schema.isSchema(parametersSchema)) continue
      const paths = within(SchemaAST.toEncoded(parametersSchema.ast), "")
      if (paths.length === 0) continue
      warnings.push(
        `no model can know what to give ${name} as ${paths.join(", ")}: its schema does not say how JSON carries it. Use one that does, or annotate it with \`toCodecJson\``
      )
    }
    return Effect.forEach(warnings, (warning) => Effect.logWarning(warning), { discard: true })
  })
