import { test } from 'tap'
import { owningGroup, poolOfCaller } from '../../src/decide/access.ts'
import type { Subscription, WrittenTelemetry } from '../../src/kinds/resources.ts'
import { toUsageLabels } from '../../src/telemetry/usage-labels.ts'

const nothing: WrittenTelemetry = {
  enabled: undefined,
  captureOrganization: undefined,
  captureUser: undefined,
  captureGroup: undefined,
  captureModelUsage: undefined,
}

test('without the Tenant’s word users are captured', async (t) => {
  for (const naming of ['on', 'hash'] as const) {
    for (const written of [undefined, nothing]) {
      t.strictSame(toUsageLabels(written, naming), {
        enabled: true,
        user: naming,
        model: true,
        organization: false,
        group: false,
      })
    }
  }
})

test('what the Tenant says takes precedence', async (t) => {
  for (const [captureUser, naming, user] of [
    [true, 'hash', 'hash'],
    [true, 'on', 'on'],
    [false, 'on', 'off'],
    [false, 'hash', 'off'],
  ] as const) {
    t.equal(toUsageLabels({ ...nothing, captureUser }, naming).user, user)
  }
  t.match(toUsageLabels({ ...nothing, captureModelUsage: false, captureGroup: true }, 'on'), {
    model: false,
    group: true,
  })
  t.equal(toUsageLabels({ ...nothing, enabled: false }, 'on').enabled, false)
})

test('the owning group is the first that user and owner share', async (t) => {
  const owned = { owner: { users: ['ada'], groups: ['red', 'blue'] } } as unknown as Subscription
  t.equal(owningGroup(owned, ['blue', 'red']), 'red')
  t.equal(owningGroup(owned, ['blue', 'x']), 'blue')
  t.equal(owningGroup(owned, []), '', 'the user owns it by name')
  const both = { owner: { users: ['ada'], groups: ['red', 'users'] } } as unknown as Subscription
  t.equal(poolOfCaller(both, ['red', 'users']), 'red')
  t.equal(
    poolOfCaller(both, ['users']),
    poolOfCaller(both, []),
    'a group `users` is in the pool of that name',
  )
})
