/** Finds the name that a misspelled one probably stands for. */

/** The longest name that is compared. */
const maxLength = 64

/** The nearest of these names, if at most a third of its letters differ. Upper and lower case count as the same. */
export function nearestName(raw: string, names: Iterable<string>): string | undefined {
  if (raw.length > maxLength) return undefined
  const from = raw.toLowerCase()
  let nearest: string | undefined
  let least = Number.POSITIVE_INFINITY
  for (const name of names) {
    const most = Math.max(1, Math.floor(name.length / 3))
    if (Math.abs(name.length - from.length) > most) continue
    const distance = edits(from, name.toLowerCase())
    if (distance > most || distance >= least) continue
    nearest = name
    least = distance
  }
  return nearest
}

/** The edit distance: letters to add, remove, replace, or swap with the next one. */
function edits(a: string, b: string): number {
  let [before, row]: [number[], number[]] = [[], [...b, ''].map((_, index) => index)]
  for (let i = 1; i <= a.length; i += 1) {
    const next = [i]
    for (let j = 1; j <= b.length; j += 1) {
      const differs = a[i - 1] === b[j - 1] ? 0 : 1
      const [left, above, corner] = [next[j - 1], row[j], row[j - 1]] as [number, number, number]
      let least = Math.min(left + 1, above + 1, corner + differs)
      const isSwap = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]
      if (isSwap) least = Math.min(least, (before[j - 2] as number) + 1)
      next.push(least)
    }
    before = row
    row = next
  }
  return row[b.length] as number
}
