/** The counters of a process, over the sums of its gateway: the same with a shared store and without one. */

import { ServiceError } from '../../formats/errors.ts'
import { maxResets, type ResettableCounters } from '../counters.ts'
import { withOpenRequests } from '../holds/read-counters.ts'
import type { KnownWindows } from '../holds/windows.ts'
import type { HoldStore } from '../holds.ts'
import type { KeptResets } from './kept-resets.ts'
import type { RunningSums } from './running-sums.ts'
import type { SharedSums } from './shared-sums.ts'

export interface SumCountersOptions {
  readonly running: Pick<RunningSums, 'read' | 'readFresh' | 'reset'>
  /** They have the requests that are in progress. */
  readonly holds: Pick<HoldStore, 'hold' | 'holdAlone'>
  /** Undefined without a database: every reset is then refused, because nobody else would hear of it. */
  readonly resets: Pick<KeptResets, 'write'> | undefined
}

export function createSumCounters(options: SumCountersOptions): ResettableCounters {
  const { running, holds, resets } = options
  return {
    read: (counters, now) => running.read(counters, now),
    readFresh: withOpenRequests((counters, now) => running.readFresh(counters, now), holds),
    async reset(counters, at, used = 0) {
      if (counters.length > maxResets) throw new RangeError(`more than ${maxResets} counters`)
      if (resets === undefined) throw new ServiceError('store_unavailable')
      const keys = counters.map(({ key }) => key)
      await resets.write(keys, at, used)
      // Others are told by the database; whoever has asked sees it at once.
      for (const key of keys) running.reset(key, { at, used })
    },
  }
}

/** What a process knows of windows at once, for holds beside them. */
export function createKnownWindows(
  running: Pick<RunningSums, 'look'>,
  shared: Pick<SharedSums, 'read'>,
): KnownWindows {
  return (counters, at) => {
    running.look()
    return counters.map((counter) => shared.read(counter, at))
  }
}
