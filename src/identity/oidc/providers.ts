/** The OIDC providers in force: each in its last version, at most one per issuer. */

import type { CodeFlow } from './code-flow.ts'
import type { Provider } from './provider.ts'

/** Starts without providers. `open` starts one. */
export function createProviders<Configured extends { readonly issuer: string }>(
  open: (configured: Configured) => Provider,
) {
  interface Entry {
    readonly text: string
    readonly provider: Provider
  }
  let inForce: ReadonlyMap<string, Entry> = new Map()

  function put(configured: readonly Configured[]): void {
    const next = new Map<string, Entry>()
    for (const one of configured) {
      if (next.has(one.issuer)) continue
      const text = JSON.stringify(one)
      const before = inForce.get(one.issuer)
      const stays = before?.text === text
      next.set(one.issuer, stays ? before : { text, provider: open(one) })
    }
    for (const [issuer, entry] of inForce) {
      if (next.get(issuer) !== entry) entry.provider.close()
    }
    inForce = next
  }

  return {
    /** The provider of this issuer, if any. */
    find: (issuer: string): Provider | undefined => inForce.get(issuer)?.provider,
    /** How users sign in at each of them. */
    codeFlows: (): readonly CodeFlow[] =>
      [...inForce.values()].flatMap(({ provider }) => provider.codeFlow ?? []),
    /** Whether one is unavailable. */
    get isUnavailable(): boolean {
      for (const { provider } of inForce.values()) if (provider.isUnavailable) return true
      return false
    },
    /**
     * Replaces the set of providers. An unchanged provider retains its keys and its cached tokens; if two have the same
     * issuer, the first is used.
     */
    put,
    close: (): void => put([]),
  }
}
