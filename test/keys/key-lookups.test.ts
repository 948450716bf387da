import { setTimeout as delay } from 'node:timers/promises'
import { test } from 'tap'
import { ServiceError } from '../../src/formats/errors.ts'
import { createKeyLookups } from '../../src/keys/key-lookups.ts'
import { createFakeTable } from '../support/key-table.ts'
import { poll } from '../support/poll.ts'

/** Look-ups in a fake table; only `ahead` lets time pass. */
function createWorld() {
  const fake = createFakeTable()
  const lookups = createKeyLookups({
    read: (hashes) => fake.table.findByHashes(hashes),
    take: (_, found) => found,
    isUnavailable: () => world.isUnavailable,
    monotonic: () => world.ahead,
  })
  const world = {
    ...fake,
    lookups,
    isUnavailable: false,
    ahead: 0,
    /** The result of a look-up: a status, `unknown`, or a code. */
    ask: (hash: string, address?: string): Promise<string> =>
      lookups.find(hash, address === undefined ? undefined : () => address).then(
        (found) => found?.status ?? 'unknown',
        (error) => error.code,
      ),
    /** The results for many hashes. */
    askMany: (hashes: readonly string[], address?: string) =>
      Promise.all(hashes.map((hash) => world.ask(hash, address))),
  }
  return world
}

const many = (name: string, count: number): string[] =>
  Array.from({ length: count }, (_, i) => `${name} ${i}`)

test('concurrent look-ups share one query', async (t) => {
  const { askMany, lookups, queries, add } = createWorld()
  const hashes = many('key', 500)
  for (const hash of hashes.slice(0, 250)) add({ hash })
  const [found, again] = await Promise.all([askMany(hashes, 'a'), askMany(hashes, 'b')])
  t.equal(queries.length, 1)
  t.strictSame(queries[0], hashes)
  t.strictSame(found.slice(249, 251), ['active', 'unknown'])
  t.strictSame(again, found)
  t.match(lookups.stats, { queries: 1, waiting: 0, refused: 0 })
})

test('at most two queries run at a time, and none is too large', async (t) => {
  const { ask, askMany, queries, hold } = createWorld()
  const release = hold()
  const answers = askMany(many('key', 3_000), 'a')
  await poll(() => queries.length === 2, 'two queries are sent')
  const late = ask('late', 'b')
  await delay(20)
  t.equal(queries.length, 2, 'no third query meanwhile')
  release()
  await Promise.all([answers, late])
  t.ok(queries.every((hashes) => hashes.length <= 500))
  t.ok(queries.length <= 8, `${queries.length} queries`)
})

test('a flood does not delay others', async (t) => {
  const { ask, askMany, queries, hold, add } = createWorld()
  const release = hold()
  const flood = askMany(many('invented', 4_000), '192.0.2.1')
  await poll(() => queries.length === 2, 'two queries are sent')
  const honest = many('honest', 20).map((hash) => ask(add({ hash }).hash, hash))
  release()
  t.strictSame(new Set(await Promise.all(honest)), new Set(['active']))
  const asked = queries.findIndex((hashes) => hashes.includes('honest 19'))
  t.ok(asked <= 3, `in query ${asked}`)
  await flood
})

test('an owner with too many look-ups is refused, and no other', async (t) => {
  const { ask, askMany, lookups, queries, hold } = createWorld()
  const release = hold()
  const floods = many('flood', 10).map((name, i) =>
    askMany(many(name, 6_000), `2001:db8:0:${i}::1`),
  )
  const neighbour = ask('neighbour', '2001:db8:0:9::9')
  const honest = ask('honest', '2001:db8:0:a::1')
  const known = askMany(many('known', 6_000))
  await poll(() => queries.length === 2, 'two queries are sent')
  t.ok(lookups.stats.waiting <= 14_000, `${lookups.stats.waiting} are waiting`)
  release()
  t.strictSame(await Promise.all([neighbour, honest]), ['store_unavailable', 'unknown'])
  t.strictSame(new Set(await known), new Set(['unknown']), 'known keys do not count as a flood')
  for (const flood of floods) {
    const refused = (await flood).filter((outcome) => outcome === 'store_unavailable')
    t.ok(refused.length >= 1_000 && refused.length < 6_000, `${refused.length} were refused`)
  }
  t.ok(lookups.stats.refused > 45_000)
  t.equal(await ask('flood again', '2001:db8:0:1::1'), 'unknown', 'the flood is over')
})

test('a key that was evicted meanwhile is read again', async (t) => {
  const { ask, lookups, queries, rows, hold, add } = createWorld()
  for (const repeat of [(hash: string) => lookups.repeat([hash]), () => lookups.repeatAll()]) {
    const row = add()
    const release = hold()
    const before = queries.length
    const answers = [ask(row.hash, 'a'), ask(add().hash, 'a')]
    await poll(() => queries.length > before, 'the query is sent')
    rows.set(row.hash, { ...row, status: 'revoked' })
    repeat(row.hash)
    release()
    t.strictSame(await Promise.all(answers), ['revoked', 'active'])
    t.equal(queries.length, before + 2)
  }
})

test('a locked key is read again, and fails alone after a second', async (t) => {
  const fake = createFakeTable()
  const locked = new Set(['a', 'b'])
  let ahead = 0
  const lookups = createKeyLookups({
    read: async (hashes) => {
      const found = await fake.table.findByHashes(hashes)
      return found.map((key) => (locked.has(key.hash) ? { hash: key.hash, lockedId: 'k1' } : key))
    },
    take: (_, found) => found,
    isUnavailable: () => false,
    monotonic: () => ahead,
  })
  for (const hash of ['a', 'b', 'c']) fake.add({ hash })
  const ask = (hash: string) => lookups.find(hash, () => 'a')
  const [never, late, other] = [ask('a'), ask('b'), ask('c')]
  never.catch(() => {})
  t.match(await other, { status: 'active' })
  locked.delete('b')
  t.match(await late, { status: 'active' })
  ahead = 1_000
  await t.rejects(never, { code: 'store_locked', cause: { message: /locked the row .* k1/ } })
  t.strictSame(fake.queries[0], ['a', 'b', 'c'])
  t.equal(lookups.stats.waiting, 0)
})

test('a failed query fails the look-ups that wait for it', async (t) => {
  const { ask, lookups, failWith, add } = createWorld()
  const nowhere = () => undefined
  for (const [error, code] of [
    [new ServiceError('store_unavailable', { cause: new Error('gone') }), 'store_unavailable'],
    [new Error('syntax error'), 'internal'],
  ] as const) {
    failWith(error)
    const [first, second] = await Promise.allSettled([
      lookups.find('a', nowhere),
      lookups.find('b', nowhere),
    ])
    t.match(first, { status: 'rejected', reason: error })
    t.match(
      second,
      { status: 'rejected', reason: { code, cause: undefined } },
      'the cause is reported once',
    )
  }
  failWith(undefined)
  t.equal(await ask(add().hash), 'active')
})

test('no look-up waits forever', async (t) => {
  const world = createWorld()
  const { ask, askMany, lookups, queries, hold } = world
  for (const [happens, ends] of [
    [{ ahead: 2_000 }, {}],
    [{ isUnavailable: true }, { isUnavailable: false }],
  ] as const) {
    const before = queries.length
    const release = hold()
    const answers = askMany(many(`key ${before}`, 1_200), 'a')
    await poll(() => queries.length === before + 2, 'two queries are sent')
    Object.assign(world, happens)
    release()
    const refused = (await answers).filter((outcome) => outcome === 'store_unavailable')
    t.equal(refused.length, 200)
    t.equal(queries.length, before + 2, 'look-ups that were given up are not queried')
    Object.assign(world, ends)
    t.equal(lookups.stats.waiting, 0)
    t.equal(await ask(`later ${before}`, 'a'), 'unknown')
  }
})
