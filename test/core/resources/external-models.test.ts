import { test } from 'tap'
import { compile } from '../../../src/core/resources/compile.ts'
import { joinExternalModels } from '../../../src/core/resources/external-models.ts'
import { modelRef, resourceOf } from '../../support/documents.ts'

const external = (name: string, spec: object = {}, metadata: object = {}) =>
  resourceOf({
    apiVersion: 'maas.opendatahub.io/v1alpha1',
    kind: 'ExternalModel',
    metadata: { name, namespace: 'llm', ...metadata },
    spec: {
      provider: 'openai',
      targetModel: 'gpt-4o',
      endpoint: 'api.example.com',
      credentialRef: { name: 'provider-key' },
      ...spec,
    },
  })
const ref = (name: string, of: string, spec: object = {}) =>
  resourceOf(
    modelRef(name, {
      modelRef: { kind: 'ExternalModel', name: of },
      backendUrl: undefined,
      ...spec,
    }),
  )
const modelsOf = (...resources: Parameters<typeof joinExternalModels>[0]) =>
  compile(joinExternalModels(resources)).models

test('an ExternalModel is the server of the ModelRefs that name it', async (t) => {
  const models = modelsOf(ref('chat', 'gpt'), ref('gpt', 'gpt'), external('gpt'))
  t.strictSame([...models.keys()].sort(), ['llm/chat', 'llm/gpt'])
  for (const { resource, phase } of models.values()) {
    t.equal(phase, 'Ready')
    t.equal(resource.backendUrl, 'https://api.example.com')
    t.equal(resource.server.upstreamModel, 'gpt-4o')
    t.strictSame(resource.server.credential, {
      header: 'authorization',
      prefix: 'Bearer ',
      file: 'provider-key',
      secretRef: { name: 'provider-key', key: 'api-key' },
    })
  }
})

test('without a ModelRef of its name it is a model itself', async (t) => {
  const model = modelsOf(external('gpt')).get('llm/gpt')
  t.equal(model?.resource.backend.kind, 'ExternalModel')
  t.equal(model?.phase, 'Ready')
})

test('the backendUrl of a ModelRef takes precedence', async (t) => {
  const own = ref('chat', 'gpt', { backendUrl: 'http://own.example' })
  t.equal(modelsOf(own, external('gpt')).get('llm/chat')?.resource.backendUrl, 'http://own.example')
})

test('a missing ExternalModel, one of another namespace or one being deleted serves nothing', async (t) => {
  t.equal(modelsOf(ref('chat', 'gpt')).get('llm/chat')?.phase, 'Pending')
  const elsewhere = external('gpt', {}, { namespace: 'other' })
  t.equal(modelsOf(ref('chat', 'gpt'), elsewhere).get('llm/chat')?.phase, 'Pending')
  const going = external('gpt', {}, { deletionTimestamp: '2026-01-01T00:00:00Z' })
  t.equal(modelsOf(ref('chat', 'gpt'), going).get('llm/chat')?.phase, 'Pending')
  t.notOk(modelsOf(going).has('llm/gpt'))
})

test('joining the same objects again returns the same object', async (t) => {
  const resources = [ref('chat', 'gpt'), external('gpt'), external('alone')]
  t.strictSame(joinExternalModels(resources), joinExternalModels(resources))
  const [first, second] = [joinExternalModels(resources), joinExternalModels(resources)]
  for (const [index, each] of first.entries()) t.equal(each, second[index])
})

test('providers have their own headers', async (t) => {
  const header = (provider: string) => {
    const resource = external('gpt', { provider })
    return resource.kind === 'ExternalModel' ? resource.server.credential : undefined
  }
  t.match(header('anthropic'), { header: 'x-api-key', prefix: '' })
  t.match(header('azure'), { header: 'api-key', prefix: '' })
  t.match(header('constructor'), { header: 'authorization', prefix: 'Bearer ' })
})

test('an invalid server is refused', async (t) => {
  for (const spec of [
    { endpoint: 'http://api.example.com' },
    { endpoint: 'localhost' },
    { endpoint: 'api.example.com:99999' },
    { endpoint: 'user@api.example.com' },
    { endpoint: 'api.example.com/v1' },
    { credentialRef: { name: '../key' } },
    { credentialRef: undefined },
    { targetModel: 'a"b' },
    { provider: undefined },
  ]) {
    t.throws(() => external('gpt', spec), JSON.stringify(spec))
  }
})
