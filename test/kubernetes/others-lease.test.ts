import { type Test, test } from 'tap'
import { createClient } from '../../src/kubernetes/client.ts'
import { followOthersLease, type OthersLease } from '../../src/kubernetes/others-lease.ts'
import { startDouble, type World } from '../support/kubernetes/world.ts'
import { poll } from '../support/poll.ts'

const name = 'their-controller'

/** Of 15 seconds, as their controller renews it. */
function lease(renewals: number, namespace = 'theirs') {
  return {
    apiVersion: 'coordination.k8s.io/v1',
    kind: 'Lease',
    metadata: { name, namespace },
    spec: {
      holderIdentity: 'them',
      leaseDurationSeconds: 15,
      // Their clock is not ours.
      renewTime: '2020-01-01T00:00:00.000000Z',
      leaseTransitions: renewals,
    },
  }
}

interface Followed extends OthersLease {
  /** Of a clock of its own, which only this moves. */
  pass(seconds: number): Promise<void>
  readonly told: string[]
}

/** Looks all the time. */
function follow(t: Test, { access, faults }: World): Followed {
  const closing = new AbortController()
  t.teardown(() => closing.abort())
  const told: string[] = []
  let now = 1_000_000
  const followed = followOthersLease({
    client: createClient(access),
    name,
    onChange: (alive) => told.push(alive ? `${alive.lease} of ${alive.holder}` : 'none'),
    onProblem: (problem) => told.push(problem ?? 'read again'),
    signal: closing.signal,
    everyMs: 10,
    monotonic: () => now,
  })
  const looks = () => faults?.requests.length ?? 0
  return Object.defineProperties(followed, {
    told: { value: told },
    pass: {
      async value(seconds: number) {
        now += 1_000 * seconds
        const before = looks()
        await poll(() => looks() >= before + 3, 'it has looked twice since')
      },
    },
  }) as Followed
}

test('a Lease that is renewed is alive, whatever its times say', async (t) => {
  const world = await startDouble(t)
  await world.apply(lease(0))
  const followed = follow(t, world)
  for (let i = 1; i < 5; i += 1) {
    await followed.pass(14)
    t.notOk(followed.isStale)
    await world.apply(lease(i))
    await followed.pass(0)
  }
  await followed.pass(14)
  t.notOk(followed.isStale)
  await followed.pass(1)
  t.ok(followed.isStale, 'it stood still for all of its duration')
  await world.apply(lease(5))
  await followed.pass(0)
  t.notOk(followed.isStale, 'and is renewed again')
  t.strictSame(followed.told, [`theirs/${name} of them`, 'none', `theirs/${name} of them`])
})

test('without a Lease nobody is alive', async (t) => {
  const world = await startDouble(t)
  await world.apply({ ...lease(0), metadata: { name: 'another', namespace: 'theirs' } })
  const followed = follow(t, world)
  t.notOk(followed.isStale, 'which is not known before the first look')
  await followed.pass(0)
  t.ok(followed.isStale)
  t.strictSame(followed.told, ['none'])
})

test('one that is renewed anywhere is enough', async (t) => {
  const world = await startDouble(t)
  await world.apply(lease(0, 'a'))
  await world.apply(lease(0, 'b'))
  const followed = follow(t, world)
  await followed.pass(0)
  await followed.pass(10)
  await world.apply(lease(1, 'b'))
  await followed.pass(10)
  t.notOk(followed.isStale)
  t.strictSame(followed.told, [`a/${name} of them`, `b/${name} of them`])
})

test('one that is deleted counts until it would have ended', async (t) => {
  const world = await startDouble(t)
  await world.apply(lease(0))
  const followed = follow(t, world)
  await followed.pass(0)
  await world.remove(lease(0))
  await followed.pass(14)
  t.notOk(followed.isStale)
  await followed.pass(1)
  t.ok(followed.isStale)
})

test('what cannot be read is not known, and told once', async (t) => {
  const world = await startDouble(t)
  const followed = follow(t, world)
  await followed.pass(0)
  t.ok(followed.isStale)
  world.faults.status = 403
  await followed.pass(0)
  t.ok(followed.isStale, 'for a moment what was found last holds')
  await followed.pass(1)
  t.notOk(followed.isStale)
  world.faults.status = 0
  await followed.pass(0)
  t.ok(followed.isStale)
  t.match(followed.told, ['none', /403/, 'none', 'read again'])
  t.equal(followed.told.length, 4)
})
