import { join } from 'node:path'
import { test } from 'tap'
import { type FileContent, parseFileInSteps } from '../../../src/models/sources/documents.ts'
import { loadSnapshot } from '../../../src/models/sources/pipeline.ts'
import { packageRoot } from '../../../src/runtime/package-root.ts'
import { snapshotOf } from '../../support/documents.ts'

function readDocuments(file: string, text: string): FileContent {
  const steps = parseFileInSteps(file, { text, isUtf8: true })
  for (;;) {
    const step = steps.next()
    if (step.done) return step.value
  }
}

function mapping(data: string): string {
  return `apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: tier-to-group-mapping\ndata:\n${data}`
}

test('reads tiers as YAML in a string', async (t) => {
  const { resources, problems } = readDocuments(
    'tiers.yaml',
    mapping('  tiers: |\n    - name: free\n      groups: [a]\n  other: text\n'),
  )
  t.strictSame(problems, [])
  t.match(resources, [{ resource: { kind: 'ConfigMap', tiers: [{ name: 'free', level: 0 }] } }])
})

test('a malformed mapping is reported and not in force', async (t) => {
  for (const [data, line, message] of [
    ['  other: x\n', 5, /data\.tiers is required/],
    ['  tiers: |\n    - name: [\n', 6, /data\.tiers is not valid YAML/],
    ['  tiers: |\n    a: *nowhere\n', 6, /data\.tiers is not valid YAML/],
    ['  tiers:\n    - name: free\n', 6, /data\.tiers must be a text/],
    ['  tiers: ""\n', 6, /data\.tiers is required/],
    ['  tiers: |\n    - name: a\n    - name: a\n', 6, /data\.tiers\[1\]\.name "a" is there twice/],
  ] as const) {
    const { resources, problems } = readDocuments('tiers.yaml', mapping(data))
    t.strictSame(resources, [])
    t.match(problems, [{ line, severity: 'error', message }], data)
    t.match(problems[0]?.message, /^ConfigMap tier-to-group-mapping: /)
  }
})

test('ignores other ConfigMaps', async (t) => {
  const { resources, problems } = readDocuments(
    'any.yaml',
    'apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: other\ndata: 5\n',
  )
  t.strictSame([resources, problems], [[], []])
})

test('the sample mapping is the one in the contract', async (t) => {
  const { snapshot, problems } = await loadSnapshot(join(packageRoot, 'examples', 'resources'))
  t.strictSame(problems, [])
  t.same(
    snapshot.tiers?.map(({ name, level, groups }) => [name, level, [...groups].join()]),
    [
      ['free', 0, 'tier-free-users,system:authenticated'],
      ['premium', 1, 'tier-premium-users,premium-group'],
      ['enterprise', 2, 'tier-enterprise-users,enterprise-group,admin-group'],
    ],
  )
})

test('of several mappings the one of the administrators counts, else the oldest', async (t) => {
  const about = (namespace: string, hour: number) => ({
    ...{ apiVersion: 'v1', kind: 'ConfigMap', spec: {} },
    metadata: {
      ...{ name: 'tier-to-group-mapping', namespace },
      creationTimestamp: `2026-01-01T0${hour}:00:00Z`,
    },
    data: { tiers: [{ name: namespace, groups: [] }] },
  })
  const [tenants, original, ours] = [
    about('aaa', 3),
    about('opendatahub', 1),
    about('models-as-a-service', 5),
  ]
  const tierOf = (...documents: Parameters<typeof snapshotOf>) =>
    snapshotOf(...documents).tiers?.[0]?.name
  t.equal(tierOf(tenants, original), 'opendatahub')
  t.equal(tierOf(tenants, original, ours), 'models-as-a-service')
})
