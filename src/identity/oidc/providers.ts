/** The OIDC providers in force: each as it was last written, none twice. */

import type { Provider } from './provider.ts'

export interface Providers<Wanted extends { readonly issuer: string }> {
  /** The provider of this issuer, if there is one. */
  find(issuer: string): Provider | undefined
  /** Whether one is out of reach. */
  readonly isAway: boolean
  /**
   * Puts these in force and no others. One that is wanted as it was goes on with its keys and its
   * verdicts; of two for one issuer the first counts.
   */
  put(wanted: readonly Wanted[]): void
  close(): void
}

/** None at first. `open` starts a provider. */
export function createProviders<Wanted extends { readonly issuer: string }>(
  open: (wanted: Wanted) => Provider,
): Providers<Wanted> {
  interface Entry {
    readonly written: string
    readonly provider: Provider
  }
  let inForce: ReadonlyMap<string, Entry> = new Map()

  function put(wanted: readonly Wanted[]): void {
    const next = new Map<string, Entry>()
    for (const one of wanted) {
      if (next.has(one.issuer)) continue
      const written = JSON.stringify(one)
      const before = inForce.get(one.issuer)
      const stays = before?.written === written
      next.set(one.issuer, stays ? before : { written, provider: open(one) })
    }
    for (const [issuer, entry] of inForce) {
      if (next.get(issuer) !== entry) entry.provider.close()
    }
    inForce = next
  }

  return {
    find: (issuer) => inForce.get(issuer)?.provider,
    get isAway() {
      for (const { provider } of inForce.values()) if (provider.isAway) return true
      return false
    },
    put,
    close: () => put([]),
  }
}
