/**
 * A process with a cache of keys and a follower, for tests that stop it by a signal. For each line of its standard
 * input, a hash, it prints the response that a request with that key would get.
 */

import { createInterface } from 'node:readline'
import { createCachedApiKeys } from '../../src/keys/cached-api-keys.ts'
import { createPostgresApiKeys } from '../../src/keys/postgres-api-keys.ts'
import { createRevocationFollower } from '../../src/keys/revocations/revocation-follower.ts'
import { openPool } from '../../src/store/postgres/postgres.ts'

const url = process.argv[2] as string
const pool = openPool({ url, connections: 3 })
const follower = createRevocationFollower({
  pool,
  url,
  name: 'paused',
  place: 'paused',
  everyMs: 1_000,
  servesMs: 60_000,
  evict: (hashes) => keys.evict(hashes),
  forgetAll: () => keys.forgetAll(),
  onFault: (error) => console.error(error),
})
const keys = createCachedApiKeys(createPostgresApiKeys(pool), { entries: 100, freshness: follower })
await follower.start()
console.log('ready')
for await (const hash of createInterface({ input: process.stdin })) {
  const key = await keys.findByHash(hash)
  console.log(`${hash} ${key?.status ?? 'unknown'}`)
}
await follower.stop()
await pool.end()
