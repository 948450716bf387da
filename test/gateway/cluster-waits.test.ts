import { test } from 'tap'
import { type ClustersVersion, createClusterWaits } from '../../src/gateway/cluster-waits.ts'

/** A version whose models have clusters of their own names. */
function versionOf(name: string, ...models: readonly string[]): ClustersVersion {
  const clusters = models.map((model) => {
    return [model, { cluster: model, text: model, digest: model, isNamed: false }] as const
  })
  return { name, clusters: new Map(clusters) }
}

/** The waits of these models from time 0 on, and what an Envoy shows that has loaded this version. */
function begin(version: ClustersVersion) {
  const waits = createClusterWaits()
  waits.plan(version)
  waits.begin(version, 0)
  return {
    waits,
    loaded: { version: 'older', warming: new Set<string>(), resolved: new Set<string>() },
  }
}

test('at the start an Envoy that answers has five seconds to load clusters, later ten', async (t) => {
  const { waits, loaded } = begin(versionOf('1', 'a'))
  t.match(waits.release(loaded, 4_999), { hasReleased: false })
  t.match(waits.release(loaded, 5_000), { hasReleased: true, overdue: ['a'], reason: 'not taken' })
  t.strictSame([...waits.unseen.keys()], ['a'])
  waits.settle()
  const next = versionOf('2', 'a', 'b')
  waits.plan(next)
  waits.begin(next, 10_000)
  t.match(waits.release(loaded, 19_999), { hasReleased: false })
  t.match(waits.release({ ...loaded, version: '1' }, 19_999), { hasSeen: true, hasReleased: false })
  t.match(waits.release(loaded, 20_000), { hasReleased: true, overdue: ['b'] })
})

test('the time to wait begins when the clusters are in the file', async (t) => {
  const { waits, loaded } = begin(versionOf('1', 'a'))
  waits.settle()
  waits.plan(versionOf('2', 'a', 'b'))
  t.match(waits.release({ ...loaded, version: '1' }, 100_000), { overdue: [] })
  t.strictSame([...waits.waiting.keys()], ['b'])
})
