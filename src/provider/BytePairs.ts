/**
 * Byte-pair encoding, counted: how many tokens a text has, with the vocabulary and the word pattern of a tokenizer.
 *
 * What a model, a file or a web page can hold decides how long a text without a word boundary is, so nothing here takes
 * time with the square of it. Text is counted in chunks, cut where no word can reach across, and a word in pieces of a
 * bounded number of bytes. Only a word longer than that, or a chunk without any such place, can count differently: by a
 * token or two for each cut.
 */

/** A vocabulary as `js-tiktoken` has it: lines of a mark, the rank of the first token, and tokens in base64. */
export interface Vocabulary {
  readonly pat_str: string
  readonly bpe_ranks: string
}

/** The most UTF-16 units that are counted in one go. */
export const longestChunk = 16_384

/**
 * The most bytes of a word that are merged in one go; to merge takes time with the square of them. This many bytes are
 * whole characters, whichever of one to four bytes a run consists of.
 */
export const longestPiece = 768

/**
 * Where no word reaches across: after a letter or a digit, before what is no letter, digit or mark. The apostrophe begins
 * the ending of a word, as in "it's".
 */
const boundary = /[\p{L}\p{N}](?=[^\p{L}\p{N}\p{M}'])|\p{N}(?=\p{L})/gu

const isLowSurrogate = (unit: number): boolean => unit >= 0xdc00 && unit < 0xe000

/** The end of the last word that is certain to end within these UTF-16 units; 0 if there is none. */
const lastBoundary = (window: string): number => {
  // Words are short: the last few of them are enough to look at, if they have any boundary.
  for (const from of [Math.max(0, window.length - 256), 0]) {
    let last = 0
    for (const { 0: unit, index } of window.slice(from).matchAll(boundary)) last = from + index + unit.length
    if (last > 0) return last
  }
  return 0
}

/** A text in chunks that are counted one by one. */
export function* chunks(text: string): Generator<string> {
  let from = 0
  while (text.length - from > longestChunk) {
    const window = text.slice(from, from + longestChunk)
    const end = from + longestChunk
    const cut = lastBoundary(window)
    const to = cut > 0 ? from + cut : isLowSurrogate(text.charCodeAt(end)) ? end - 1 : end
    yield text.slice(from, to)
    from = to
  }
  yield text.slice(from)
}

const ascii = /^[\0-\x7f]*$/

/** The UTF-8 bytes of a text, each as one character. */
const bytesOf = (text: string): string => (ascii.test(text) ? text : Buffer.from(text).toString("latin1"))

const ranksOf = (lines: string): Map<string, number> => {
  const ranks = new Map<string, number>()
  for (const line of lines.split("\n")) {
    const [, offset, ...tokens] = line.split(" ")
    let rank = Number(offset)
    for (const token of tokens) ranks.set(Buffer.from(token, "base64").toString("latin1"), rank++)
  }
  return ranks
}

/** Counts the tokens of one chunk. `onMerge` sees how many bytes are merged in one go. */
export const counter = (
  vocabulary: Vocabulary,
  onMerge: (bytes: number) => void = () => {}
): ((chunk: string) => number) => {
  const ranks = ranksOf(vocabulary.bpe_ranks)
  const words = new RegExp(vocabulary.pat_str, "gu")
  const never = 0x7fff_ffff
  const starts = new Int32Array(longestPiece + 1)
  const pairs = new Int32Array(longestPiece + 1)

  const merged = (piece: string): number => {
    onMerge(piece.length)
    let parts = piece.length
    const rankOf = (part: number) =>
      part + 1 < parts
        ? (ranks.get(piece.slice(starts[part], part + 2 < parts ? starts[part + 2] : piece.length)) ?? never)
        : never
    for (let i = 0; i < parts; i++) starts[i] = i
    for (let i = 0; i < parts; i++) pairs[i] = rankOf(i)
    for (;;) {
      let best = 0
      let least = never
      for (let i = 0; i < parts; i++) {
        const rank = pairs[i]
        if (rank === undefined || rank >= least) continue
        best = i
        least = rank
      }
      if (least === never) return parts
      starts.copyWithin(best + 1, best + 2, parts)
      pairs.copyWithin(best + 1, best + 2, parts)
      parts--
      pairs[best] = rankOf(best)
      if (best > 0) pairs[best - 1] = rankOf(best - 1)
    }
  }

  return (chunk) => {
    let total = 0
    for (const [word] of chunk.matchAll(words)) {
      const bytes = bytesOf(word)
      if (ranks.has(bytes)) total++
      else
        for (let at = 0; at < bytes.length; at += longestPiece)
          total += merged(bytes.slice(at, at + longestPiece))
    }
    return total
  }
}
