/** Measuring, in one place. */

/** The middle value. */
export const median = (values: ReadonlyArray<number>): number => {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = Math.floor(sorted.length / 2)
  const upper = sorted[middle] ?? Number.NaN
  return sorted.length % 2 === 1 ? upper : (upper + (sorted[middle - 1] ?? Number.NaN)) / 2
}

/** How long something takes, in milliseconds. */
export const milliseconds = async (task: () => Promise<unknown>): Promise<number> => {
  const start = performance.now()
  await task()
  return performance.now() - start
}

const blocks = 12

/**
 * Milliseconds of each round of some loops that are to be compared. They take turns in blocks of rounds: in turns by the round
 * each would find the processor's caches full of the others' code, and one after the other a machine that is shared would
 * be faster for the one than for the other. The first third of the blocks warms the compiler up, the first round of each
 * the caches.
 */
export const inBlocks = async <Name extends string>(
  loops: Record<Name, () => Promise<unknown>>,
  rounds: number
): Promise<Record<Name, ReadonlyArray<number>>> => {
  const names = Object.keys(loops) as Array<Name>
  const samples = Object.fromEntries(names.map((name) => [name, []])) as unknown as Record<
    Name,
    Array<number>
  >
  for (let block = 0; block < blocks; block++) {
    for (const name of names) {
      for (let round = 0; round < Math.ceil(rounds / blocks); round++) {
        const ms = await milliseconds(loops[name])
        if (block >= blocks / 3 && round > 0) samples[name].push(ms)
      }
    }
  }
  return samples
}
