/** Results for identity tokens, and of reviews of administrators. */

import { getOrAdd } from '../formats/lists.ts'

export type IdentityFigures = ReturnType<typeof createIdentityCounts>['figures']

/** Present from the start, so that the first increment is visible as a change. */
const initial: Readonly<Record<string, readonly string[]>> = {
  file: ['ok'],
  oidc: ['ok', 'refused', 'unavailable'],
  cluster: ['ok', 'refused', 'unavailable'],
  none: ['refused'],
}

/** Starts at 0. Sources and results come from us, not from callers, so there are few. */
export function createIdentityCounts() {
  const bySource = new Map(
    Object.entries(initial).map(([source, results]) => [source, atZero(results)]),
  )
  const accessReviews = atZero(['allowed', 'denied', 'failed'])
  return {
    figures: {
      /** Verified and refused tokens, by the labels `source` and `result`. */
      proofs: () =>
        [...bySource].flatMap(([source, results]) =>
          [...results].map(([result, value]) => ({ attributes: { source, result }, value })),
        ),
      /** The cluster's responses, by result. */
      accessReviews,
    },
    onProved(source: string, result: string): void {
      addOne(
        getOrAdd(bySource, source, () => new Map()),
        result,
      )
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
