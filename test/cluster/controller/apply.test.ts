import { test } from 'tap'
import {
  applyStatus,
  removeFinalizers,
  replaceStatus,
} from '../../../src/cluster/controller/apply.ts'
import type { KubeRequest } from '../../../src/kubernetes/client.ts'
import type { KubeObject } from '../../../src/kubernetes/list.ts'
import { inWorlds } from '../../support/kubernetes/world.ts'

const path = '/apis/group/v1/namespaces/a/kinds/b'
const group = 'maas.opendatahub.io'
const deletionTimestamp = '2026-01-01T00:00:00Z'

function object(metadata: object, status?: object) {
  return { metadata: { name: 'b', namespace: 'a', resourceVersion: '7', ...metadata }, status }
}

test('removes a field of a status whoever has written it', async (t) => {
  const place = { path, apiVersion: 'tollgate.dev/v1alpha1', kind: 'ModelRef' }
  const status = { phase: 'Pending', observedGeneration: 1, conditions: [], endpoint: undefined }
  const stale = { ...status, endpoint: 'https://old', theirs: 1 }
  const request = applyStatus(place, object({}, stale), status)
  t.match(request, { contentType: 'application/merge-patch+json' })
  t.strictSame(request?.body, { status: { ...status, endpoint: null } })
  const { endpoint, ...rest } = stale
  t.equal(applyStatus(place, object({}, rest), status), undefined, 'the others stay')
})

test('replaces a changed status as a whole', async (t) => {
  const status = { phase: 'Ready', conditions: [{ type: 'Ready', status: 'True' }] }
  t.match(replaceStatus(path, object({}), status), {
    method: 'PATCH',
    path: `${path}/status?fieldManager=tollgate-controller`,
    contentType: 'application/merge-patch+json',
    body: { metadata: { resourceVersion: '7' }, status },
  })
  const theirs = { ...status, phase: 'Pending', endpoint: 'https://old' }
  t.strictSame(replaceStatus(path, object({}, theirs), status)?.body?.status, {
    endpoint: null,
    ...status,
  })
  t.equal(replaceStatus(path, object({}, { ...status }), status), undefined)
})

test('removes the finalizers of the group and keeps others', async (t) => {
  const finalizers = [`${group}/model-cleanup`, 'foregroundDeletion', 'example.com/mine']
  const going = object({ deletionTimestamp, finalizers })
  t.match(removeFinalizers(path, group, going), {
    method: 'PATCH',
    path: `${path}?fieldManager=tollgate-controller`,
    contentType: 'application/merge-patch+json',
  })
  t.strictSame(removeFinalizers(path, group, going)?.body, {
    metadata: { resourceVersion: '7', finalizers: ['foregroundDeletion', 'example.com/mine'] },
  })
  t.equal(
    removeFinalizers(path, group, object({ finalizers })),
    undefined,
    'the object is not being deleted',
  )
  for (const others of [undefined, [], ['maas.opendatahub.io.example/x'], [group], 'text']) {
    const left = object({ deletionTimestamp, finalizers: others }) as typeof going
    t.equal(removeFinalizers(path, group, left), undefined, `${others}`)
  }
})

inWorlds(
  'does not overwrite a concurrent change of finalizers',
  async (t, { client, apply, remove }) => {
    const document = {
      ...{ apiVersion: `${group}/v1alpha1`, kind: 'MaaSModelRef', spec: {} },
      metadata: { name: 'small', namespace: 'llm', finalizers: ['example.com/mine', `${group}/x`] },
    }
    const path = `/apis/${group}/v1alpha1/namespaces/llm/maasmodelrefs/small`
    const read = async () => (await client.send({ path })) as unknown as KubeObject
    await apply(document)
    await remove(document)
    const before = removeFinalizers(path, group, await read())
    await client.send({
      method: 'PATCH',
      path,
      contentType: 'application/merge-patch+json',
      body: { metadata: { finalizers: [`${group}/x`] } },
    })
    await t.rejects(client.send(before as KubeRequest), { message: /^the API server answered 409/ })
    const now = await read()
    t.strictSame(now.metadata.finalizers, [`${group}/x`])
    await client.send(removeFinalizers(path, group, now) as KubeRequest)
    await t.rejects(read(), { message: /^the API server answered 404/ }, 'the object is deleted')
  },
)
