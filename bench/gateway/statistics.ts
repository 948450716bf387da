/** Statistics of figures over several runs. Pure. */

/** A figure that was measured several times. */
export interface Sample {
  readonly median: number
  readonly least: number
  readonly most: number
}

/** For an even number the mean of the middle two; NaN for none. NaN values are ignored. */
export function median(values: readonly number[]): number {
  const sorted = values.filter((value) => !Number.isNaN(value)).sort((a, b) => a - b)
  const upper = sorted[sorted.length >> 1] ?? Number.NaN
  const lower = sorted[(sorted.length - 1) >> 1] ?? Number.NaN
  return (lower + upper) / 2
}

export function sample(values: readonly number[]): Sample {
  const known = values.filter((value) => !Number.isNaN(value))
  if (known.length === 0) return { median: Number.NaN, least: Number.NaN, most: Number.NaN }
  return { median: median(known), least: Math.min(...known), most: Math.max(...known) }
}

/** Half of the range, as a fraction of the median: the value after ±. */
export function spread({ median, least, most }: Sample): number {
  return (most - least) / 2 / Math.abs(median)
}

/** The differences of pairs. A pair was measured consecutively, so a slowdown affects both. */
export function pairwise(
  ours: readonly number[],
  theirs: readonly number[],
  combine: (ours: number, theirs: number) => number,
): Sample {
  return sample(ours.map((value, i) => combine(value, theirs[i] ?? Number.NaN)))
}
