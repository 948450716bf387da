/** Random resources with limits by name, decided as the service does and by a referee that knows only definitions. */

import { test } from 'tap'
import type { AccessRequest } from '../../src/decide/access-request.ts'
import { authorize } from '../../src/decide/decide.ts'
import type { Grant } from '../../src/decide/decision.ts'
import { enforceLimits } from '../../src/decide/steps/limits.ts'
import { addExact, type ExactInt } from '../../src/formats/exact.ts'
import type { KeyCaller } from '../../src/identity/rules/caller.ts'
import { parseJournalLine } from '../../src/journal/journal-line.ts'
import { compileCaps } from '../../src/keys/rules/compiled-caps.ts'
import type { KeyCaps } from '../../src/keys/rules/key-caps.ts'
import { pathRules } from '../../src/operations/operations.ts'
import { parseTarget } from '../../src/operations/request-target.ts'
import type { Counter } from '../../src/ratelimit/rules/counter.ts'
import { counterOf } from '../../src/ratelimit/rules/counter-cache.ts'
import { windowAt } from '../../src/ratelimit/rules/windows.ts'
import { lineUses } from '../../src/usage/rules/line-charges.ts'
import { formatSubject } from '../../src/usage/rules/line-head.ts'
import { accessPolicy, modelRef, snapshotOf, type WrittenDocument } from '../support/documents.ts'
import { writeLineHead } from '../support/line-head.ts'
import { createRandom, type Random } from '../support/random.ts'

const worlds = Number(process.env.WORLDS ?? 60)
const requestsOfWorld = 25
const start = Date.UTC(2026, 1, 27, 20)
const rules = pathRules(['chat', 'messages'])
const zones = ['UTC', 'Europe/Zurich', 'America/Havana', 'Australia/Lord_Howe']
const models = ['small', 'large']
const people = [
  { user: 'ada', groups: ['red', 'blue'] },
  { user: 'bob', groups: ['blue'] },
  { user: 'eve', groups: [] },
] as const

function pick<Value>(random: Random, values: readonly Value[]): Value {
  return values[random.below(values.length)] as Value
}

interface Limit {
  readonly name: string
  readonly per: string
  readonly of: string
  readonly limit: number | string
  readonly window: string
  readonly models?: readonly { namespace: string; name: string }[]
  readonly enforce?: boolean
}

interface World {
  readonly zone: string
  readonly ofTeam: readonly Limit[]
  readonly ofModel: Readonly<Record<string, readonly Limit[]>>
  readonly ofTenant: readonly Limit[]
  /** Of each person's key. */
  readonly ofKey: readonly Limit[]
  readonly prices: Readonly<Record<string, string>>
}

function limitOf(random: Random, i: number, per: readonly string[], isScoped: boolean): Limit {
  const of = pick(random, ['tokens', 'input', 'output', 'requests', 'cost'])
  return {
    name: `l${i}`,
    per: pick(random, per),
    of,
    limit:
      of === 'cost'
        ? `0.00${1 + random.below(900)}`
        : 1 + random.below(of === 'requests' ? 8 : 900),
    window: pick(random, ['1h', '6h', 'day', 'week', 'month']),
    ...(isScoped &&
      random.below(3) === 0 && { models: [{ namespace: 'llm', name: pick(random, models) }] }),
    ...(random.below(4) === 0 && { enforce: false }),
  }
}

function limitsOf(random: Random, per: readonly string[], isScoped = false): readonly Limit[] {
  return Array.from({ length: random.below(4) }, (_, i) => limitOf(random, i, per, isScoped))
}

function worldOf(random: Random): World {
  return {
    zone: pick(random, zones),
    ofTeam: limitsOf(random, ['user', 'group', 'subscription'], true),
    ofModel: { small: limitsOf(random, ['user', 'subscription', 'model']), large: [] },
    ofTenant: limitsOf(random, ['user', 'organization', 'installation'], true),
    ofKey: limitsOf(random, ['key'], true),
    prices: pick(random, [
      { perToken: '0.0000021' },
      { perInputToken: '0.000003', perOutputToken: '0.0000150001', perRequest: '0.0001' },
      { perToken: '1e-9', perCachedToken: '0' },
    ]),
  }
}

function compiled({ zone, ofTeam, ofModel, ofTenant, prices }: World) {
  const apiVersion = 'tollgate.dev/v1alpha1'
  const team: WrittenDocument = {
    ...{ apiVersion, kind: 'Subscription', metadata: { name: 'team' } },
    spec: {
      owner: { groups: [{ name: 'red' }, { name: 'blue' }], users: ['eve'] },
      modelRefs: models.map((name) => ({
        ...{ namespace: 'llm', name, billingRate: prices },
        tokenRateLimits: [{ limit: 1_000_000_000, window: '1h' }],
      })),
      ...{ tokenMetadata: { organizationId: 'acme' }, limits: ofTeam },
    },
  }
  const tenant: WrittenDocument = {
    ...{ apiVersion, kind: 'Tenant', metadata: { name: 'default-tenant' } },
    spec: { calendar: { timeZone: zone, weekStartsOn: 'wednesday' }, limits: ofTenant },
  }
  return snapshotOf(
    ...models.map((name) => modelRef(name, { limits: ofModel[name] })),
    accessPolicy('all', ['llm/small', 'llm/large'], { groups: ['red', 'blue'], users: ['eve'] }),
    team,
    tenant,
  )
}

/** The key of a person, with the limits that all keys of a world have. */
function keyOf({ ofKey }: World, person: (typeof people)[number]): KeyCaller {
  const key = { ...person, keyId: `k-${person.user}`, subscription: 'team' }
  const limits = ofKey.map(({ per: _, ...limit }) => limit) as NonNullable<KeyCaps['limits']>
  const caps = compileCaps({ ...key, id: key.keyId, caps: limits.length > 0 ? { limits } : {} })
  return { by: 'key', ...key, ...(caps && { caps }) }
}

/** What the referee remembers of a response. */
interface Used {
  readonly user: string
  readonly group: string
  readonly model: string
  readonly startedAt: number
  readonly endedAt: number
  readonly input: number
  readonly output: number
  readonly cost: bigint
}

/** Digits of a price behind the point, of which no test has more. */
const digits = 10

function units(price: string): bigint {
  const [whole = '', fraction = ''] = price === '1e-9' ? ['0', '000000001'] : price.split('.')
  return BigInt(whole + fraction.padEnd(digits, '0'))
}

function costOf(prices: Readonly<Record<string, string>>, input: number, output: number): bigint {
  const price = (name: string) => units(prices[name] ?? prices.perToken ?? '0')
  const request = units(prices.perRequest ?? '0')
  const sum =
    BigInt(input) * price('perInputToken') + BigInt(output) * price('perOutputToken') + request
  const each = 10n ** BigInt(digits - 9)
  return (sum + each - 1n) / each
}

/** To make one takes longer than all that it is asked for a request. */
const formats = new Map<string, Intl.DateTimeFormat>()

/** The local date, and how many days since a Wednesday. */
function localDate(zone: string, at: number): Date {
  const format = formats.get(zone) ?? new Intl.DateTimeFormat('sv-SE', { timeZone: zone })
  formats.set(zone, format)
  const date = format.format(at)
  return new Date(`${date}T00:00:00Z`)
}

function windowName(world: World, { window }: Limit, owner: string, at: number): string {
  if (/^\d/.test(window)) {
    const ms = Number(window.slice(0, -1)) * 3_600_000
    return windowAt({ key: '', owner, window: { ms } }, at).id
  }
  const day = localDate(world.zone, at)
  const date = day.toISOString().slice(0, 10)
  if (window === 'day') return date
  if (window === 'month') return date.slice(0, 7)
  const wednesday = 3
  const since = (day.getUTCDay() - wednesday + 7) % 7
  return new Date(day.getTime() - since * 86_400_000).toISOString().slice(0, 10)
}

function whomOf({ per }: Limit, { user, group }: Pick<Used, 'user' | 'group'>): string {
  return per === 'user' || per === 'key' ? user : per === 'group' ? group : ''
}

/** Which limits are used up, by their resource and name. */
function refereed(world: World, used: readonly Used[], asked: Used, owners: Map<string, string>) {
  const places = [
    ['team', world.ofTeam],
    [`ModelRef/llm/${asked.model}`, world.ofModel[asked.model] ?? []],
    ['Tenant', world.ofTenant],
    ['key', world.ofKey],
  ] as const
  return places.flatMap(([resource, limits]) =>
    limits
      .filter(
        ({ enforce, models: only }) =>
          enforce !== false && (only?.[0]?.name ?? asked.model) === asked.model,
      )
      .filter((limit) => {
        const whom = whomOf(limit, asked)
        const owner = owners.get(`${resource} ${limit.name} ${whom}`) ?? ''
        const now = windowName(world, limit, owner, asked.startedAt)
        let sum = 0n
        for (const each of used) {
          const isOfModel = resource.startsWith('ModelRef') ? each.model === asked.model : true
          const isAbout = (limit.models?.[0]?.name ?? each.model) === each.model && isOfModel
          if (!isAbout || whomOf(limit, each) !== whom) continue
          const at = limit.of === 'requests' ? each.startedAt : each.endedAt
          if (windowName(world, limit, owner, at) !== now) continue
          const { input, output, cost } = each
          const tokens = { tokens: input + output, input, output, requests: 1 }
          sum += limit.of === 'cost' ? cost : BigInt(tokens[limit.of as keyof typeof tokens])
        }
        const most = limit.of === 'cost' ? units(`${limit.limit}`) / 10n : BigInt(limit.limit)
        return sum >= most
      })
      .map(({ name }) => `${resource} ${name}`),
  )
}

test('random worlds are decided as by a referee who only adds up', async (t) => {
  const random = createRandom(Number(process.env.SEED ?? 7))
  let refused = 0
  for (let n = 0; n < worlds; n += 1) {
    const world = worldOf(random)
    const snapshot = compiled(world)
    const callers = new Map(people.map((person) => [person, keyOf(world, person)]))
    const sums = new Map<string, ExactInt>()
    const used: Used[] = []
    /** Whose phase the windows of a limit have: not what is tested here. */
    const owners = new Map<string, string>()
    let at = start + random.below(86_400_000)
    for (let i = 0; i < requestsOfWorld; i += 1) {
      at += random.below(pick(random, [60_000, 3_600_000, 40 * 3_600_000]))
      const person = pick(random, people)
      const model = pick(random, models)
      const isMessage = random.below(2) === 0
      const operation = isMessage ? 'messages' : 'chat/completions'
      const caller = callers.get(person) as KeyCaller
      const request: AccessRequest = {
        ...{ caller, method: 'POST', bodyModel: undefined, requestedSubscription: undefined },
        target: parseTarget(`/llm/${model}/v1/${operation}`) as AccessRequest['target'],
      }
      const granted = authorize(request, snapshot, rules) as Grant
      const stateOf = (counter: Counter) => {
        const { id, end } = windowAt(counter, at)
        return { used: sums.get(id) ?? 0, resetsAt: end }
      }
      const counters = granted.limits.map((limit) => counterOf(limit, person.user, granted.pool))
      for (const [j, { origin, limitName, scope }] of granted.limits.entries()) {
        const { owner } = counters[j] as Counter
        const resource = {
          subscription: 'team',
          model: `ModelRef/llm/${model}`,
          tenant: 'Tenant',
          key: 'key',
        }
        const group = person.groups[0] ?? ''
        const whom =
          scope === 'user' || scope === 'key' ? person.user : scope === 'group' ? group : ''
        owners.set(`${resource[origin]} ${limitName} ${whom}`, owner)
      }
      const decision = enforceLimits(granted, counters.map(stateOf), at)
      const endedAt = at + random.below(7_200_000)
      const [input, output] = [random.below(200), random.below(200)]
      const asked: Used = {
        ...{ user: person.user, group: person.groups[0] ?? '', model, startedAt: at, endedAt },
        ...{ input, output, cost: costOf(world.prices, input, output) },
      }
      const reached = decision.states?.flatMap(({ remaining, limit }) => {
        const resource = {
          subscription: 'team',
          model: `ModelRef/llm/${model}`,
          tenant: 'Tenant',
          key: 'key',
        }
        return remaining === 0 ? `${resource[limit.origin]} ${limit.limitName}` : []
      })
      const expected = refereed(world, used, asked, owners)
      if (reached?.toSorted().join() !== expected.toSorted().join()) {
        t.fail(`world ${n}, request ${i}`, { world, asked, reached, expected })
        return
      }
      t.equal(decision.allowed, expected.length === 0)
      if (!decision.allowed) {
        refused += 1
        continue
      }
      used.push(asked)
      const subject = formatSubject({
        ...{ subscription: 'team', model: `llm/${model}`, payer: granted.payer },
        ...{ group: undefined, tariff: granted.tariff },
      })
      const check = writeLineHead(
        {
          ...{ startedAt: at, id: `r${n}-${i}`, by: 'check', user: person.user },
          ...{ keyCounters: undefined, pool: granted.pool, held: undefined, keyId: caller.keyId },
          keyLimits: granted.keyLimits?.charged,
        },
        subject,
      )
      const reported = isMessage
        ? { input_tokens: input, output_tokens: output }
        : { prompt_tokens: input, completion_tokens: output, total_tokens: input + output }
      const line = parseJournalLine(
        `{"v":1,"metered":true,"ms":${endedAt - at},"status":200,"bytes":9,"reported":${JSON.stringify(reported)},"check":${check}}`,
        'allow',
      )
      if (line === undefined) throw new Error('a line that cannot be read')
      for (const { counters: own, amount, at: when } of lineUses(line, snapshot)) {
        for (const counter of own) {
          const { id } = windowAt(counter, when)
          sums.set(id, addExact(sums.get(id) ?? 0, amount))
        }
      }
    }
  }
  t.ok(refused > worlds, `${refused} were refused`)
})
