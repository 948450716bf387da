/** Figures of several runs, and how far apart they lie. Pure. */

/** A figure that was measured several times. */
export interface Sample {
  readonly median: number
  readonly least: number
  readonly most: number
}

/** Of an even number the mean of the two in the middle; NaN of none. Values that are NaN are left out. */
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

/** Half of the distance between the least and the most, as a share of the median: what is shown after ±. */
export function spread({ median, least, most }: Sample): number {
  return (most - least) / 2 / Math.abs(median)
}

/** What each pair differs by; the pairs were measured one after the other, so what slowed one slowed both. */
export function pairwise(
  ours: readonly number[],
  theirs: readonly number[],
  combine: (ours: number, theirs: number) => number,
): Sample {
  return sample(ours.map((value, i) => combine(value, theirs[i] ?? Number.NaN)))
}
