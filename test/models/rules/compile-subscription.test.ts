import { test } from 'tap'
import type { Resource } from '../../../src/kinds/resources.ts'
import type { Snapshot } from '../../../src/models/rules/snapshot.ts'
import { compile } from '../../support/compile.ts'
import { modelRef, resourceOf, subscription } from '../../support/documents.ts'

const models = ['small', 'large'].map((name) => resourceOf(modelRef(name)))
const rates = { 'llm/small': [[5, '1m']], 'llm/large': [[5, '1m']] } as const
const cost = { name: 'month', of: 'cost', limit: '5', window: 'month' }

/** A Subscription with this `spec`, of whose models the first has a price. */
function teamOf(spec: object = {}): Resource {
  const document = subscription('team', { users: ['ada'] }, rates)
  const [first, second] = document.spec.modelRefs as readonly object[]
  const modelRefs = [{ ...first, billingRate: { perToken: '0' } }, second]
  return resourceOf({ ...document, spec: { ...document.spec, modelRefs, ...spec } })
}

function tenantOf(spec: object): Resource {
  const metadata = { name: 'default-tenant' }
  return resourceOf({ apiVersion: 'tollgate.dev/v1alpha1', kind: 'Tenant', metadata, spec })
}

/** The models that the Subscription pays for, and its problems. */
function team(snapshot: Snapshot) {
  const { limits, problems, phase } = snapshot.subscriptions.get('team') ?? {}
  const messages = problems?.map(({ path, message }) => `${path.join('.')} ${message}`)
  return [[...(limits?.keys() ?? [])], messages, phase] as const
}

const both = ['llm/small', 'llm/large']

test('a limit of money closes what has no price, and that alone', async (t) => {
  const unpriced = (which: string) => [
    ['llm/small'],
    [
      `spec.modelRefs.1 needs a billingRate under the limit month${which} on cost, so the entry of llm/large is not in force`,
    ],
    'Degraded',
  ]
  t.strictSame(team(compile([...models, teamOf({ limits: [cost] })])), unpriced(''))
  const ofTenant = tenantOf({ limits: [cost] })
  t.strictSame(team(compile([...models, teamOf(), ofTenant])), unpriced(' of the Tenant'))
  const limited = ['small', 'large'].map((name) => resourceOf(modelRef(name, { limits: [cost] })))
  t.strictSame(team(compile([...limited, teamOf()])), unpriced(' of the ModelRef'))
  const others = [{ namespace: 'llm', name: 'small' }]
  for (const open of [
    { ...cost, enforce: false },
    { ...cost, models: others },
  ]) {
    t.strictSame(team(compile([...models, teamOf({ limits: [open] })])), [both, [], 'Active'])
  }
})

test('a Subscription without an organization is closed where organizations are limited', async (t) => {
  const ofEach = { ...cost, of: 'tokens', limit: 5, per: 'organization' }
  const small = [{ namespace: 'llm', name: 'small' }]
  const ofTenant = tenantOf({ limits: [{ ...ofEach, models: small }] })
  t.match(team(compile([...models, teamOf(), ofTenant])), [
    ['llm/large'],
    [
      /^spec\.modelRefs\.0 needs tokenMetadata\.organizationId, because the limit month of the Tenant/,
    ],
    'Degraded',
  ])
  const observed = tenantOf({ limits: [{ ...ofEach, models: small, enforce: false }] })
  t.match(
    team(compile([...models, teamOf(), observed])),
    [both, [/needs tokenMetadata.* per organization$/], 'Active'],
    'what refuses nothing',
  )
  const named = teamOf({ tokenMetadata: { organizationId: 'acme' } })
  t.strictSame(team(compile([...models, named, ofTenant])), [both, [], 'Active'])
})

test('a Tenant whose limits cannot be read closes all, until they can', async (t) => {
  const subscribed = teamOf()
  const open = compile([...models, subscribed])
  t.strictSame(team(open), [both, [], 'Active'])
  const unreadable = tenantOf({ limits: [{ ...cost, limit: 5 }] })
  const closed = compile([...models, subscribed, unreadable], open)
  t.match(team(closed), [[], [/the Tenant, whose limits cannot be read/, /llm\/large/], 'Failed'])
  const mended = tenantOf({ limits: [{ ...cost, of: 'tokens', limit: 5 }] })
  const again = compile([...models, subscribed, mended], closed)
  t.strictSame(team(again), [both, [], 'Active'])
  t.match(again.subscriptions.get('team')?.limits.get('llm/small'), [{}, { limitName: 'month' }])
  t.strictSame(
    compile([...models, subscribed], again)
      .subscriptions.get('team')
      ?.limits.get('llm/small')?.length,
    1,
  )
})

test('a limit on many models is compiled once', async (t) => {
  const limits = [{ name: 'all', limit: 5, window: 'day' }]
  const { limits: compiled } =
    compile([...models, teamOf({ limits })]).subscriptions.get('team') ?? {}
  const [one, other] = both.map((model) => compiled?.get(model)?.at(-1))
  t.equal(one?.limitName, 'all')
  t.equal(one, other)
})

test('limits of a model are those of all who pay for it', async (t) => {
  const subscribed = teamOf()
  const before = compile([...models, subscribed])
  const limits = [{ name: 'all', per: 'model', limit: 5, window: '1m' }]
  const limited = resourceOf(modelRef('small', { limits }))
  const after = compile([limited, ...models.slice(1), subscribed], before)
  const namesOn = (snapshot: Snapshot, model: string) =>
    snapshot.subscriptions
      .get('team')
      ?.limits.get(model)
      ?.map(({ limitName }) => limitName)
  t.strictSame(namesOn(after, 'llm/small'), [undefined, 'all'])
  t.strictSame(namesOn(after, 'llm/large'), [undefined])
  t.strictSame(namesOn(compile([...models, subscribed], after), 'llm/small'), [undefined])
})

test('a calendar is the Tenant’s where the Subscription says nothing', async (t) => {
  const tenant = tenantOf({
    calendar: { timeZone: 'Asia/Tokyo', monthStartsOn: 15, weekStartsOn: 'sunday' },
  })
  const limits = ['day', 'week', 'month'].map((window) => ({ name: window, limit: 5, window }))
  const windowsOf = (...resources: readonly Resource[]) =>
    compile([...models, ...resources])
      .subscriptions.get('team')
      ?.limits.get('llm/small')
      ?.slice(1)
      .map(({ windows }) => windows)
  const own = teamOf({ limits, calendar: { timeZone: 'Europe/Zurich', weekStartsOn: 'monday' } })
  t.match(windowsOf(own, tenant), [
    { every: 'day', zone: 'Europe/Zurich' },
    { every: 'week', zone: 'Europe/Zurich', startsOn: 1 },
    { every: 'month', zone: 'Europe/Zurich', startsOn: 15 },
  ])
  t.match(windowsOf(teamOf({ limits }), tenant), [{ zone: 'Asia/Tokyo' }, { startsOn: 0 }, {}])
  t.match(windowsOf(teamOf({ limits })), [
    { every: 'day', zone: 'UTC' },
    { every: 'week', startsOn: 1 },
    { every: 'month', startsOn: 1 },
  ])
})
