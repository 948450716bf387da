/** The names that model servers list. */

import { askServer } from '../gateway/server-list.ts'
import { createNameDiscovery, type NameDiscovery } from '../models/names/name-discovery.ts'
import type { Context } from './context.ts'
import type { Resources } from './resources.ts'
import type { Table } from './table.ts'

/** How long a server may take to list its models; milliseconds. */
const askMs = 2_000

/** Asks the servers of models without ids of their own. */
export function openServedNames(
  { config, log, onFault, stops }: Context,
  { snapshot, latest, readSecret }: Pick<Resources, 'snapshot' | 'latest' | 'readSecret'>,
  table: Pick<Table, 'beginAnew'>,
): NameDiscovery {
  const { backendCaFile: caFile, hopMark } = config
  const discovery = createNameDiscovery({
    snapshot,
    latest,
    log,
    onFault,
    onNames: table.beginAnew,
    ask: (ref) =>
      askServer(ref, { readSecret, caFile, hopMark, signal: AbortSignal.timeout(askMs) }),
  })
  stops.push(() => discovery.close())
  return discovery
}
