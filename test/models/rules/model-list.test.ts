import { test } from 'tap'
import {
  type FoundModel,
  mergeModels as mergeInSteps,
  modelEndpoint,
  readServedModels as readInSteps,
} from '../../../src/models/rules/model-list.ts'
import {
  modelRef,
  snapshotOf,
  subscription,
  type WrittenDocument,
} from '../../support/documents.ts'
import { toEnd } from '../../support/to-end.ts'

const readServedModels = (text: string) => toEnd(readInSteps(text))

const team = { groups: ['team-a'] }
const rate = [[1, '1m']] as const

const mergeModels = (found: readonly FoundModel[], isUsable = (_: string) => true) =>
  toEnd(mergeInSteps(found, { isUsable, sharedUrl: 'http://shared' }))

function find(
  document: WrittenDocument,
  endpoint: string,
  served: FoundModel['served'],
  by = 'basic',
): FoundModel {
  const { name, namespace } = document.metadata
  const key = `${namespace}/${name}`
  const snapshot = snapshotOf(document, subscription(by, team, { [key]: rate }))
  const model = snapshot.models.get(key)
  const owner = snapshot.subscriptions.get(by)
  if (model === undefined || owner === undefined) throw new Error(key)
  return { model, subscription: owner, endpoint, served }
}

test('invalid parts of a server’s list are ignored', async (t) => {
  const usable = (data: unknown) => readServedModels(JSON.stringify({ data })).map(({ id }) => id)
  for (const list of [{}, { data: {} }, { data: 'x' }, { data: null }]) {
    t.strictSame(readServedModels(JSON.stringify(list)), [], JSON.stringify(list))
  }
  for (const text of [
    '{',
    '{"data":[{"id":"a"}',
    '{"data":[{"id":"a}]}',
    '{"data":[{"id":nil}]}',
  ]) {
    t.throws(() => readServedModels(text), SyntaxError, text)
  }
  t.strictSame(usable([null, 1, 'a', [], {}, { id: null }, { id: 7 }, { id: ['a'] }]), [])
  t.strictSame(usable([{ id: '' }, { id: 'a\0' }, { id: 'a\nb' }, { id: '\ud800' }]), [])
  t.strictSame(usable([{ id: 'x'.repeat(513) }, { id: 'x'.repeat(512) }]), ['x'.repeat(512)])
  t.strictSame(
    usable([{ id: 'b' }, { id: 'a' }, { id: 'b' }, { id: '__proto__' }, { id: 'ü/7B' }]),
    ['b', 'a', '__proto__', 'ü/7B'],
  )
  t.equal(usable(Array.from({ length: 20_000 }, (_, id) => ({ id: `${id}` }))).length, 10_000)
})

test("llama.cpp's server is recognised by the owner of its models", async (t) => {
  for (const [owner, isLlamaCpp] of [
    ['llamacpp', true],
    ['vllm', undefined],
    [['llamacpp'], undefined],
  ]) {
    const [model] = readServedModels(JSON.stringify({ data: [{ id: 'm', owned_by: owner }] }))
    t.equal(model?.isLlamaCpp, isLlamaCpp)
  }
})

test('an invalid date is omitted', async (t) => {
  for (const [created, expected] of [
    [0, 0],
    [1_700_000_000, 1_700_000_000],
    [1_700_000_000.9, 1_700_000_000],
    [-1, undefined],
    [1e300, undefined],
    [Number.NaN, undefined],
    ['1700000000', undefined],
    [null, undefined],
    [undefined, undefined],
  ] as const) {
    t.strictSame(readServedModels(JSON.stringify({ data: [{ id: 'm', created }] })), [
      { id: 'm', created: expected },
    ])
  }
})

test('an id, URL and ModelRef make one entry, with all their subscriptions', async (t) => {
  const small = modelRef('small')
  const served = [{ id: 'm', created: 5 }]
  const merged = mergeModels([
    find(small, 'http://b', served, 'two'),
    find(small, 'http://b', served, 'one'),
    find(small, 'http://b', served, 'two'),
    find(small, 'http://a', served),
    find(modelRef('large'), 'http://b', served),
    find(modelRef('zero'), 'http://z', [{ id: 'a', created: 1 }]),
  ])
  t.same(
    merged.map(({ id, url, ownedBy, subscriptions }) => [
      id,
      url,
      ownedBy,
      subscriptions.map(({ name }) => name).join(),
    ]),
    [
      ['a', 'http://z', 'llm/zero', 'basic'],
      ['m', 'http://a', 'llm/small', 'basic'],
      ['m', 'http://b', 'llm/large', 'basic'],
      ['m', 'http://b', 'llm/small', 'one,two'],
    ],
  )
})

test('a model without a list is shown under the name of its ModelRef', async (t) => {
  const model = modelRef('small')
  model.metadata.creationTimestamp = '2026-01-01T00:00:00.9Z'
  const created = Date.UTC(2026, 0, 1) / 1_000
  t.match(mergeModels([find(model, '', undefined)]), [{ id: 'small', created }])
  t.match(mergeModels([find(model, '', [{ id: 'm', created: undefined }])]), [{ id: 'm', created }])
  t.match(mergeModels([find(modelRef('bare'), '', undefined)]), [{ id: 'bare', created: 0 }])
  t.strictSame(mergeModels([find(model, '', [])]), [])
})

test('modelIds filter the list of a shared server', async (t) => {
  const served = ['a', 'b', 'c'].map((id) => ({ id, created: 1 }))
  const shared = find(modelRef('small', { modelIds: ['b', 'd'] }), 'http://a', served)
  t.same(
    mergeModels([shared]).map(({ id }) => id),
    ['b'],
  )
})

test('names that a body may not use become one that it may', async (t) => {
  const served = ['a', 'b', 'c'].map((id) => ({ id, created: 1 }))
  const merged = mergeModels([find(modelRef('small'), 'http://a', served)], (id) => id === 'b')
  t.same(
    merged.map(({ id, url }) => `${id} at ${url}`),
    ['b at http://a', 'publishers/llm/models/small at http://shared'],
  )
})

test('the URL is the endpointOverride or the path at the gateway', async (t) => {
  for (const [spec, expected] of [
    [{}, 'http://gate/llm/small'],
    [{ endpointOverride: 'https://x.example/y//' }, 'https://x.example/y'],
    [{ endpointOverride: 'https://x.example', backendUrl: undefined }, 'https://x.example'],
    [{ backendUrl: undefined }, undefined],
  ] as const) {
    const { model } = find(modelRef('small', spec), '', undefined)
    t.equal(modelEndpoint(model, 'http://gate'), expected)
  }
})

test('each name of many is looked up in a step of its own', async (t) => {
  const served = Array.from({ length: 500 }, (_, i) => ({ id: `m-${i}`, created: undefined }))
  const found = ['a', 'b'].map((name) => find(modelRef(name), '', served))
  let looked = 0
  let inOneStep = 0
  const isUsable = () => {
    looked += 1
    return true
  }
  const merged = toEnd(mergeInSteps(found, { isUsable, sharedUrl: '' }), () => {
    inOneStep = Math.max(inOneStep, looked)
    looked = 0
  })
  t.equal(merged.length, 1_000)
  t.equal(inOneStep, 1)
})
