/**
 * The variables of the environment that say which model to use. Whatever is wrong with one of them is a `ConfigError`
 * that names it and says what to set it to; its value is not repeated, since an address may hold a password.
 */
import * as Config from "effect/Config"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"

/** A variable: its name, what it is set to, in words, and how it is read. */
export interface Variable<A> {
  readonly name: string
  readonly what: string
  readonly schema: Schema.Codec<A, string>
}

const isAddress = (text: string): boolean => /^https?:$/.test(URL.parse(text.trim())?.protocol ?? "")

/** Where the model is. */
export const baseUrl: Variable<string> = {
  name: "LLM_BASE_URL",
  what: "the address of the API, such as https://host/v1",
  schema: Schema.String.check(Schema.makeFilter(isAddress))
}

/** Which model it is. */
export const model: Variable<string> = {
  name: "LLM_MODEL",
  what: "the name of the model at LLM_BASE_URL",
  schema: Schema.String
}

/** A price under that name. */
export const price = (name: string): Variable<number> => ({
  name,
  what: "a price of at least 0, in USD per million tokens",
  schema: Schema.FiniteFromString.check(Schema.isGreaterThanOrEqualTo(0))
})

const refused = ({ name, what }: Variable<unknown>, problem: string) =>
  new Config.ConfigError(new ConfigProvider.SourceError({ message: `${name} ${problem}: set it to ${what}` }))

/** Reads a variable; none if it is not set. */
export const optional = <A>(variable: Variable<A>): Effect.Effect<Option.Option<A>, Config.ConfigError> =>
  Effect.gen(function* () {
    const text = yield* Config.option(Config.String(variable.name))
    if (Option.isNone(text) || text.value.trim() === "") return Option.none()
    const value = yield* Effect.mapError(Config.schema(variable.schema, variable.name), () =>
      refused(variable, "cannot be used")
    )
    return Option.some(value)
  })

/** Reads a variable that has to be set. */
export const required = <A>(variable: Variable<A>): Effect.Effect<A, Config.ConfigError> =>
  Effect.flatMap(
    optional(variable),
    Option.match({
      onNone: () => Effect.fail(refused(variable, "is not set")),
      onSome: (value) => Effect.succeed(value)
    })
  )
