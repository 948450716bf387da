/** How many threads of Envoy serve requests. */

import { availableParallelism } from 'node:os'
import { setTimeout as delay } from 'node:timers/promises'
import type { Address } from '../formats/address.ts'
import { infoPath, workersIn } from '../journal/envoy-log.ts'
import { askAdmin } from './admin-page.ts'

/** How often Envoy is asked, and after how many failures the CPUs of this machine count instead. */
const [askMs, asksAtMost] = [100, 100]

/** Polls the admin page until it reports the number, as a starting Envoy does not yet, or until `isStopped`. */
export async function countWorkers(admin: Address, isStopped: () => boolean): Promise<number> {
  for (let asked = 0; asked < asksAtMost && !isStopped(); asked += 1) {
    const info = await askAdmin(admin, infoPath).catch(() => '')
    const workers = workersIn(info)
    if (workers > 0) return workers
    await delay(askMs, undefined, { ref: false })
  }
  return availableParallelism()
}
