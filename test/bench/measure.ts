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
