import { test } from 'tap'
import { stringify } from 'yaml'
import { resourceStatuses } from '../../../../src/cluster/rules/conditions.ts'
import { formatPath } from '../../../../src/formats/fields.ts'
import { exportResources } from '../../../../src/models/rules/export-resources.ts'
import { joinExternalModels } from '../../../../src/models/rules/original/external-models.ts'
import { refuseAddresses } from '../../../../src/models/rules/refuse-addresses.ts'
import { loadDocuments } from '../../../../src/models/sources/pipeline.ts'
import { compile } from '../../../support/compile.ts'
import { accessPolicy, modelRef, original, resourceOf } from '../../../support/documents.ts'

const writtenExternal = (name: string, spec: object = {}, metadata: object = {}) => ({
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
const external = (...of: Parameters<typeof writtenExternal>) => resourceOf(writtenExternal(...of))
const inference = { apiVersion: 'inference.opendatahub.io/v1alpha1' }
const provider = (name: string, spec: object = {}, metadata: object = {}) =>
  resourceOf({
    ...{ ...inference, kind: 'ExternalProvider' },
    metadata: { name, namespace: 'llm', ...metadata },
    spec: {
      provider: 'openai',
      endpoint: `${name}.example.com`,
      auth: { secretRef: { name: `${name}-key` } },
      ...spec,
    },
  })
/** An ExternalModel `gpt` of the newer group. */
const provided = (
  refs: readonly { readonly ref: string; readonly [field: string]: unknown }[],
  spec: object = {},
) =>
  resourceOf({
    ...{ ...inference, kind: 'ExternalModel' },
    metadata: { name: 'gpt', namespace: 'llm' },
    spec: {
      externalProviderRefs: refs.map(({ ref, ...more }) => ({
        ...{ ref: { name: ref }, targetModel: 'gpt-4o', apiFormat: 'openai-chat' },
        ...more,
      })),
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

test('it does not replace a ModelRef of its name that is invalid or being deleted', async (t) => {
  const misspelt = { name: 'budget', pre: 'model', limit: 100, window: 'day' }
  const deletionTimestamp = '2026-01-01T00:00:00Z'
  for (const [spec, metadata] of [
    [{ limits: [misspelt] }, {}],
    [{ backendUrl: 'nowhere' }, {}],
    [{ modelIds: [''] }, {}],
    [{}, { deletionTimestamp }],
  ] as const) {
    const written = modelRef('gpt', {
      modelRef: { kind: 'ExternalModel', name: 'gpt' },
      backendUrl: undefined,
      ...spec,
    })
    const ref = original({ ...written, metadata: { ...written.metadata, ...metadata } })
    const open = original(accessPolicy('open', ['llm/gpt'], { users: ['ada'] }))
    const documents = [ref, writtenExternal('gpt'), open]
    const { snapshot } = await loadDocuments(documents.map((each) => stringify(each)).join('---\n'))
    t.notOk(snapshot.models.has('llm/gpt'), JSON.stringify(spec))
    const exported = exportResources(documents).documents
    t.strictSame(
      exported.map(({ kind }) => kind),
      ['AccessPolicy'],
    )
  }
})

test('the backendUrl of a ModelRef takes precedence', async (t) => {
  const own = ref('chat', 'gpt', { backendUrl: 'http://own.example' })
  t.equal(modelsOf(own, external('gpt')).get('llm/chat')?.resource.backendUrl, 'http://own.example')
})

test('a ModelRef keeps its own fields of the server, and what it lacks is from the ExternalModel', async (t) => {
  const own = {
    timeouts: { connect: '1s', idle: '2m', answer: '3s' },
    ...{ retries: 1, paths: 'all', caFile: 'ca.pem', upstreamModel: 'gpt-5' },
  }
  const { server } =
    modelsOf(ref('chat', 'gpt', own), external('gpt')).get('llm/chat')?.resource ?? {}
  t.match(server, {
    ...{ connectMs: 1_000, idleMs: 120_000, answerMs: 3_000, retries: 1, allPaths: true },
    ...{ caFile: 'ca.pem', upstreamModel: 'gpt-5', credential: { file: 'provider-key' } },
  })
  const credential = { secretRef: { name: 'mine', key: 'token' }, header: 'x-key', prefix: 'Key ' }
  const keyed = ref('chat', 'gpt', { credential })
  t.match(modelsOf(keyed, external('gpt')).get('llm/chat')?.resource.server, {
    ...{ upstreamModel: 'gpt-4o', retries: 2 },
    credential: { ...credential, header: 'x-key' },
  })
  const written = modelRef('chat', {
    ...{ modelRef: { kind: 'ExternalModel', name: 'gpt' }, backendUrl: undefined },
    ...{ ...own, credential },
  })
  const read = JSON.parse(JSON.stringify(original(written)))
  const [exported] = exportResources([read, writtenExternal('gpt')]).documents
  t.match(exported?.spec, { ...own, credential, backendUrl: 'https://api.example.com' })
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

/** The model `llm/gpt` and what is reported. */
function served(...resources: Parameters<typeof joinExternalModels>[0]) {
  const problems: string[] = []
  const joined = joinExternalModels(resources, ({ resource, path, message }) =>
    problems.push(`${resource} ${formatPath(path)} ${message}`),
  )
  const model = compile(joined).models.get('llm/gpt')
  return { resource: model?.resource, phase: model?.phase, problems, joined }
}

test('one of the newer group has the address, model and key of its provider', async (t) => {
  const { resource, phase, problems } = served(provided([{ ref: 'a' }]), provider('a'))
  t.equal(phase, 'Ready')
  t.equal(resource?.backendUrl, 'https://a.example.com')
  t.strictSame(resource?.modelIds, [])
  t.match(resource?.server, {
    upstreamModel: 'gpt-4o',
    credential: {
      header: 'authorization',
      secretRef: { name: 'a-key', key: 'api-key' },
    },
  })
  t.strictSame(problems, [])
})

test('its path gives the base of the address, and its format the header of the key', async (t) => {
  const messages = { apiFormat: 'messages', path: '/api/claude/v1/messages' }
  const own = { auth: { type: 'apikey', secretRef: { name: 'own-key' } } }
  const { resource } = served(provided([{ ref: 'a', ...messages, ...own }]), provider('a'))
  t.equal(resource?.backendUrl, 'https://a.example.com/api/claude')
  t.match(resource?.server.credential, {
    ...{ header: 'x-api-key', prefix: '' },
    secretRef: { name: 'own-key' },
  })
})

test('its modelName is a further name of the models that name it', async (t) => {
  const gpt = provided([{ ref: 'a' }], { modelName: 'gpt-4o-mini' })
  const { joined } = served(ref('chat', 'gpt', { modelIds: ['c'] }), gpt, provider('a'))
  const [chat] = joined
  t.strictSame(chat?.kind === 'ModelRef' && chat.modelIds, ['c', 'gpt-4o-mini'])
})

test('it takes precedence over one of the older group, in any order', async (t) => {
  const [newer, older] = [provided([{ ref: 'a' }]), external('gpt')]
  for (const both of [
    [newer, older],
    [older, newer],
  ]) {
    const { resource, joined } = served(...both, provider('a'))
    t.equal(resource?.backendUrl, 'https://a.example.com')
    t.equal(joined.length, 1)
  }
})

test('of several providers the heaviest that can be served gets all requests', async (t) => {
  const all = [provider('a'), provider('b'), provider('c'), provider('d')]
  const weighted = provided([
    { ref: 'a', weight: 20 },
    { ref: 'b', weight: 90, apiFormat: 'gemini' },
    { ref: 'c', weight: 80 },
    { ref: 'd', weight: 0 },
  ])
  const { resource, problems } = served(weighted, ...all)
  t.equal(resource?.backendUrl, 'https://c.example.com')
  const at = 'ExternalModel.inference.opendatahub.io/llm/gpt spec.externalProviderRefs'
  t.strictSame(problems, [
    `${at}[0] gets no share of the requests: all traffic is routed to c`,
    `${at}[1] has the apiFormat gemini, which cannot be served: all traffic is routed to c`,
  ])
  const even = served(provided([{ ref: 'b' }, { ref: 'a' }]), ...all)
  t.equal(even.resource?.backendUrl, 'https://b.example.com', 'the first of equal ones')
})

test('a provider without a counterpart serves nothing, and is named', async (t) => {
  const signed = { auth: { type: 'sigv4', secretRef: { name: 'key' } } }
  for (const [reference, of, named] of [
    [{}, signed, /a authenticates with sigv4/],
    [signed, {}, /a authenticates with sigv4/],
    [{ apiFormat: 'constructor' }, {}, /a has the apiFormat constructor/],
    [{ path: '/{region}/v1/chat/completions' }, {}, /a has a path with placeholders/],
    [{ path: '/openai/chat/completions' }, {}, /does not end in .v1.chat.completions/],
    [{ weight: 0 }, {}, /a has the weight 0/],
    [{ ref: 'b' }, {}, /b names the ExternalProvider b, which does not exist/],
  ] as const) {
    const gpt = provided([{ ref: 'a', ...reference }])
    const { resource, phase, problems } = served(ref('gpt', 'gpt'), gpt, provider('a', of))
    t.equal(phase, 'Pending')
    t.match(resource?.routing?.missing, named)
    t.match(problems, [named])
    const { conditions = [] } =
      resourceStatuses(compile(joinExternalModels([gpt, provider('a', of)])))[0] ?? {}
    t.match(conditions[0], { status: 'False', message: named })
  }
})

test('config that is not read is named, and a provider of another namespace is none', async (t) => {
  const config = { config: { region: 'eu' } }
  const { problems } = served(provided([{ ref: 'a' }]), provider('a', config))
  t.match(problems, [/externalProviderRefs\[0\].config is not read$/])
  const elsewhere = provider('a', {}, { namespace: 'other' })
  t.equal(served(provided([{ ref: 'a' }]), elsewhere).phase, 'Pending')
  const going = provider('a', {}, { deletionTimestamp: '2026-01-01T00:00:00Z' })
  t.equal(served(provided([{ ref: 'a' }]), going).phase, 'Pending')
})

test('a provider at a refused address serves nothing', async (t) => {
  const judge = (url: string) => (url.includes('169.254') ? 'is link-local' : undefined)
  const { joined } = served(
    provided([{ ref: 'a' }]),
    provider('a', { endpoint: '169.254.169.254' }),
  )
  const steps = refuseAddresses(joined, judge)
  let step = steps.next()
  while (!step.done) step = steps.next()
  t.match(compile(step.value).models.get('llm/gpt'), {
    phase: 'Pending',
    resource: { addressProblem: 'is link-local' },
  })
})

test('a changed provider changes the model, and an unchanged one does not', async (t) => {
  const [gpt, a] = [provided([{ ref: 'a' }]), provider('a')]
  t.equal(served(gpt, a).resource, served(gpt, a).resource)
  t.equal(
    served(gpt, provider('a', { endpoint: 'b.example' })).resource?.backendUrl,
    'https://b.example',
  )
})

test('an invalid reference to a provider is refused', async (t) => {
  for (const spec of [
    { path: 'v1/messages' },
    { path: '/v1/messages?key=1' },
    { path: '/v1/ messages' },
    { ref: '../a' },
    { weight: 101 },
    { targetModel: 'a"b' },
    { auth: { type: 'none', secretRef: { name: 'key' } } },
    { auth: { secretRef: { name: '../key' } } },
  ]) {
    t.throws(() => provided([{ ref: 'a', ...spec }]), JSON.stringify(spec))
  }
  t.throws(() => provided([]))
  t.throws(() => provider('a', { endpoint: 'user@a.example' }))
})
