import { test } from 'tap'
import { objectsAbout } from '../../../src/cluster/controller/status-objects.ts'
import { accessPolicy, modelRef, snapshotOf, subscription } from '../../support/documents.ts'

test('finds the objects about a model in both groups', async (t) => {
  const snapshot = snapshotOf(
    modelRef('small'),
    modelRef('large'),
    accessPolicy('open', ['llm/small'], { groups: ['a'] }),
    accessPolicy('other', ['llm/large'], { groups: ['a'] }),
    subscription('paid', { groups: ['a'] }, { 'llm/large': [[1, '1m']], 'llm/small': [[1, '1m']] }),
  )
  const ours = [
    'ModelRef/llm/small',
    'AccessPolicy/models-as-a-service/open',
    'Subscription/models-as-a-service/paid',
  ]
  t.strictSame(
    [...objectsAbout(new Set(['llm/small']), snapshot)].sort(),
    [...ours, ...ours.map((key) => `maas.opendatahub.io/${key}`)].sort(),
  )
  t.strictSame([...objectsAbout(new Set(), snapshot)], [])
})
