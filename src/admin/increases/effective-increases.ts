/** Which increases raise a limit now: the limits may have changed since. */

import type { ExactInt } from '../../formats/exact.ts'
import { statusAt } from '../../keys/rules/api-key.ts'
import type { ApiKeyStore } from '../../keys/store.ts'
import type { Snapshot } from '../../models/rules/snapshot.ts'
import type { StoredIncrease } from '../../ratelimit/increases/active-increases.ts'
import { counterKeyPrefix, parseCounterKey } from '../../ratelimit/rules/counter-key.ts'
import { inSlices } from '../../runtime/slices.ts'
import { limitsOfKeyRecord } from '../usage/limit-state.ts'
import { toLimitIdentityJson } from './wanted-limit.ts'

/** The figures of enforced limits, by counter key without its user or group. */
type Figures = Map<string, ExactInt>

/** `now`: milliseconds since the epoch. Rejects if the database is unavailable. */
export async function effectiveIncreases(
  increases: readonly StoredIncrease[],
  snapshot: Snapshot,
  keys: Pick<ApiKeyStore, 'findById'>,
  now: number,
): Promise<(increase: StoredIncrease) => boolean> {
  const figures = await inSlices(figuresIn(snapshot))
  for (const id of new Set(increases.flatMap((each) => toLimitIdentityJson(each).keyId ?? []))) {
    const key = await keys.findById(id)
    if (key === undefined || statusAt(key, now) !== 'active') continue
    for (const { limit, isEnforced } of limitsOfKeyRecord(key, snapshot))
      if (isEnforced) figures.set(limit.keyPrefix, limit.limit)
  }
  return ({ counter, limit }) =>
    limit > (figures.get(counterKeyPrefix(parseCounterKey(counter))) ?? limit)
}

function* figuresIn({ subscriptions }: Snapshot): Generator<undefined, Figures> {
  const figures: Figures = new Map()
  for (const { limits } of subscriptions.values()) {
    for (const { keyPrefix, limit } of [...limits.values()].flat()) figures.set(keyPrefix, limit)
    yield
  }
  return figures
}
