/**
 * The legacy tiers (contract, 3.9): the `v1` ConfigMap `tier-to-group-mapping` and its one query.
 * `data.tiers` is YAML in a string; the reader of the file parses it.
 */

import { isObject, valueAt } from '../../../formats/fields.ts'
import type { Tier } from '../../../kinds/resources.ts'

export const tierMapping = 'tier-to-group-mapping'

/** Whether a document is the mapping, by kind and name. */
export function isTierMapping(document: unknown): boolean {
  if (!isObject(document) || document.apiVersion !== 'v1') return false
  return document.kind === 'ConfigMap' && valueAt(document, ['metadata', 'name']) === tierMapping
}

/**
 * The highest tier that contains any of the groups; of several on one level, the first. Every tier
 * also contains the group of its own service accounts,
 * `system:serviceaccounts:<instance>-tier-<tier>`.
 */
export function lookupTier(
  tiers: readonly Tier[],
  groups: Iterable<string>,
  instanceName: string,
): Tier | undefined {
  const given = new Set(groups)
  let best: Tier | undefined
  for (const tier of tiers) {
    if (best !== undefined && tier.level <= best.level) continue
    const own = `system:serviceaccounts:${instanceName}-tier-${tier.name}`
    if (given.has(own) || [...tier.groups].some((group) => given.has(group))) best = tier
  }
  return best
}
