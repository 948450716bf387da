import root, { type Test } from 'tap'
import { addExact, type ExactInt, maxExactInt } from '../../../src/formats/exact.ts'
import { connectRedis } from '../../../src/ratelimit/redis/connection.ts'
import { oldCounterKey, oldWindowKey } from '../../../src/ratelimit/redis/keys.ts'
import { createRedisSums } from '../../../src/ratelimit/sums/redis-sums.ts'
import type {
  OldWindow,
  SumEntry,
  SumStore,
  WriterMark,
} from '../../../src/ratelimit/sums/sum-store.ts'
import { createRandom } from '../../support/random.ts'
import { type RunningValkey, skipValkey, startValkey } from '../../support/valkey.ts'
import { createDice, Server } from './model.ts'

const skip = { skip: skipValkey }
const mark: WriterMark = { key: 'tollgate:{all}:mark:g', number: 1, nonce: 'n', acknowledged: 0 }
const entry: SumEntry = { key: 'tollgate:{all}:w:a@1', field: 'g', sum: 40, ttlMs: 60_000 }

async function connect(t: Test, valkey: RunningValkey): Promise<SumStore> {
  const connection = connectRedis(valkey.url, () => {})
  t.teardown(() => connection.close())
  await connection.connected(5_000)
  return createRedisSums(connection.commands)
}

root.test('sums in a real Redis', skip, async (t) => {
  const valkey = await startValkey(t)
  const store = await connect(t, valkey)
  t.beforeEach(async () => void (await valkey.client.flushall()))

  await t.test('the script does what the model of a server does', async (t) => {
    const { seed } = createRandom()
    t.comment(`SEED=${seed}`)
    const { below, pick, chance } = createDice(seed)
    /** Of some windows few sums are small; 15 digits and more, billions, and more than there is room for. */
    const largeOf = (key: string): readonly ExactInt[] => {
      if (key.includes(':w:a@')) return [0]
      const small = [0, 999_999_999_999_000, 10 ** 15, 2 ** 53 - 3_000, 2n ** 53n]
      if (key.includes(':w:b@')) return small
      return [...small, 10n ** 18n, 10n ** 18n - 2_000n, 2n ** 62n, 3n * 10n ** 18n - 2_000n]
    }
    const model = new Server(() => 0)
    const keys = ['a', 'b', 'c', 'd'].map((name) => `tollgate:{all}:w:${name}@1`)
    for (let call = 1; call <= 400; call += 1) {
      const number = Math.max(1, call - below(8))
      const nonce = pick(['one', 'one', 'two'])
      const acknowledged = pick([0, call - 1, call - below(6)])
      const its = chance(0.8) ? { ...mark, number, nonce, acknowledged } : undefined
      const entries = keys
        .filter(() => chance(0.5))
        .map((key) => {
          const sum = addExact(pick(largeOf(key)), below(call * 10))
          return { key, field: pick(['g', 'h', 'i']), sum, ttlMs: 60_000 }
        })
      if (its === undefined && entries.length === 0) continue
      const answer = await store.write(its, entries)
      const expected = model.write(its, entries)
      t.strictSame(answer, its === undefined ? { ...expected, number: 0, nonce: '' } : expected)
    }
    const found = await store.read(keys)
    t.strictSame(
      found.map((fields) => new Map([...fields].toSorted())),
      keys.map((key) => new Map([...model.fields(key)].toSorted())),
    )
  })

  await t.test('sums up to 2^53 are exact', async (t) => {
    const sum = 2 ** 53 - 2_000
    await store.write(mark, [{ ...entry, sum }])
    const answer = await store.write(undefined, [{ ...entry, field: 'h', sum: 999 }])
    t.strictSame(answer.sums, [[999, 2 ** 53 - 1_001]])
    t.strictSame(await store.read([entry.key, 'tollgate:{all}:w:none@1']), [
      new Map([
        ['g', sum],
        ['+', 2 ** 53 - 1_001],
        ['h', 999],
      ]),
      new Map(),
    ])
  })

  await t.test('larger sums are exact, and end at the most there is room for', async (t) => {
    const sums = [2n ** 53n + 1n, 10n ** 18n - 1n, 3n * 10n ** 18n, 4n * 10n ** 18n]
    let total: ExactInt = 0
    for (const [i, sum] of sums.entries()) {
      total = addExact(total, sum)
      const answer = await store.write(undefined, [{ ...entry, field: `f${i}`, sum }])
      t.strictSame(answer.sums, [[sum, total]])
      t.strictSame((await store.write(undefined, [{ ...entry, sum: 0 }])).sums, [[0, total]])
    }
    t.equal(total, 8_009_007_199_254_740_992n)
    t.strictSame((await store.read([entry.key]))[0]?.get('+'), total)
    await store.write(undefined, [{ ...entry, sum: maxExactInt }])
    t.strictSame((await store.write(undefined, [{ ...entry, sum: 40 }])).sums, [
      [maxExactInt, maxExactInt],
    ])
    await valkey.client.hset(entry.key, 'g', '9'.repeat(19), '+', '9'.repeat(400))
    t.strictSame(
      (await store.read([entry.key]))[0]?.get('g'),
      0,
      'what is no sum counts for nothing',
    )
    t.strictSame((await store.write(undefined, [{ ...entry, sum: 7 }])).sums, [[7, 7]])
  })

  await t.test('a window lives as long as it was told at first, a mark a minute', async (t) => {
    await store.write(mark, [entry])
    await store.write({ ...mark, number: 2 }, [{ ...entry, sum: 50, ttlMs: 600_000 }])
    const left = await valkey.client.pttl(entry.key)
    t.ok(left > 30_000 && left <= 60_000, `${left}`)
    t.ok((await valkey.client.pttl(mark.key)) > 50_000)
  })

  await t.test('what somebody else has put under a name counts for nothing', async (t) => {
    await valkey.client.set(entry.key, 'text')
    await valkey.client.lpush(mark.key, 'list')
    const other = { ...entry, key: 'tollgate:{all}:w:b@1' }
    const answer = await store.write(undefined, [entry, other])
    t.strictSame(answer.sums, [
      [0, 0],
      [40, 40],
    ])
    await valkey.client.hset(other.key, 'h', 'x', 'a b', '7')
    t.strictSame(await store.read([entry.key, other.key]), [
      new Map(),
      new Map([
        ['g', 40],
        ['+', 40],
      ]),
    ])
    t.match(await store.write(mark, [entry]), { number: 0, nonce: '' }, 'and is replaced')
  })

  await t.test('a key of another type under a name is a loss, and is replaced', async (t) => {
    await store.write(mark, [entry])
    await valkey.client.set(entry.key, 'text')
    const next = { ...mark, number: 2, acknowledged: 1 }
    const replaced = { number: 0, nonce: '', sums: [[40, 40]] }
    t.strictSame(await store.write(next, [entry]), replaced)
    t.ok((await valkey.client.pttl(entry.key)) > 0)
    const after = await store.write({ ...mark, number: 3 }, [{ ...entry, field: 'h', sum: 2 }])
    t.strictSame(after, { number: 2, nonce: 'n', sums: [[2, 42]] })
  })

  await t.test('a server that is full refuses the whole call', async (t) => {
    await store.write(mark, [entry])
    await valkey.client.config('SET', 'maxmemory', '100kb')
    await t.rejects(store.write({ ...mark, number: 2 }, [{ ...entry, sum: 50 }]), /OOM/)
    await valkey.client.config('SET', 'maxmemory', '0')
    t.match(await store.write({ ...mark, number: 3, acknowledged: 1 }, [{ ...entry, sum: 45 }]), {
      number: 1,
      sums: [[45, 45]],
    })
  })

  await t.test('a refresh changes nothing', async (t) => {
    await store.write(mark, [entry])
    t.strictSame(await store.write(undefined, [{ ...entry, field: 'h', sum: 0 }]), {
      number: 0,
      nonce: '',
      sums: [[0, 40]],
    })
    t.strictSame(await valkey.client.hlen(entry.key), 2)
  })

  await t.test('what a version before has counted counts in one window', async (t) => {
    const counter = 'basic\nllm/small\n3600000\nann'
    const [first, next] = [1, 2].map((since) => ({ counter, id: `${counter}@${since}` }))
    const read = async (window = first) => await store.readOld?.([window as OldWindow])
    t.strictSame(await read(), [0])
    await valkey.client.set(oldCounterKey(counter), '70', 'PX', 60_000)
    t.strictSame([await read(), await read(next), await read()], [[70], [0], [70]])
    await valkey.client.incrby(oldCounterKey(counter), 5)
    t.strictSame(await read(), [75], 'gateways of that version may still count')
    const left = await valkey.client.pttl(oldWindowKey(counter))
    t.ok(left > 50_000 && left <= 60_000, 'the note ends with it')
    await valkey.client.set(oldCounterKey(counter), 'text')
    t.strictSame(await read(), [0])
  })

  await t.test('a server that has forgotten the scripts gets them again', async (t) => {
    const keys = ['held', 'holds', 'leases'].map((name) => `tollgate:{all}:${name}:s`)
    await store.write(mark, [entry], [{ keys, ids: ['a'] }])
    await valkey.client.call('SCRIPT', 'FLUSH')
    const answer = await store.write(
      { ...mark, number: 2 },
      [{ ...entry, sum: 41 }],
      [{ keys, ids: ['b'] }],
    )
    t.strictSame(answer.sums, [[41, 41]])
  })
})
