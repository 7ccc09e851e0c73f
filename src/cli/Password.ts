/**
 * Passwords of databases: this command reads them, and prints none.
 */

/** What is printed where a password was, for a person to fill in. */
const placeholder = "PASSWORD"

// Up to the last @ of the word: whoever has mistyped a URL has perhaps not escaped its password either.
const inWord = /((?:[a-z][a-z0-9+.-]*:\/\/|postgres(?:ql)?:\/?)[^\s:@/]*):\S*@/gi

const inQuery = /([?&](?:ssl)?password=)[^&\s'"]*/gi

/** The URL of a database with its password, which may come from the environment as it does for the tools of Postgres. */
export const supplied = (url: string, env: NodeJS.ProcessEnv): string => {
  const { PGPASSWORD = "" } = env
  const parsed = new URL(url)
  if (PGPASSWORD === "" || parsed.password !== "" || parsed.searchParams.has("password")) return url
  parsed.password = PGPASSWORD
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
