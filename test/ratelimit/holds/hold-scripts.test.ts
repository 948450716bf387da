import { isDeepStrictEqual } from 'node:util'
import root, { type Test } from 'tap'
import { addExact, type ExactInt } from '../../../src/formats/exact.ts'
import { connectRedis } from '../../../src/ratelimit/redis/connection.ts'
import { admitRequest } from '../../../src/ratelimit/rules/estimates/admit.ts'
import type { Expectation } from '../../../src/ratelimit/rules/estimates/estimator.ts'
import {
  type Factors,
  growHold,
  type HeldAmount,
  noHolds,
  withHold,
} from '../../../src/ratelimit/rules/estimates/held-amounts.ts'
import type { Growth } from '../../../src/ratelimit/rules/estimates/log-histogram.ts'
import { createRedisSums } from '../../../src/ratelimit/sums/redis-sums.ts'
import type { EndedHolds, SumEntry } from '../../../src/ratelimit/sums/sum-store.ts'
import { poll } from '../../support/poll.ts'
import { createRandom } from '../../support/random.ts'
import { type RunningValkey, skipValkey, startValkey } from '../../support/valkey.ts'
import { createDice, type Dice } from '../sums/model.ts'

const schedules = Number(process.env.SCHEDULES ?? 30)
const holdKeys = ['held', 'holds', 'leases'].map((name) => `tollgate:{all}:${name}:s\nann`)
const windowKeys = {
  tokens: 'tollgate:{all}:w:t@1',
  requests: 'tollgate:{all}:w:r@1',
  /** Never there: what runs has no window. */
  concurrency: 'tollgate:{all}:w:c',
  cost: 'tollgate:{all}:w:m@1',
}
const kinds = ['tokens', 'requests', 'concurrency', 'cost'] as const
const leaseMs = 60_000

type Limits = Readonly<Record<'tokens' | 'requests' | 'concurrency', number>>

/** A limit of cost, and what a request to its model counts in it. */
interface Cost {
  readonly limit: ExactInt
  readonly factors: Factors
}

interface Asked {
  readonly id: string
  readonly expected: Expectation
  readonly limits: Limits
  readonly cost?: Cost
  readonly canLimitOutput?: boolean
  readonly asker?: string
  readonly lease?: number
  readonly others?: number
  readonly own?: number
  readonly ended?: readonly string[]
}

async function connect(t: Test, valkey: RunningValkey) {
  const { commands, connected, close } = connectRedis(valkey.url, () => {})
  t.teardown(close)
  await connected(5_000)
  const store = createRedisSums(commands)
  return {
    commands,
    store,
    hold({
      id,
      expected,
      limits,
      canLimitOutput = true,
      asker = '',
      lease = leaseMs,
      ...known
    }: Asked) {
      const { input, inputVariance, output, outputVariance, floor, beyondRoom, least } = expected
      const beyond = expected.isSeveral ? -beyondRoom : beyondRoom
      const { others = 0, own = 0, ended = [], cost } = known
      const used = cost === undefined ? kinds.slice(0, 3) : kinds
      const worst = Number.isFinite(expected.worst) ? expected.worst : -1
      const args = [
        ...[id, lease, input, inputVariance, output, outputVariance, floor, beyond, least],
        ...[worst, overshoot, canLimitOutput ? '1' : '0', asker, 'g1', 0],
        ...used.flatMap((kind) => [
          kind === 'cost' ? written(cost) : kind,
          String(kind === 'cost' ? cost?.limit : limits[kind]),
          ...[`m|${kind}@1`, others, own],
        ]),
        ...ended,
      ]
      return commands.takeHold([...holdKeys, ...used.map((kind) => windowKeys[kind])], args)
    },
    /** The sums of a gateway, and requests of which responses are in them. */
    write(gateway: string, { tokens, requests, cost = 0 }: Ended, ids: readonly string[]) {
      const entry = { field: gateway, ttlMs: 600_000 }
      const entries: SumEntry[] = [
        { ...entry, key: windowKeys.tokens, sum: tokens },
        { ...entry, key: windowKeys.requests, sum: requests },
        { ...entry, key: windowKeys.cost, sum: cost },
      ]
      const ended: EndedHolds[] = ids.length === 0 ? [] : [{ keys: holdKeys, ids }]
      const mark = { key: `tollgate:{all}:mark:${gateway}`, number: 1, nonce: 'n', acknowledged: 0 }
      return store.write(mark, entries, ended)
    },
  }
}

const overshoot = 0.25

interface Ended {
  tokens: number
  requests: number
  cost?: ExactInt
}

function written(cost: Cost | undefined): string {
  const { base, perInput, mostPerInput, perOutput, grain } = (cost as Cost).factors
  return `tokens ${base} ${perInput} ${mostPerInput} ${perOutput} ${grain}`
}

/** Prices of a model, some of which are nothing. */
function factorsOf(dice: Dice): Factors {
  const price = (): number => (dice.chance(0.2) ? 0 : dice.below(40_000) / 7)
  const perInput = price()
  const mostPerInput = perInput * (dice.chance(0.5) ? 1 : 1.25)
  return { base: price(), perInput, mostPerInput, perOutput: price(), grain: 1_000 }
}

function expectedOf(dice: Dice): Expectation {
  // Of some, ceilings are what fills a limit, and not what is expected.
  const isShort = dice.chance(0.5)
  const floor = 1 + dice.below(isShort ? 3_000 : 800)
  return {
    ...{ input: dice.below(2_000) / 10, inputVariance: dice.below(3_000) },
    ...{ output: dice.below(isShort ? 100 : 4_000) / 10 },
    outputVariance: dice.below(isShort ? 100 : 90_000),
    ...{ floor, beyondRoom: floor, isSeveral: dice.chance(0.2), least: 1 + dice.below(40) },
    worst: dice.chance(0.5) ? Number.POSITIVE_INFINITY : 1 + dice.below(1_000),
  }
}

root.test('holds beside the sums of gateways', { skip: skipValkey }, async (t) => {
  const valkey = await startValkey(t)
  const redis = await connect(t, valkey)
  t.beforeEach(async () => void (await valkey.client.flushall()))

  await t.test('three gateways hold as one oracle decides', async (t) => {
    const { seed } = createRandom()
    t.comment(`SEED=${seed}`)
    let decisions = 0
    const wrong: unknown[] = []
    for (let i = 0; i < schedules; i += 1) {
      const dice = createDice(seed + i)
      await valkey.client.flushall()
      const limits: Limits = {
        tokens: 2_000 + dice.below(20_000),
        requests: 20 + dice.below(40),
        concurrency: 3 + dice.below(6),
      }
      // More than doubles tell apart.
      const before = dice.chance(0.5) ? 0 : 4_000_000_000_000_000_001n
      // Sometimes so near that doubles would not tell them apart.
      const costLimit = addExact(before, 1 + dice.below(dice.chance(0.3) ? 3_000 : 60_000_000))
      const own = Array.from({ length: 3 }, (): Ended => ({ tokens: 0, requests: 0, cost: 0 }))
      const [first] = own as [Ended]
      first.cost = before
      await redis.write('g0', first, [])
      const open = new Map<string, OpenHold>()
      for (let step = 0; step < 120; step += 1) {
        const gateway = dice.below(3)
        if (dice.chance(0.55)) {
          const [id, expected, canLimitOutput] = [`${step}`, expectedOf(dice), dice.chance(0.7)]
          const cost = { limit: costLimit, factors: factorsOf(dice) }
          const used = sumOf(own)
          const [held, costHeld] = [sumsOf(open, 'hold'), sumsOf(open, 'cost')]
          const rooms = [
            { limit: limits.tokens, used: used.tokens, held },
            { ...cost, used: used.cost ?? 0, held: costHeld },
          ]
          const admission = admitRequest(rooms, expected, overshoot, canLimitOutput)
          const isSpent = used.requests + open.size >= limits.requests
          const isFull = open.size >= limits.concurrency
          let { outcome } = admission
          if (outcome === 'held' && isFull) outcome = 'busy'
          if (isSpent) outcome = 'spent'
          const answer = await redis.hold({ id, expected, limits, canLimitOutput, cost })
          const isHeld = outcome === 'held' && admission.outcome === 'held'
          const more = isHeld ? 1 : 0
          const [, ownCost] = isHeld ? admission.holds : []
          const ceiling = isHeld && admission.ceiling < Infinity ? admission.ceiling : -1
          const wanted = [
            ...[outcome, isHeld ? ceiling : answer[1], open.size],
            ...[used.tokens, held.mean + (isHeld ? admission.hold.mean : 0)],
            ...[used.requests + open.size + more, 0, open.size + more, 0],
            ...[used.cost, costHeld.mean + (ownCost?.mean ?? 0)].map(String),
          ]
          decisions += 1
          const decided = [...answer.slice(0, 9), ...answer.slice(9).map(String)]
          if (!isDeepStrictEqual(decided, wanted))
            wrong.push({ seed: seed + i, step, decided, wanted })
          if (isHeld) {
            const { hold } = admission
            open.set(id, { gateway, hold, cost: ownCost as HeldAmount, factors: cost.factors })
          }
        } else if (dice.chance(0.3) && open.size > 0) {
          const [id, found] = dice.pick([...open])
          const [mean, variance, inputVariance] = [900, 90_000, 9_000].map((most) =>
            dice.below(most),
          )
          const more = { mean, variance, inputVariance } as Required<Growth>
          found.cost = growHold(found.cost, more, found.factors, found.hold)
          found.hold = growHold(found.hold, more)
          const args = [id, leaseMs, ...Object.values(more)]
          await redis.commands.renewHold(holdKeys, args)
        } else {
          const ended = [...open].filter((each) => each[1].gateway === gateway && dice.chance(0.6))
          const sums = own[gateway] as Ended
          for (const [id, { cost }] of ended) {
            open.delete(id)
            sums.requests += 1
            sums.tokens += 1 + dice.below(600)
            sums.cost = addExact(sums.cost ?? 0, dice.below(cost.most + 1))
          }
          const ids = ended.map(([id]) => id)
          await redis.write(`g${gateway}`, sums, ids)
        }
      }
      for (const gateway of [0, 1, 2]) {
        const ids = [...open].filter((each) => each[1].gateway === gateway).map(([id]) => id)
        await redis.write(`g${gateway}`, own[gateway] as Ended, ids)
      }
      if ((await valkey.client.exists(...holdKeys)) > 0) wrong.push({ seed: seed + i, left: true })
    }
    t.strictSame(wrong.slice(0, 3), [])
    t.comment(`${decisions} decisions`)
  })

  const expected: Expectation = {
    ...{ input: 10, inputVariance: 0, output: 20, outputVariance: 0, floor: 40, beyondRoom: 40 },
    ...{ isSeveral: false, least: 1, worst: 100 },
  }
  const limits: Limits = { tokens: 1_000, requests: 10, concurrency: 3 }
  const asked = { expected, limits }

  await t.test('after a loss what has ended still counts', async (t) => {
    for (const id of ['a', 'b', 'c']) t.equal((await redis.hold({ ...asked, id }))[0], 'held')
    await redis.write('g1', { tokens: 400, requests: 9 }, ['a', 'b'])
    await valkey.client.flushall()
    await redis.write('g1', { tokens: 400, requests: 9 }, [])
    t.equal((await redis.hold({ ...asked, id: 'd' }))[0], 'held')
    t.equal((await redis.hold({ ...asked, id: 'e' }))[0], 'spent', 'one that was open is forgotten')
  })

  await t.test('a request is seen once while its response is written', async (t) => {
    let [least, most] = [Number.POSITIVE_INFINITY, 0]
    await redis.hold({ ...asked, id: 'a' })
    const writing = redis.write('g1', { tokens: 30, requests: 1 }, ['a'])
    const looks = Array.from({ length: 50 }, () => redis.hold({ ...asked, id: '' }))
    for (const [, , , , , requests = 0] of await Promise.all(looks)) {
      least = Math.min(least, Number(requests))
      most = Math.max(most, Number(requests))
    }
    await writing
    t.strictSame([least, most], [1, 1])
    t.strictSame(await valkey.client.hlen(holdKeys[0] as string), 0)
  })

  await t.test('asked again, a request holds once', async (t) => {
    const first = await redis.hold({ ...asked, id: 'a', asker: 'one' })
    const again = await redis.hold({ ...asked, id: 'a', asker: 'other' })
    t.strictSame([first[0], again[0], again[1]], ['held', 'repeated', first[1]])
    t.equal(again[5], 1)
    await redis.commands.releaseHolds(holdKeys, ['a other'])
    await redis.commands.releaseHolds(holdKeys, ['a other', 'b other'])
    t.equal(await valkey.client.hlen(holdKeys[1] as string), 1, 'somebody else has asked for it')
    await redis.commands.releaseHolds(holdKeys, ['a one'])
    t.equal(await valkey.client.hlen(holdKeys[1] as string), 0)
    t.equal(await valkey.client.hlen(holdKeys[0] as string), 0)
  })

  await t.test(
    'what is known to be used counts in a server that has lost it, or not yet has it',
    async (t) => {
      const look = async (others: number, own: number) =>
        (await redis.hold({ ...asked, id: '', others, own }))[0]
      t.equal(await look(4, 5), 'held')
      t.equal(await look(5, 5), 'spent', 'of the requests')
      t.equal((await redis.hold({ ...asked, id: '', others: 3, own: 4 }))[3], 7, 'of the tokens')
      await redis.write('g1', { tokens: 400, requests: 6 }, [])
      await redis.write('g2', { tokens: 100, requests: 3 }, [])
      t.equal(await look(3, 6), 'held', 'it is no addition')
      t.equal(await look(0, 7), 'spent', 'one more of its own')
      t.equal(await look(4, 0), 'spent', "one more of others'")
    },
  )

  await t.test('what has ended holds nothing for who knows it, before it is written', async (t) => {
    for (const id of ['a', 'b']) await redis.hold({ ...asked, id })
    const known = { ...asked, own: 1, ended: ['a', 'x'] }
    const [outcome, , open, , held, requests, , places] = await redis.hold({ ...known, id: 'c' })
    t.strictSame([outcome, open, held, requests, places], ['held', 1, 60, 3, 2])
    const others = await redis.hold({ ...asked, id: '' })
    t.strictSame([others[0], others[5], others[7]], ['busy', 3, 3], 'and holds for others')
    await redis.write('g1', { tokens: 30, requests: 1 }, ['a'])
    const written = await redis.hold({ ...asked, id: '' })
    t.strictSame([written[3], written[4], written[5], written[7]], [30, 60, 3, 2])
    await redis.write('g1', { tokens: 90, requests: 3 }, ['b', 'c'])
    t.equal(await valkey.client.exists(...holdKeys), 0)
  })

  await t.test('a response that is known and another one that is written both count', async (t) => {
    for (const id of ['a', 'b']) await redis.hold({ ...asked, id })
    await redis.write('g1', { tokens: 300, requests: 1 }, ['b'])
    const known = { ...asked, id: '', own: 1, ended: ['a'] }
    t.equal((await redis.hold(known))[5], 2)
    const [, , , tokens, held] = await redis.hold({ ...known, own: 0 })
    t.strictSame([tokens, held], [300, 30], 'it holds until it counts')
  })

  await t.test('a hold that is to end for all has ended', async (t) => {
    for (const id of ['a', 'b']) await redis.hold({ ...asked, id })
    await redis.hold({ ...asked, id: '', own: 2, ended: ['a *', 'b'] })
    t.strictSame(await valkey.client.hkeys(holdKeys[1] as string), ['b'])
  })

  await t.test('an id that comes again holds anew', async (t) => {
    await redis.hold({ ...asked, id: 'a' })
    const [outcome, , , , , requests] = await redis.hold({
      ...asked,
      id: 'a',
      own: 1,
      ended: ['a'],
    })
    t.strictSame([outcome, requests], ['held', 2])
    t.equal((await redis.hold({ ...asked, id: '' }))[7], 1)
  })

  await t.test('alone, several answers without a ceiling must fit', async (t) => {
    const several = { ...expected, isSeveral: true, floor: 2_000, worst: Number.POSITIVE_INFINITY }
    const each = { ...asked, id: '', expected: several }
    t.equal((await redis.hold({ ...each, canLimitOutput: false }))[0], 'busy')
    t.equal((await redis.hold(each))[0], 'held', 'a ceiling bounds them')
    const one = { ...each, expected: { ...several, isSeveral: false } }
    t.equal((await redis.hold({ ...one, canLimitOutput: false }))[0], 'held', 'one is let through')
  })

  await t.test('what somebody else has put under a name counts for nothing', async (t) => {
    for (const total of ['x', `${'9'.repeat(15)}x`, '9'.repeat(400)]) {
      await valkey.client.hset(windowKeys.tokens, '+', total, 'g1', total)
      t.match(await redis.hold({ ...asked, id: '' }), { 0: 'held', 3: 0 }, total.slice(0, 20))
    }
    await valkey.client.set(windowKeys.requests, '9'.repeat(400))
    t.equal((await redis.hold({ ...asked, id: '' }))[0], 'held')
    for (const key of holdKeys) await valkey.client.set(key, 'text')
    t.equal((await redis.hold({ ...asked, id: 'a' }))[0], 'held')
    t.strictSame(await Promise.all(holdKeys.map((key) => valkey.client.type(key))), [
      ...['hash', 'hash', 'zset'],
    ])
  })

  await t.test('holds of which a part was evicted are lost, and none stays for good', async (t) => {
    for (const key of holdKeys) {
      for (const id of ['a', 'b']) await redis.hold({ ...asked, id })
      await valkey.client.del(key)
      const [outcome, , , , held, , , places] = await redis.hold({ ...asked, id: 'c' })
      t.strictSame([outcome, held, places], ['held', 30, 1], key)
      await redis.write('g1', { tokens: 0, requests: 0 }, ['a', 'b'])
      t.equal((await redis.hold({ ...asked, id: '' }))[7], 1, 'what is held now stays')
      await redis.write('g1', { tokens: 0, requests: 0 }, ['c'])
      t.equal(await valkey.client.exists(...holdKeys), 0)
    }
  })

  await t.test('what only asks holds nothing', async (t) => {
    t.equal((await redis.hold({ ...asked, id: '' }))[0], 'held')
    t.equal(await valkey.client.exists(...holdKeys), 0)
  })

  await t.test('a hold ends with its lease', async (t) => {
    for (const id of ['a', 'b', 'c']) await redis.hold({ ...asked, id, lease: 300 })
    await redis.commands.renewHold(holdKeys, ['c', leaseMs, 0, 0, 0])
    t.equal((await redis.hold({ ...asked, id: '' }))[0], 'busy')
    // One of them may end a little before the other.
    await poll(async () => (await redis.hold({ ...asked, id: '' }))[7] === 1, 'they end')
    const [outcome, , , , , , , open] = await redis.hold({ ...asked, id: '' })
    t.strictSame([outcome, open], ['held', 1], 'a running one goes on')
  })
})

interface OpenHold {
  readonly gateway: number
  hold: HeldAmount
  cost: HeldAmount
  readonly factors: Factors
}

function sumsOf(open: ReadonlyMap<string, OpenHold>, part: 'hold' | 'cost') {
  return [...open.values()].reduce((sums, each) => withHold(sums, each[part], 1), noHolds)
}

function sumOf(own: readonly Ended[]): Ended {
  return own.reduce((sum, each) => ({
    tokens: sum.tokens + each.tokens,
    requests: sum.requests + each.requests,
    cost: addExact(sum.cost ?? 0, each.cost ?? 0),
  }))
}
