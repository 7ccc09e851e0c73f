/**
 * Users and passwords of databases: this command reads them, and prints no password.
 */
import { osUser } from "./OsUser.ts"

/** What is printed where a password was, for a person to fill in. */
const placeholder = "PASSWORD"

// Up to the last @ of the word: whoever has mistyped a URL has perhaps not escaped its password either.
const inWord = /((?:[a-z][a-z0-9+.-]*:\/\/|postgres(?:ql)?:\/?)[^\s:@/]*):\S*@/gi

const inQuery = /([?&](?:ssl)?password=)[^&\s'"]*/gi

/**
 * The URL of a database with its user and its password, which may come from the environment as they do for the tools of
 * Postgres; without either, the user is that of the operating system.
 */
export const supplied = (url: string, env: NodeJS.ProcessEnv): string => {
  const { PGPASSWORD = "", PGUSER = "" } = env
  const parsed = new URL(url)
  // A URL without a host has no place for them but its parameters.
  const supply = (part: "username" | "password", parameter: "user" | "password", value: string) => {
    if (value === "" || parsed[part] !== "" || parsed.searchParams.has(parameter)) return
    parsed[part] = value
    if (parsed[part] === "") parsed.searchParams.set(parameter, value)
  }
  supply("username", "user", PGUSER === "" ? (osUser() ?? "") : PGUSER)
  supply("password", "password", PGPASSWORD)
  return parsed.href
}

/** The URL of a database as it may be printed. */
export const hidden = (url: string): string => {
  if (!URL.canParse(url)) return hiddenIn(url)
  const parsed = new URL(url)
  if (parsed.password !== "") parsed.password = placeholder
  parsed.search = parsed.search.replace(inQuery, `$1${placeholder}`)
  return parsed.href
}

/** A text in which nothing is left that may be the password of a URL, not even of one that cannot be read. */
export const hiddenIn = (text: string): string =>
  text.replace(inWord, `$1:${placeholder}@`).replace(inQuery, `$1${placeholder}`)
