import { randomUUID } from 'node:crypto'
import type { Test } from 'tap'
import {
  createRevocationFollower,
  type RevocationFollower,
  type RevocationFollowerOptions,
} from '../../src/keys/revocations/revocation-follower.ts'
import { connectionClass } from '../../src/store/postgres/connection.ts'
import type { Pool } from '../../src/store/postgres/postgres.ts'
import { createMigratedDatabase } from './database.ts'
import { createPool } from './key-store.ts'

/** A follower, and the evictions that it has requested. */
export interface FollowerUnderTest extends RevocationFollower {
  readonly evicted: Set<string>
  /** Number of evictions of all keys. */
  readonly forgotten: () => number
  readonly faults: readonly unknown[]
  /** The triggers that were off, at each change. */
  readonly off: readonly (readonly string[])[]
}

/** A new database with our schema: its URL, and a pool. */
export async function createKeyDatabase(t: Test): Promise<{ url: string; sql: Pool }> {
  const url = await createMigratedDatabase(t)
  const sql = await createPool(t, url)
  return { url, sql }
}

/** Starts a follower of the database at `url`, with a pool of its own; stopped with `t`. */
export async function startFollower(
  t: Test,
  url: string,
  options: Partial<RevocationFollowerOptions> = {},
): Promise<FollowerUnderTest> {
  const evicted = new Set<string>()
  const faults: unknown[] = []
  const off: (readonly string[])[] = []
  let forgotten = 0
  const follower = createRevocationFollower({
    pool: await createPool(t, url),
    url,
    name: 'one',
    place: options.name ?? 'one',
    everyMs: 1_000,
    servesMs: 60_000,
    evict(hashes) {
      for (const hash of hashes) evicted.add(hash)
    },
    forgetAll() {
      forgotten += 1
    },
    onTriggersOff: (names) => void off.push(names),
    onFault: (error) => void faults.push(error),
    ...options,
  })
  // Teardowns run in reverse order, so this one precedes the pool's.
  t.teardown(() => follower.stop())
  await follower.start()
  return { ...follower, evicted, forgotten: () => forgotten, faults, off }
}

/** Listens until `t` ends; returns the notified channels in order, as they arrive. */
export async function receiveNotifications(
  t: Test,
  url: string,
  channels: readonly string[],
): Promise<readonly string[]> {
  const received: string[] = []
  const Listening = connectionClass({ url, applicationName: 'test' })
  const connection = new Listening()
  connection.on('notification', ({ channel }) => void received.push(channel))
  t.teardown(() => connection.abandon())
  await connection.connect()
  for (const channel of channels) await connection.query(`listen ${channel}`)
  return received
}

/** Creates keys of a user with the hashes `<user>-1` and so on. */
export async function fillKeys(sql: Pool, count: number, user = 'alice'): Promise<void> {
  await sql`
    insert into api_keys (id, username, name, key_hash, user_groups, subscription)
    select gen_random_uuid()::text, ${user}, 'k', ${`${user}-`} || i, array['a'], 'premium'
    from generate_series(1, ${count}::int) i`
}

/**
 * Adds a replica that has followed the log until now and never reports again; returns its id.
 */
export async function addReplica(sql: Pool, name: string): Promise<string> {
  const id = randomUUID()
  await sql`
    insert into tollgate_replicas
      (id, name, place, seen_at, serves_until, acknowledged, snapshot)
    values (${id}, ${name}, ${name}, now(), now() + interval '1 hour', 0, pg_current_snapshot())`
  return id
}
