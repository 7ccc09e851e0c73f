/**
 * Arguments as they are written in a command that a person is told to run.
 */
import { plain } from "../run/PlainText.ts"

const escaped = (character: string): string => {
  const code = character.charCodeAt(0)
  return code < 0x80 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u${code.toString(16).padStart(4, "0")}`
}

/** An argument as a shell takes it; what could move the cursor is written as an escape. */
export const quoted = (argument: string): string => {
  if (/^[\w@%+=:,./-]+$/.test(argument)) return argument
  if (plain(argument) === argument) return `'${argument.replaceAll("'", "'\\''")}'`
  const inner = argument.replace(/['\\]/g, "\\$&")
  return `$'${Array.from(inner, (character) => (plain(character) === character ? character : escaped(character))).join("")}'`
}

/** A flag with its value, also a value that looks like a flag. */
export const flagged = (name: string, value: string): ReadonlyArray<string> =>
  value.startsWith("-") ? [`${name}=${value}`] : [name, value]
