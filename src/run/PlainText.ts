/** Text that comes from a model, a tool or a stored run, and is shown where it must not take anything over. */

// Control characters, line separators and the marks that reorder text: what could take over a terminal or a line.
const unsafe = /[\p{Cc}\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]+/gu

/** The text on one line, with nothing in it that moves a cursor or turns text around. */
export const plain = (text: string): string => text.replace(unsafe, " ")

/** The same on the lines that it has: newlines and tabs stay. */
export const plainLines = (text: string): string =>
  text.replaceAll("\r\n", "\n").replace(/[^\n\t]+/g, (stretch) => plain(stretch))

/** A value as one line of JSON with nothing of the kind in it: what there is of it is escaped, and reads as what it was. */
export const json = (value: object): string =>
  JSON.stringify(value).replace(unsafe, (found) =>
    Array.from(found, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`).join("")
  )

/** The name of a status, a reason or a resource, in words. */
export const words = (name: string): string => name.replaceAll("_", " ")

/** An amount of USD: six digits after the point, which shows a single cheap turn, and no zeros after the cents. */
export const dollars = (usd: number): string => `$${usd.toFixed(6).replace(/(\.\d\d\d*?)0+$/, "$1")}`

/** What a run has cost, in words that claim no more than is known: a turn of unknown price may have cost anything. */
export const cost = ({
  costUsd,
  unpriced
}: {
  readonly costUsd: number
  readonly unpriced?: boolean | undefined
}): string =>
  unpriced !== true ? dollars(costUsd) : costUsd === 0 ? "not priced" : `${dollars(costUsd)} + unpriced`

/** The beginning of a text: at most so many UTF-16 units, and no half of a character at its end. */
export const head = (text: string, most: number): string => {
  const cut = text.slice(0, most)
  return cut.length < text.length && /[\ud800-\udbff]$/.test(cut) ? cut.slice(0, -1) : cut
}
