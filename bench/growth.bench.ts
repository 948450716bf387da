/**
 * The cost of a Check with large numbers of keys or other objects, compared with the baseline, and the point at which
 * memory stops growing while keys, users and models come and go: `node bench/growth.bench.ts`, a minute or two.
 * Arguments: keys, and requests of the second part.
 */

import { randomBytes } from 'node:crypto'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { type Check, type CheckDeps, createCheck } from '../src/extauthz/check.ts'
import { createLimitEnforcer } from '../src/extauthz/check-limits.ts'
import { createAuthenticator, createKeyVerifier } from '../src/identity/authenticate.ts'
import { createCachedApiKeys } from '../src/keys/cached-api-keys.ts'
import { keyIdBytes, keySecretBytes, mintKey } from '../src/keys/rules/api-key.ts'
import type { ApiKeyTable, FoundKey } from '../src/keys/store.ts'
import type { Snapshot } from '../src/models/rules/snapshot.ts'
import { pathRules } from '../src/operations/operations.ts'
import type { CounterStore } from '../src/ratelimit/counters.ts'
import { createWindowSums } from '../src/ratelimit/rules/sums.ts'
import { knownUse } from '../src/ratelimit/rules/tally.ts'
import { lineUses } from '../src/usage/rules/line-charges.ts'
import { createTestCounters } from '../test/support/counters.ts'
import { alwaysFresh } from '../test/support/key-table.ts'
import { createWarmCheck, type ServedLoad, serveCheck, toCheckRequest } from './check.bench.ts'
import { createBenchTelemetry, createSnapshot } from './fixture.ts'
import { type Figure, median, microsInTurn } from './measure.ts'

const manyKeys = Number(process.argv[2] ?? 1_000_000)
const requests = Number(process.argv[3] ?? 1_000_000)
/** The number of keys in use, of all keys; as many as in check.bench.ts. */
const used = 1_024
const baseline: Shape = { keys: used, models: 100, subscriptions: 16, owned: 1, headers: 3 }

/** The numbers of a gateway. */
interface Shape {
  readonly keys: number
  readonly models: number
  readonly subscriptions: number
  /** Subscriptions of each user. */
  readonly owned: number
  readonly headers: number
}

interface World {
  readonly check: Check
  readonly messages: readonly Buffer[]
}

/** A Check with these numbers; the keys in use are anywhere among those in the cache. */
async function createWorld({ keys, models, subscriptions, owned, headers }: Shape): Promise<World> {
  const team = (i: number): string => `team-${i % subscriptions}`
  const covered = coveredOf(models, subscriptions)
  const snapshot = createSnapshot(models, subscriptions, { covered })
  const minted = Array.from({ length: used }, () =>
    mintKey('tg', randomBytes(keyIdBytes), randomBytes(keySecretBytes)),
  )
  const every = Math.floor(keys / used)
  const records = Array.from({ length: keys }, (_, i): FoundKey => {
    const known = i % every === 0 ? minted[i / every] : undefined
    return {
      id: `${i}`,
      hash: known?.hash ?? randomBytes(32).toString('hex'),
      user: `user-${i}`,
      groups: ['everybody', ...Array.from({ length: owned }, (_, k) => team(i + k))],
      subscription: team(i),
      status: 'active',
      createdAt: 0,
      expiresAt: null,
    }
  })
  const table = { findLastUsed: async () => records } as Partial<ApiKeyTable> as ApiKeyTable
  // No key is read again meanwhile.
  const cache = createCachedApiKeys(table, {
    freshness: alwaysFresh,
    entries: keys,
    monotonic: () => 0,
  })
  await cache.warm(keys, Date.now())
  const check = createBenchCheck(snapshot, cache, createTestCounters())
  const more = Object.fromEntries(
    Array.from({ length: headers - 3 }, (_, i) => [`x-header-${i}`, 'some value of a header']),
  )
  const messages = minted.map(({ key }, i) =>
    toCheckRequest(modelPath(i * every, models, subscriptions), key, more),
  )
  for (const message of messages) if (!isAllowed(await check(message))) throw new Error('refused')
  return { check, messages }
}

/** Models that each subscription covers. */
function coveredOf(models: number, subscriptions: number): number {
  return Math.min(models, Math.ceil(20_000 / subscriptions))
}

/** The path of a model that the subscription of the i-th key covers. */
function modelPath(i: number, models: number, subscriptions: number): string {
  const covered = coveredOf(models, subscriptions)
  const of = ((i % subscriptions) * covered + (i % covered)) % models
  return `/llm/m${of}/v1/chat/completions`
}

function createBenchCheck(
  snapshot: Snapshot | (() => Snapshot),
  keys: Parameters<typeof createKeyVerifier>[0],
  counters: CounterStore,
  deps: Partial<CheckDeps> = {},
): Check {
  const markers = { own: 'tg', accepted: new Set<string>() }
  return createCheck({
    authenticate: createAuthenticator({ key: createKeyVerifier(keys, markers), token: () => null }),
    snapshot: typeof snapshot === 'function' ? snapshot : () => snapshot,
    limits: createLimitEnforcer({ counters }),
    paths: pathRules(),
    clock: Date.now,
    onFault: (error) => {
      throw error
    },
    ...deps,
  })
}

/** An allow begins with an empty Status. */
function isAllowed(answer: Buffer): boolean {
  return answer[0] === 0x0a && answer[1] === 0
}

/** Each case compared with the baseline, in alternating slices. */
export async function* benchGrowth(): AsyncGenerator<Figure> {
  const shapes: readonly (readonly [string, Partial<Shape>])[] = [
    [`${manyKeys.toLocaleString('en')} keys`, { keys: manyKeys }],
    ['10,000 subscriptions', { subscriptions: 10_000 }],
    ['100 subscriptions of each user', { subscriptions: 1_000, owned: 100 }],
    ['4,000 models', { models: 4_000 }],
    ['60 headers', { headers: 60 }],
  ]
  const plain = await createWorld(baseline)
  for (const [name, shape] of shapes) {
    const grown = await createWorld({ ...baseline, ...shape })
    const [before = 0, after = 0] = microsInTurn(
      [plain, grown].map(
        ({ check, messages }) =>
          (i: number) =>
            check(messages[i % used] as Buffer),
      ),
    )
    yield { name: `Check with ${name}, beside the baseline`, value: beside(before, after) }
  }
  yield await benchOpenStreams()
}

function beside(before: number, after: number): string {
  const percent = (after / before - 1) * 100
  const sign = percent < 0 ? '−' : '+'
  return `${before.toFixed(2)} / ${after.toFixed(2)} µs, ${sign}${Math.abs(percent).toFixed(0)} %`
}

async function benchOpenStreams(open = 1_000, pairs = 5, calls = 4_000): Promise<Figure> {
  const { check, messages } = await createWarmCheck(createTestCounters())
  const server = await serveCheck(check, messages)
  const loads: Record<'few' | 'many', ServedLoad[]> = { few: [], many: [] }
  for (let pair = 0; pair <= pairs; pair += 1) {
    const few = await server.run({ calls, atOnce: 64 })
    const many = await server.run({ calls, atOnce: 64, open })
    if (few.failures + many.failures > 0) throw new Error('a Check has failed')
    // The first pair is the warm-up.
    if (pair > 0) {
      loads.few.push(few)
      loads.many.push(many)
    }
  }
  await server.stop()
  const cost = (of: readonly ServedLoad[]) => median(of.map(({ microsPerCall }) => microsPerCall))
  const name = `Check over gRPC with ${open.toLocaleString('en')} streams open, beside none`
  return { name, value: beside(cost(loads.few), cost(loads.many)) }
}

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

const churn = { round: 1_000, owners: 50, models: 100, teams: 16, remembered: 10_000 }

/**
 * The heap after each tenth of the requests, which are spread over four days of simulated time. Of
 * each thousand, fifty use keys of fifty users that never come back; the models change with every
 * fifth thousand.
 */
export async function benchChurn(count = requests): Promise<readonly Figure[]> {
  const { round, owners, models, teams, remembered } = churn
  const rounds = count / round
  const msPerRound = (4 * 86_400_000) / rounds
  let now = Date.now()
  let first = 0
  let snapshot = createSnapshot(models, teams)
  const ownerOf = new Map<string, number>()
  const table = {
    findByHashes: async (hashes: readonly string[]) =>
      hashes.map((hash): FoundKey => {
        const owner = ownerOf.get(hash) ?? 0
        const team = `team-${owner % teams}`
        const [id, user, groups] = [`${owner}`, `user-${owner}`, ['everybody', team]]
        const life = { status: 'active', createdAt: 0, expiresAt: null } as const
        return { id, hash, user, groups, subscription: team, ...life }
      }),
  } as Partial<ApiKeyTable> as ApiKeyTable
  const sums = createWindowSums(new Map(), () => now)
  const counters: CounterStore = {
    read: (asked, at) =>
      asked.map((counter) => {
        const tally = sums.at(counter, at)
        return { used: knownUse(tally), resetsAt: tally.end }
      }),
  }
  const telemetry = createBenchTelemetry()
  const cache = createCachedApiKeys(table, { freshness: alwaysFresh, entries: remembered })
  const check = createBenchCheck(() => snapshot, cache, counters, {
    clock: () => now,
    onDecided: telemetry.onDecided,
  })

  async function ask(key: string, owner: number, i: number): Promise<void> {
    const model = first + (i % models)
    const answer = await check(toCheckRequest(`/llm/m${model}/v1/chat/completions`, key))
    if (!isAllowed(answer)) throw new Error(`request ${i} is refused`)
    const usage = {
      ...{ user: `user-${owner}`, subscription: `team-${owner % teams}`, model: `llm/m${model}` },
      ...{ status: 200, bytes: 100, reported: new Map([['total_tokens', 5]]) },
      response: { id: `${i}`, endedAt: Math.floor(now) },
    }
    const charge = { tokens: 5, unusable: false, estimated: 0 }
    const times = { state: 'ended', isMetered: true, startedAt: Math.floor(now) } as const
    for (const each of lineUses({ ...times, usage, charge }, snapshot)) sums.count(each, now)
    telemetry.onCounted(usage, { tokens: 5, estimated: 0 })
  }

  const heaps: number[] = []
  for (let r = 0; r < rounds; r += 1) {
    now += msPerRound
    sums.sweep(now)
    if (r % 5 === 0) {
      first = r
      snapshot = createSnapshot(models, teams, { first })
    }
    ownerOf.clear()
    const keys = Array.from({ length: owners }, (_, k) => {
      const minted = mintKey('tg', randomBytes(keyIdBytes), randomBytes(keySecretBytes))
      ownerOf.set(minted.hash, r * owners + k)
      return minted.key
    })
    for (let i = r * round; i < (r + 1) * round; i += owners) {
      await Promise.all(keys.map((key, k) => ask(key, r * owners + k, i + k)))
    }
    if ((r + 1) % (rounds / 10) === 0) {
      collect()
      heaps.push(process.memoryUsage().heapUsed / 1e6)
    }
  }
  await telemetry.stop()
  const sizes = [sums.all.size, cache.stats().entries]
  return [
    {
      name: `heap after each tenth of ${count.toLocaleString('en')} requests`,
      value: `${heaps.map((heap) => heap.toFixed(0)).join(' ')} MB`,
    },
    { name: '  windows and keys that are held then', value: sizes.join(', ') },
  ]
}

if (import.meta.main) {
  const print = ({ name, value }: Figure): void => console.log(`${name.padEnd(62)}  ${value}`)
  for (const figure of await benchChurn()) print(figure)
  for await (const figure of benchGrowth()) print(figure)
}
