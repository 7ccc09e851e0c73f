/**
 * What can go wrong between a request and its reply, as the reasons of `AiError`. A description says what happened, where,
 * and what to check. Keys never get into one: the URL is shown without credentials and query, and excerpts of a body are
 * cleared of the key before they are cut.
 */

import * as AiError from "effect/ai/AiError"
import * as Duration from "effect/Duration"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as PlainText from "../run/PlainText.ts"

/** Who asked, for what, and where: the part of a message that does not depend on the failure. */
export interface Origin {
  readonly module: string
  readonly method: "generateText" | "streamText"
  /** The endpoint, without credentials and query. */
  readonly url: string
  readonly model: string
  /** Texts that must not be shown. */
  readonly secrets: ReadonlyArray<string>
}

/** An answer that is not a reply. */
export interface Answer {
  readonly status: number
  readonly headers: { readonly [name: string]: string | undefined }
  readonly body: string
  /** The time at which it came, in milliseconds since 1970, for a Retry-After that is a date. */
  readonly now: number
}

const fail = (origin: Origin, reason: AiError.AiErrorReason): AiError.AiError =>
  AiError.make({ module: origin.module, method: origin.method, reason })

const longest = 300

/** One line of a text for people: without secrets, an HTML page reduced to its title. */
export const excerpt = (origin: Origin, text: string): string => {
  let clear = text
  for (const secret of origin.secrets) if (secret !== "") clear = clear.replaceAll(secret, "<redacted>")
  clear = clear
    .replace(/\b(Bearer|Basic)\s+[\w.~+/=-]+/gi, "$1 <redacted>")
    .replace(/\b(sk|key|pk)-[\w-]{8,}/g, "<redacted>")
  if (isHtml(clear)) {
    const title = /<title[^>]*>([^<]*)<\/title>/i.exec(clear)?.[1]?.trim()
    clear = title ? `an HTML page titled "${title}"` : "an HTML page"
  }
  clear = clear.replace(/\s+/g, " ").trim()
  return clear.length > longest ? `${PlainText.head(clear, longest)}…` : clear
}

/** Whether a body is a web page and not the answer of an endpoint. */
export const isHtml = (text: string): boolean => /^\s*(<!doctype html|<html|<head|<body)/i.test(text)

interface Details {
  readonly message: string | undefined
  readonly code: string
  readonly type: string
  readonly status: number | undefined
}

const isErrorStatus = (status: number): boolean => Number.isInteger(status) && status >= 400 && status < 600

const word = (value: unknown): string => (typeof value === "string" ? value : "")

/**
 * The error in an answer: what is under `error`, also in a list of one as Gemini sends it, or the answer itself if it says
 * that it is one, as vLLM's does. `undefined` if there is none.
 */
export const errorIn = (value: unknown): unknown => {
  if (Array.isArray(value)) return errorIn(value[0])
  if (Predicate.hasProperty(value, "error") && Predicate.isNotNullish(value.error)) return value.error
  const says = (name: string) => Predicate.hasProperty(value, name) && value[name] === "error"
  return says("object") || says("type") ? value : undefined
}

/** What an error object says; some endpoints put its fields at the top. */
const detailsOf = (value: unknown): Details => {
  const error = errorIn(value) ?? value
  if (typeof error === "string") return { message: error, code: "", type: "", status: undefined }
  const field = (name: string): unknown => (Predicate.hasProperty(error, name) ? error[name] : undefined)
  // Beside a code that is a number, the status may be a word.
  const status = [field("status"), field("code")].map(Number).find(isErrorStatus)
  const message = field("message") ?? field("detail")
  return {
    message: typeof message === "string" ? message : undefined,
    code: word(field("code")),
    type: word(field("type")),
    status
  }
}

const parse = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

const overflow =
  /context.{0,3}(length|window|size)|maximum context|(prompt|input|request) (is )?too (long|large)|too many (input )?tokens|input length .{0,40}exceed|reduce the length of the messages/i

/** How long the answer asks to wait: `retry-after-ms`, or `Retry-After` in seconds or as an HTTP date. */
const retryAfter = (answer: Pick<Answer, "headers" | "now">): Option.Option<Duration.Duration> => {
  const millis = Number(answer.headers["retry-after-ms"])
  if (answer.headers["retry-after-ms"] && Number.isFinite(millis) && millis >= 0) {
    return Option.some(Duration.millis(millis))
  }
  const value = answer.headers["retry-after"]?.trim()
  if (!value) return Option.none()
  const seconds = Number(value)
  if (Number.isFinite(seconds)) return seconds < 0 ? Option.none() : Option.some(Duration.seconds(seconds))
  const date = Date.parse(value)
  return Number.isNaN(date) ? Option.none() : Option.some(Duration.millis(Math.max(0, date - answer.now)))
}

/** How long an error asks to wait whose endpoint has no header for it: Gemini's, in a `google.rpc.RetryInfo`. */
const retryInfo = (error: unknown): Option.Option<Duration.Duration> => {
  const details = Predicate.hasProperty(error, "details") ? error.details : undefined
  for (const detail of Array.isArray(details) ? details : []) {
    const delay = Predicate.hasProperty(detail, "retryDelay") ? word(detail.retryDelay) : ""
    const seconds = /^(\d+(?:\.\d+)?)s$/.exec(delay)?.[1]
    if (seconds !== undefined) return Option.some(Duration.seconds(Number(seconds)))
  }
  return Option.none()
}

const shownHeaders = ["retry-after", "retry-after-ms", "x-request-id"]

const httpOf = (origin: Origin, answer: Answer): typeof AiError.HttpContext.Type => {
  const headers: Record<string, string> = {}
  for (const name of shownHeaders) {
    const value = answer.headers[name]
    if (value !== undefined) headers[name] = value
  }
  return {
    response: { status: answer.status, headers },
    body: excerpt(origin, answer.body)
  }
}

const waiting = <A extends object>(reason: A, wait: Option.Option<Duration.Duration>): A =>
  // `AiError.retryAfter` reads this property from any reason, but only `RateLimitError` declares it.
  Option.isSome(wait) ? Object.assign(reason, { retryAfter: wait.value }) : reason

/** The failure that an answer with an error status stands for. */
export const fromAnswer = (origin: Origin, answer: Answer): AiError.AiError => {
  const http = httpOf(origin, answer)
  const json = parse(answer.body)
  const details = detailsOf(json)
  const status =
    answer.status >= 400 || answer.status < 200 ? answer.status : (details.status ?? answer.status)
  const said = excerpt(origin, details.message ?? answer.body)
  const description = `POST ${origin.url} answered ${answer.status}${said === "" ? " without a word" : `: ${said}`}`
  const kinds = `${details.code} ${details.type}`
  const wait = Option.orElse(retryAfter(answer), () => retryInfo(errorIn(json)))

  const limited = status === 429 || /rate_limit/.test(kinds)
  const unfit = !limited && [200, 400, 413, 422].includes(status) && overflow.test(said)
  if (/context_length_exceeded|exceed_context_size/.test(kinds) || unfit) {
    return fail(
      origin,
      new AiError.InvalidRequestError({
        parameter: "messages",
        description: `The context window of model "${origin.model}" is exceeded: ${description}`,
        http
      })
    )
  }
  if (/insufficient_quota|billing|quota_exceeded/.test(kinds) || status === 402) {
    return fail(origin, new AiError.QuotaExhaustedError({ http }))
  }
  if (/content_filter|content_policy/.test(kinds)) {
    return fail(origin, new AiError.ContentPolicyError({ description, http }))
  }
  if (limited) {
    return fail(
      origin,
      new AiError.RateLimitError({
        ...(Option.isSome(wait) ? { retryAfter: wait.value } : undefined),
        http
      })
    )
  }
  if (status === 401 || status === 403 || /invalid_api_key|authentication/.test(kinds)) {
    const kind =
      status === 403 ? "InsufficientPermissions" : origin.secrets.length === 0 ? "MissingKey" : "InvalidKey"
    return fail(
      origin,
      new AiError.AuthenticationError({
        kind,
        description: `${description}. Check LLM_API_KEY or the option apiKey`,
        http
      })
    )
  }
  if (
    status >= 500 ||
    status === 408 ||
    status === 409 ||
    status === 425 ||
    /server_error|overloaded/.test(kinds)
  ) {
    return fail(origin, waiting(new AiError.InternalProviderError({ description, http }), wait))
  }
  if (status === 404) {
    return fail(
      origin,
      new AiError.InvalidRequestError({
        description: `${description}. Check the base URL (it usually ends in /v1) and that the endpoint serves model "${origin.model}"`,
        http
      })
    )
  }
  if (status >= 300 && status < 400) {
    return fail(
      origin,
      new AiError.InvalidRequestError({
        description: `${description}. The endpoint redirects: set the base URL to where it leads`,
        http
      })
    )
  }
  if (status >= 400) return fail(origin, new AiError.InvalidRequestError({ description, http }))
  // An error inside a good answer that says nothing about its kind comes from behind the endpoint.
  return fail(origin, waiting(new AiError.InternalProviderError({ description, http }), wait))
}

/** The request did not get through, or the answer stopped coming. Worth another try. */
export const network = (origin: Origin, description: string): AiError.AiError =>
  fail(
    origin,
    new AiError.NetworkError({
      reason: "TransportError",
      method: "POST",
      url: origin.url,
      description: excerpt(origin, description)
    })
  )

/** The endpoint answered well, but with something that is no reply, as a busy one may do. Worth another try. */
export const notAReply = (origin: Origin, what: string): AiError.AiError =>
  fail(
    origin,
    new AiError.InternalProviderError({
      description: `POST ${origin.url} answered ${what}`
    })
  )

/** The endpoint does not speak this format. Trying again does not help. */
export const notTheFormat = (origin: Origin, what: string): AiError.AiError =>
  fail(
    origin,
    new AiError.InvalidResponseError({
      description: `POST ${origin.url} answered ${what}. Check that the base URL leads to a chat-completions API (it usually ends in /v1)`
    })
  )

/** The request asks for what cannot be sent or answered. */
export const badRequest = (origin: Origin, description: string): AiError.AiError =>
  fail(origin, new AiError.InvalidRequestError({ description }))
