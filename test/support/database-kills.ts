import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import { startEmbeddedPostgres } from '../../dev/postgres/embedded-postgres.ts'
import { ServiceError } from '../../src/formats/errors.ts'
import { createCachedApiKeys } from '../../src/keys/cached-api-keys.ts'
import { createPostgresApiKeys } from '../../src/keys/postgres-api-keys.ts'
import { createPropagationWatch, type Propagation } from '../../src/keys/revocations/propagation.ts'
import { createRevocationFollower } from '../../src/keys/revocations/revocation-follower.ts'
import { migrate } from '../../src/store/postgres/migrate.ts'
import { fillKeys } from './followers.ts'
import { createPool, now } from './key-store.ts'
import { poll } from './poll.ts'
import { temporaryFolder } from './temporary-folder.ts'

/**
 * Kills the database (kill -9) this many times while two replicas look up keys and revoke them.
 * Claims that known keys stay valid, that only `store_unavailable` is thrown, and that after each
 * restart the replicas recover and know every revocation.
 */
export async function killDatabase(t: Test, rounds: number): Promise<void> {
  const directory = join(temporaryFolder(t), 'postgres')
  let database = await startEmbeddedPostgres({ directory, log() {} })
  t.teardown(() => database.stop())
  const { url, port } = database
  const sql = await createPool(t, url)
  await migrate(sql)
  await fillKeys(sql, 2_000)
  const replicas = await Promise.all(['one', 'two'].map((name) => startReplica(t, url, name)))
  const [one, two] = replicas
  if (one === undefined || two === undefined) throw new Error('there are two')

  let isOver = false
  const unexpected: unknown[] = []
  const quietly = async (action: () => Promise<unknown>): Promise<void> => {
    while (!isOver) {
      await action().catch((error: unknown) => {
        if (!(error instanceof ServiceError)) unexpected.push(error)
      })
      await sleep(1)
    }
  }
  const hashes = Array.from({ length: 2_000 }, (_, i) => `alice-${i + 1}`)
  const loads = replicas.flatMap(({ keys }) =>
    Array.from({ length: 10 }, () =>
      quietly(async () => keys.findByHash(hashes[Math.floor(Math.random() * 2_000)] as string)),
    ),
  )
  loads.push(quietly(() => one.keys.revokeAll({ user: 'nobody' }, now)))

  for (let round = 1; round <= rounds; round += 1) {
    const [known, revoked] = [`alice-${round}`, `alice-${1_000 + round}`]
    for (const { keys } of replicas) {
      for (const hash of [known, revoked]) {
        const key = await poll(async () => keys.findByHash(hash), 'the key is found')
        t.equal(key?.status, 'active')
      }
    }
    process.kill(database.pid, 'SIGKILL')
    await database.exited
    await poll(
      () => replicas.every(({ follower }) => follower.state() === 'unavailable'),
      'the database is unavailable',
    )
    for (const { keys } of replicas) t.match(await keys.findByHash(known), { status: 'active' })
    database = await startEmbeddedPostgres({ directory, port, log() {} })
    const backAt = performance.now()
    const took = () => `${(performance.now() - backAt).toFixed(0)} ms`
    const isSound = () => replicas.every(({ follower }) => follower.state() === 'confirmed')
    await poll(isSound, 'everything heals', 30_000)
    const followed = took()
    const find = () => sql<{ id: string }[]>`select id from api_keys where key_hash = ${revoked}`
    const found = await poll(() => find().catch(() => undefined), 'the pool has recovered', 30_000)
    const revoke = () => one.keys.revoke(found?.[0]?.id ?? '', undefined, now)
    await poll(() => revoke().catch(() => undefined), 'the key is revoked', 30_000)
    let propagation: Propagation | undefined
    const isConfirmed = async (): Promise<boolean> => {
      propagation = await one.propagation.wait()
      return propagation.state === 'confirmed'
    }
    await poll(isConfirmed, 'the revocation is confirmed')
    t.equal(propagation?.replicas, 2)
    t.comment(`followed again after ${followed}, revoked and confirmed after ${took()}`)
    for (const { keys } of replicas) t.match(await keys.findByHash(revoked), { status: 'revoked' })
  }
  isOver = true
  await Promise.all(loads)
  t.strictSame(unexpected, [])
}

async function startReplica(t: Test, url: string, name: string) {
  const pool = await createPool(t, url)
  const follower = createRevocationFollower({
    pool,
    url,
    name,
    place: name,
    everyMs: 1_000,
    servesMs: 900_000,
    evict: (hashes) => keys.evict(hashes),
    forgetAll: () => keys.forgetAll(),
    onFault: (error) => t.fail(String(error)),
  })
  const keys = createCachedApiKeys(createPostgresApiKeys(pool), {
    entries: 10_000,
    freshness: follower,
  })
  t.teardown(() => follower.stop())
  await follower.start()
  const others = () => follower.stats().others
  const propagation = createPropagationWatch({ pool, id: follower.id, others })
  return { follower, keys, propagation }
}
