import { readdirSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { json } from 'node:stream/consumers'
import type { Inside } from './probe.ts'

/**
 * Figures of the service's processes since the previous call: the sum of allocations, and the
 * longest delay. Rejects if no process responds.
 */
export async function readProbe(folder: string): Promise<Inside> {
  const readings = await Promise.all(readdirSync(folder).map((name) => readOne(join(folder, name))))
  const seen = readings.filter((each) => each !== undefined)
  if (seen.length === 0) throw new Error('no process of the service responds to the probe')
  return {
    allocatedBytes: seen.reduce((sum, each) => sum + each.allocatedBytes, 0),
    collections: seen.reduce((sum, each) => sum + each.collections, 0),
    loopP99Ms: Math.max(...seen.map((each) => each.loopP99Ms)),
    loopMaxMs: Math.max(...seen.map((each) => each.loopMaxMs)),
  }
}

/** undefined for a process that has ended. */
async function readOne(path: string): Promise<Inside | undefined> {
  return (await json(connect(path)).catch(() => undefined)) as Inside | undefined
}
