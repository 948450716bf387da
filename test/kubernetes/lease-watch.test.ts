import { type Test, test } from 'tap'
import { createClient } from '../../src/kubernetes/client.ts'
import { followOthersLease, type OthersLease } from '../../src/kubernetes/lease-watch.ts'
import { startDouble, type World } from '../support/kubernetes/world.ts'
import { poll } from '../support/poll.ts'

const name = 'their-controller'

/** A Lease of 15 seconds; applying it with other `renewals` renews it. */
function lease(renewals: number, namespace = 'theirs') {
  return {
    apiVersion: 'coordination.k8s.io/v1',
    kind: 'Lease',
    metadata: { name, namespace },
    spec: {
      holderIdentity: 'them',
      leaseDurationSeconds: 15,
      // Their clock may differ from ours.
      renewTime: '2020-01-01T00:00:00.000000Z',
      leaseTransitions: renewals,
    },
  }
}

interface Followed extends OthersLease {
  /** Moves the clock, and waits until the Leases were read with the new time. */
  pass(seconds: number): Promise<void>
  readonly told: string[]
}

/** Reads the Leases continuously. */
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
  const polls = () => faults?.requests.length ?? 0
  return Object.defineProperties(followed, {
    told: { value: told },
    pass: {
      async value(seconds: number) {
        now += 1_000 * seconds
        const before = polls()
        await poll(() => polls() >= before + 3, 'two full reads since then')
      },
    },
  }) as Followed
}

test('a Lease that is renewed is alive, whatever its renewTime', async (t) => {
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
  t.ok(followed.isStale, 'not renewed for its whole duration')
  await world.apply(lease(5))
  await followed.pass(0)
  t.notOk(followed.isStale, 'renewed again')
  t.strictSame(followed.told, [`theirs/${name} of them`, 'none', `theirs/${name} of them`])
})

test('without a Lease no controller is alive', async (t) => {
  const world = await startDouble(t)
  await world.apply({ ...lease(0), metadata: { name: 'another', namespace: 'theirs' } })
  const followed = follow(t, world)
  t.notOk(followed.isStale, 'unknown before the first read')
  await followed.pass(0)
  t.ok(followed.isStale)
  t.strictSame(followed.told, ['none'])
})

test('one renewed Lease in any namespace is enough', async (t) => {
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

test('a deleted Lease counts until its duration has passed', async (t) => {
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

test('a Lease that cannot be read is unknown, and reported once', async (t) => {
  const world = await startDouble(t)
  const followed = follow(t, world)
  await followed.pass(0)
  t.ok(followed.isStale)
  world.faults.status = 403
  await followed.pass(0)
  t.ok(followed.isStale, 'the last result is still valid for a moment')
  await followed.pass(1)
  t.notOk(followed.isStale)
  world.faults.status = 0
  await followed.pass(0)
  t.ok(followed.isStale)
  t.match(followed.told, ['none', /403/, 'none', 'read again'])
  t.equal(followed.told.length, 4)
})
