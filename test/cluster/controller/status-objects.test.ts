import { test } from 'tap'
import {
  changedObjects,
  createStatusObjects,
  objectsAbout,
} from '../../../src/cluster/controller/status-objects.ts'
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

test('an object that was recreated has no status of the former one', async (t) => {
  const current = { metadata: { name: 'small', namespace: 'llm', uid: '2', generation: 1 } }
  const object = (uid: string) => ({
    ...({ group: 'tollgate.dev', resource: 'ModelRef/llm/small', path: '/small' } as const),
    ...{ apiVersion: 'tollgate.dev/v1alpha1', kind: 'ModelRef', uid, generation: 1 },
    ...{ isDeleting: false, problem: undefined, warning: undefined, current: () => current },
  })
  const objectsOf = (uid: string) => new Map([['ModelRef/llm/small', object(uid)]])
  const statusObjects = createStatusObjects({ clock: () => 0, mayWriteOriginal: () => false })
  const requests = (uid: string) => {
    const objects = objectsOf(uid)
    const policyConditions = () => []
    statusObjects.setDesired({
      ...{ snapshot: snapshotOf(modelRef('small')), objects, policyConditions, gatewayUrl: '' },
    })
    return [...statusObjects.targetsOf()].map(({ next }) => next(current) !== undefined)
  }
  t.strictSame(requests('1'), [false])
  t.strictSame(requests('2'), [true])
  t.strictSame([...changedObjects(objectsOf('1'), objectsOf('2'))], ['ModelRef/llm/small'])
})

test('an object of the original that other finalizers keep is not Ready', async (t) => {
  const theirs = 'example.com/backup'
  const deleting = (...finalizers: readonly string[]) => ({
    metadata: {
      ...{ name: 'small', namespace: 'llm', uid: '1', generation: 2, resourceVersion: '7' },
      ...{ deletionTimestamp: '2026-01-01T00:00:00Z', finalizers },
    },
    status: { phase: 'Ready' },
  })
  const group = 'maas.opendatahub.io'
  const object = {
    ...({ group, resource: 'ModelRef/llm/small', path: '/small' } as const),
    ...{ apiVersion: `${group}/v1alpha1`, kind: 'MaaSModelRef', uid: '1', generation: 2 },
    ...{ isDeleting: true, problem: undefined, warning: undefined, current: () => undefined },
  }
  const statusObjects = createStatusObjects({ clock: () => 0, mayWriteOriginal: () => true })
  statusObjects.setDesired({
    ...{ snapshot: snapshotOf(), objects: new Map([[`${group}/ModelRef/llm/small`, object]]) },
    ...{ policyConditions: () => [], gatewayUrl: '' },
  })
  const [target, ...others] = statusObjects.targetsOf()
  t.strictSame(others, [])
  t.match(target?.next(deleting(`${group}/model-cleanup`, theirs)), {
    path: /^.small[?]/,
    body: { metadata: { finalizers: [theirs] }, status: undefined },
  })
  t.match(target?.next(deleting(theirs)), {
    path: /^.small.status[?]/,
    body: { status: { phase: 'Failed', conditions: [{ message: /it is being deleted/ }] } },
  })
})
