/** How identity tokens fare, and reviews of who administers. */

import type { Point } from './metric-data.ts'

export interface IdentityFigures {
  /** Tokens shown, by the labels `source` and `result`. */
  readonly proofs: () => readonly Point[]
  /** Answers of the cluster, by result. */
  readonly accessReviews: ReadonlyMap<string, number>
}

/** There from the start, so that the first of them is seen as a change. */
const usual: Readonly<Record<string, readonly string[]>> = {
  file: ['ok'],
  oidc: ['ok', 'refused', 'unavailable'],
  cluster: ['ok', 'refused', 'unavailable'],
  none: ['refused'],
}

/** Counts from 0. Sources and results come from us, not from callers: there are few of them. */
export function createIdentityCounts() {
  const bySource = new Map(
    Object.entries(usual).map(([source, results]) => [source, atZero(results)]),
  )
  const accessReviews = atZero(['allowed', 'denied', 'failed'])
  return {
    figures: {
      proofs: () =>
        [...bySource].flatMap(([source, results]) =>
          [...results].map(([result, value]) => ({ attributes: { source, result }, value })),
        ),
      accessReviews,
    },
    onProved(source: string, result: string): void {
      const results = bySource.get(source) ?? new Map<string, number>()
      bySource.set(source, results)
      addOne(results, result)
    },
    onAccessReviewed: (result: string): void => addOne(accessReviews, result),
  }
}

function atZero(names: readonly string[]): Map<string, number> {
  return new Map(names.map((name) => [name, 0]))
}

function addOne(counts: Map<string, number>, of: string): void {
  counts.set(of, (counts.get(of) ?? 0) + 1)
}
