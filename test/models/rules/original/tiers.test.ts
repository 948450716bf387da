import { test } from 'tap'
import type { Tier } from '../../../../src/kinds/resources.ts'
import { lookupTier } from '../../../../src/models/rules/original/tiers.ts'
import { parseResource } from '../../../../src/models/rules/reading/parse-resource.ts'
import { snapshotOf } from '../../../support/documents.ts'

function mapping(tiers: unknown, metadata: object = { name: 'tier-to-group-mapping' }) {
  return { apiVersion: 'v1', kind: 'ConfigMap', metadata, data: { tiers } }
}

function tier(name: string, level: number, ...groups: readonly string[]): Tier {
  return { name, displayName: name, description: '', level, groups: new Set(groups) }
}

test('a tier is read with its defaults', async (t) => {
  const { tiers } = snapshotOf(
    mapping([
      { name: 'free', displayName: 'Free', description: 'All', level: 2, groups: ['a', 'b'] },
      { name: 'bare' },
    ]),
  )
  t.strictSame(tiers, [
    { ...tier('free', 2, 'a', 'b'), displayName: 'Free', description: 'All' },
    tier('bare', 0),
  ])
})

test('problems of a mapping are reported', async (t) => {
  for (const [tiers, path, message] of [
    [undefined, 'data.tiers', /is required/],
    [null, 'data.tiers', /is required/],
    ['text', 'data.tiers', /must be a list/],
    [{}, 'data.tiers', /must be a list/],
    [['x'], 'data.tiers.0', /must be an object/],
    [[{}], 'data.tiers.0.name', /is required/],
    [[{ name: '' }], 'data.tiers.0.name', /must not be empty/],
    [[{ name: 'a' }, { name: 'a' }], 'data.tiers.1.name', /there twice/],
    [[{ name: 'a', displayName: ' ' }], 'data.tiers.0.displayName', /more than blanks/],
    [[{ name: 'a', displayName: '' }], 'data.tiers.0.displayName', /more than blanks/],
    [[{ name: 'a', level: '1' }], 'data.tiers.0.level', /whole number/],
    [[{ name: 'a', groups: 'b' }], 'data.tiers.0.groups', /must be a list/],
    [[{ name: 'a', groups: [1] }], 'data.tiers.0.groups.0', /must be a string/],
  ] as const) {
    const result = parseResource(mapping(tiers))
    t.ok('problems' in result, JSON.stringify(tiers))
    if (!('problems' in result)) continue
    const found = result.problems.map((problem) => [problem.path.join('.'), problem.message])
    t.ok(
      found.some(([at, said]) => at === path && message.test(said ?? '')),
      JSON.stringify(found),
    )
  }
})

test('other ConfigMaps are ignored without a note', async (t) => {
  t.strictSame(parseResource(mapping(undefined, { name: 'other' })), { ignored: undefined })
  t.strictSame(parseResource(mapping(undefined, {})), { ignored: undefined })
})

test('without a mapping there are no tiers', async (t) => {
  t.equal(snapshotOf().tiers, undefined)
  t.strictSame(snapshotOf(mapping([])).tiers, [])
})

test('the first of two mappings counts', async (t) => {
  const name = 'tier-to-group-mapping'
  const snapshot = snapshotOf(
    mapping([{ name: 'one' }], { name, namespace: 'a' }),
    mapping([{ name: 'two' }], { name, namespace: 'b' }),
  )
  t.match(snapshot.tiers, [{ name: 'one' }])
  t.match(snapshot.problems, [{ resource: `ConfigMap/b/${name}`, message: /first/ }])
})

test('the highest level wins, then the first tier', async (t) => {
  const tiers = [
    tier('low', -1, 'all', 'low'),
    tier('mid', 5, 'all', 'mid'),
    tier('twin', 5, 'all', 'twin'),
    tier('top', 9, 'top'),
  ]
  for (const [groups, expected] of [
    [['low'], 'low'],
    [['all'], 'mid'],
    [['twin'], 'twin'],
    [['twin', 'mid'], 'mid'],
    [['low', 'top', 'all'], 'top'],
    [['system:serviceaccounts:gate-tier-top', 'low'], 'top'],
    [['system:serviceaccounts:other-tier-top', 'low'], 'low'],
    [['system:serviceaccounts:gate-tier-'], undefined],
    [['ALL'], undefined],
    [[''], undefined],
    [[], undefined],
  ] as const) {
    t.equal(lookupTier(tiers, groups, 'gate')?.name, expected, groups.join())
  }
})
