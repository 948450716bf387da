/**
 * What a million keys in use cost in memory: `node bench/key-cache.bench.ts [keys]`. They enter the
 * cache as misses do, from a table that creates new rows as a database driver would, and are then
 * used again and again.
 */

import { hash, randomUUID } from 'node:crypto'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { createCachedApiKeys } from '../src/keys/cached-api-keys.ts'
import type { ApiKeyTable, FoundKey } from '../src/keys/store.ts'
import { startUseRecorder } from '../src/keys/use-recorder.ts'
import { alwaysFresh } from '../test/support/key-table.ts'
import { cpuMicros } from './measure.ts'

const keys = Number(process.argv[2] ?? 1_000_000)
const atOnce = 1_000
/** Each with about ten keys, in one of the teams. */
const owners = Math.ceil(keys / 10)
const teams = 200
const rounds = 3

setFlagsFromString('--expose-gc')
// As in `tollgate serve`.
setFlagsFromString('--heap-growing-percent=30')
const collect = runInNewContext('gc') as () => void

/** Computed again each time, as for a request. */
const hashOf = (i: number): string => hash('sha256', String(i), 'hex')
/** Not shared strings: a driver creates each column's text separately. */
const fresh = (text: string): string => Buffer.from(text).toString('latin1')

function rowOf(found: string): FoundKey {
  const owner = Number.parseInt(found.slice(0, 8), 16) % owners
  const team = `team-${owner % teams}`
  return {
    id: fresh(randomUUID()),
    hash: fresh(found),
    user: fresh(`user-${owner}@example.com`),
    groups: [fresh('system:authenticated'), fresh(team)],
    subscription: fresh(team),
    status: fresh('active') as 'active',
    createdAt: Date.now(),
    expiresAt: Date.now() + owner,
  }
}

const table = { findByHashes: async (hashes) => hashes.map(rowOf) } as Partial<ApiKeyTable>
const cache = createCachedApiKeys(table as ApiKeyTable, { freshness: alwaysFresh, entries: keys })
const lastUsed = startUseRecorder({ write: async () => {}, onFault: console.error, everyMs: 50 })

async function use(i: number): Promise<void> {
  const key = await cache.findByHash(hashOf(i))
  if (key === undefined) throw new Error('not found')
  lastUsed.note(key.id, Date.now())
}

collect()
const before = process.memoryUsage()
let peak = 0
let begin = process.cpuUsage()
for (let round = 0; round <= rounds; round += 1) {
  for (let i = 0; i < keys; i += atOnce) {
    await Promise.all(Array.from({ length: Math.min(atOnce, keys - i) }, (_, j) => use(i + j)))
    peak = Math.max(peak, process.memoryUsage.rss())
  }
  const micros = (cpuMicros(begin) / keys).toFixed(2)
  console.log(round === 0 ? 'a miss, without the database' : 'a hit, awaited', `${micros} µs CPU`)
  begin = process.cpuUsage()
}
collect()
const after = process.memoryUsage()
const stats = cache.stats()
if (stats.entries !== keys || stats.hits < rounds * keys) throw new Error(JSON.stringify(stats))
const used = after.heapUsed + after.external - before.heapUsed - before.external
console.log(`${keys} keys of ${owners} owners, ${stats.queries} queries`)
console.log(`memory of a key: ${Math.round(used / keys)} bytes`)
for (const [name, bytes] of [
  ['before', before.rss],
  ['at most', peak],
  ['after', after.rss],
] as const) {
  console.log(`resident ${name}: ${Math.round(bytes / 1e6)} MB`)
}
await lastUsed.stop(0)
