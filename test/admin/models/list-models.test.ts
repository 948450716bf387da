import { test } from 'tap'
import type { Snapshot } from '../../../src/models/rules/snapshot.ts'
import {
  accessPolicy,
  snapshotOf as compiled,
  modelRef,
  subscription,
  type WrittenDocument,
} from '../../support/documents.ts'
import {
  createListApi,
  type ListApi,
  listOf,
  startAnswering,
  startScripted,
} from '../../support/list-api.ts'
import { startModelServer } from '../../support/model-server.ts'
import { poll } from '../../support/poll.ts'
import { refused } from '../../support/refusals.ts'

const team = { groups: ['team-a'] }
const rate = [[100, '1m']] as const

/** The gateway of these tests says who may call a model: without policies of their own one opens all. */
function snapshotOf(...documents: readonly WrittenDocument[]): Snapshot {
  const keys = documents
    .filter(({ kind }) => kind === 'ModelRef')
    .map(({ metadata }) => `${metadata.namespace}/${metadata.name}`)
  if (keys.length === 0 || documents.some(({ kind }) => kind === 'AccessPolicy')) {
    return compiled(...documents)
  }
  return compiled(...documents, accessPolicy('all', keys, { groups: ['team-a', 'team-b'] }))
}

/** A ModelRef with this backend. */
function at(name: string, backendUrl: string, spec: object = {}): WrittenDocument {
  return modelRef(name, { backendUrl, ...spec })
}

/** One subscription `basic` of team-a, with a model for each of these addresses. */
function worldOf(endpoints: Readonly<Record<string, string>>): Snapshot {
  return snapshotOf(
    ...Object.entries(endpoints).map(([name, url]) => at(name, url)),
    subscription(
      'basic',
      team,
      Object.fromEntries(Object.keys(endpoints).map((name) => [`llm/${name}`, rate])),
    ),
  )
}

function ask(api: ListApi, credential: string | undefined, headers: object = {}) {
  return api.external.inject({
    url: '/v1/models',
    headers: {
      ...(credential !== undefined && { authorization: `Bearer ${credential}` }),
      ...headers,
    },
  })
}

/** How many milliseconds `work` takes. */
async function timed(work: () => Promise<unknown>): Promise<number> {
  const begun = performance.now()
  await work()
  return Math.round(performance.now() - begun)
}

async function idsOf(api: ListApi, credential = 'alice', headers: object = {}) {
  const answer = await ask(api, credential, headers)
  return answer.json().data.map(({ id }: { id: string }) => id)
}

test('an entry has all fields (200)', async (t) => {
  const server = await startModelServer(t)
  const endpointOverride = 'https://elsewhere.example/'
  const model = at('small', server.url, { endpointOverride, modelIds: ['sim-small'] })
  model.metadata.annotations = {
    'openshift.io/display-name': 'Small',
    'opendatahub.io/context-window': '4096',
    'opendatahub.io/model-capabilities': '["tool-calling", "vision"]',
  }
  const basic = subscription('basic', team, { 'llm/small': rate })
  basic.metadata.annotations = { 'openshift.io/display-name': 'Basic' }
  const other = subscription('other', team, { 'llm/small': rate })
  const [billed] = other.spec.modelRefs as [Record<string, unknown>]
  billed.billingRate = { perToken: '0.00002' }
  const api = await createListApi(t, { snapshot: snapshotOf(model, other, basic) })
  const answer = await ask(api, 'alice')
  t.equal(answer.statusCode, 200)
  t.equal(answer.headers['cache-control'], 'no-store')
  t.equal(answer.headers['x-access-checked-at'], '2026-03-01T12:00:00Z')
  t.strictSame(answer.json(), {
    object: 'list',
    data: [
      {
        id: 'sim-small',
        object: 'model',
        created: 1_704_067_200,
        owned_by: 'llm/small',
        kind: 'LLMInferenceService',
        url: 'https://elsewhere.example',
        context_length: 4_096,
        ready: true,
        modelDetails: {
          displayName: 'Small',
          contextWindow: '4096',
          modelCapabilities: ['tool-calling', 'vision'],
        },
        subscriptions: [
          { name: 'basic', displayName: 'Basic' },
          { name: 'other', billing_rate: { per_token: '0.00002' } },
        ],
      },
    ],
  })
})

test("Anthropic's clients get their format", async (t) => {
  const server = await startAnswering(t, 200, {
    data: [{ id: 'm', created: 1_704_067_200 }, { id: 'n' }],
  })
  const small = at('small', server.url)
  small.metadata.annotations = { 'openshift.io/display-name': 'Small' }
  const world = snapshotOf(small, subscription('basic', team, { 'llm/small': rate }))
  const api = await createListApi(t, { snapshot: world })
  const headers = { 'anthropic-version': '2023-06-01' }
  const m = { type: 'model', id: 'm', display_name: 'Small', created_at: '2024-01-01T00:00:00Z' }
  const n = { ...m, id: 'n', created_at: '1970-01-01T00:00:00Z' }
  const answer = await ask(api, 'alice', headers)
  t.equal(answer.headers['cache-control'], 'no-store')
  t.strictSame(answer.json(), { data: [m, n], has_more: false, first_id: 'm', last_id: 'n' })
  const one = { url: '/v1/models/m', headers: { ...headers, authorization: 'Bearer alice' } }
  t.strictSame((await api.external.inject(one)).json(), m)
  t.strictSame((await ask(api, 'stranger', headers)).json(), {
    ...{ data: [], has_more: false },
    ...{ first_id: null, last_id: null },
  })
})

test('annotations that cannot be read are left out', async (t) => {
  const server = await startAnswering(t, 200, listOf('m'))
  const window = 'opendatahub.io/context-window'
  const capabilities = 'opendatahub.io/model-capabilities'
  for (const [written, modelDetails] of [
    [{ [window]: '128k' }, { contextWindow: '128k' }],
    [{ [window]: '0' }, { contextWindow: '0' }],
    ...['', '[]', 'vision', '{"a":1}', '["a",1]', '"vision"', 'null'].map(
      (each) => [{ [capabilities]: each }, undefined] as const,
    ),
  ] as const) {
    const model = at('small', server.url)
    model.metadata.annotations = written
    const basic = subscription('basic', team, { 'llm/small': rate })
    const api = await createListApi(t, { snapshot: snapshotOf(model, basic) })
    const [entry] = (await ask(api, 'alice')).json().data
    t.same(entry.modelDetails, modelDetails, JSON.stringify(written))
    t.notOk('context_length' in entry)
  }
})

test('the credential is passed on unchanged, once for each model', async (t) => {
  const server = await startAnswering(t, 200, listOf('m'))
  const api = await createListApi(t, {
    snapshot: snapshotOf(
      at('small', `${server.url}/base`),
      subscription('one', team, { 'llm/small': rate }),
      subscription('two', team, { 'llm/small': rate }),
      subscription('three', { groups: ['team-b'] }, { 'llm/small': rate }),
    ),
  })
  await ask(api, 'alice', { 'x-maas-username': 'bob', 'x-maas-group': '["team-b"]', cookie: 'a=b' })
  t.same(
    server.asked.map(({ path }) => path),
    ['/base/v1/models'],
  )
  const sent = server.asked[0]?.headers
  t.equal(sent?.authorization, 'Bearer alice')
  t.match(sent?.['x-maas-subscription'], /^(one|two)$/)
  for (const { headers } of server.asked) {
    t.notHas(headers, { 'x-maas-username': String })
    t.notHas(headers, { cookie: String })
  }
})

test('the caller and the header determine which subscriptions are listed', async (t) => {
  const server = await startAnswering(t, 200, listOf('m'))
  const api = await createListApi(t, {
    snapshot: snapshotOf(
      at('small', server.url),
      subscription('one', team, { 'llm/small': rate }),
      subscription('two', team, { 'llm/small': rate }),
      subscription('theirs', { groups: ['team-b'] }, { 'llm/small': rate }),
      subscription('broken', team, { 'llm/gone': rate }),
      subscription('leaving', team, { 'llm/small': rate }, { deleting: true }),
    ),
  })
  const via = async (credential: string, header?: string) => {
    const headers = header === undefined ? {} : { 'x-maas-subscription': header }
    const [model] = (await ask(api, credential, headers)).json().data
    return model.subscriptions.map(({ name }: { name: string }) => name)
  }
  t.same(await via('alice'), ['one', 'two'])
  t.same(await via('alice', '  '), ['one', 'two'])
  t.same(await via('alice', 'two'), ['two'])
  t.same(await via('alice', 'one, two,  , '), ['two'])
  t.same(await via('alice', 'models-as-a-service/one'), ['one'])
  t.same(await via('bob'), ['theirs'])
  t.same(await via('sk-alice/one'), ['one'])
  t.same(await via('sk-alice/one', 'two'), ['one'])
  t.same(await idsOf(api, 'stranger'), [])
})

test('refuses a subscription that the caller may not use (403)', async (t) => {
  const api = await createListApi(t, {
    snapshot: snapshotOf(
      modelRef('small'),
      subscription('theirs', { groups: ['team-b'] }, { 'llm/small': rate }),
      subscription('broken', team, { 'llm/gone': rate }),
      subscription('leaving', team, { 'llm/small': rate }, { deleting: true }),
    ),
  })
  const bodies = []
  for (const name of ['theirs', 'unknown', '__proto__', 'llm/theirs']) {
    const answer = await ask(api, 'alice', { 'x-maas-subscription': name })
    refused(t, answer, 403, 'subscription_not_allowed', name)
    bodies.push(answer.body)
  }
  t.equal(new Set(bodies).size, 1, 'other users’ and unknown subscriptions get the same answer')
  for (const key of ['sk-alice/theirs', 'sk-alice/unknown', 'sk-alice/']) {
    refused(t, await ask(api, key), 403, 'subscription_not_allowed', key)
  }
  for (const name of ['broken', 'leaving']) {
    const answer = await ask(api, 'alice', { 'x-maas-subscription': name })
    refused(t, answer, 403, 'subscription_not_ready', name)
  }
})

test('faults and outages are answered in the error envelope (500, 503)', async (t) => {
  const api = await createListApi(t)
  refused(t, await ask(api, 'alice'), 500, 'internal')
  refused(t, await ask(api, 'outage'), 503, 'store_unavailable')
})

test('a model is listed only if its server answers 200 with a list, or 405', async (t) => {
  const servers = {
    ok: await startAnswering(t, 200, listOf('listed')),
    unlisted: await startAnswering(t, 405),
    unauthorized: await startAnswering(t, 401),
    forbidden: await startAnswering(t, 403, listOf('secret')),
    missing: await startAnswering(t, 404),
    html: await startAnswering(t, 200, '<html>'),
    wrong: await startAnswering(t, 200, [1, 2]),
    empty: await startAnswering(t, 204),
    huge: await startAnswering(t, 200, `{"data":[{"id":"huge"}],"x":"${'x'.repeat(4_194_304)}"}`),
  }
  const endpoints = Object.entries(servers).map(([name, { url }]) => [name, url])
  const api = await createListApi(t, { snapshot: worldOf(Object.fromEntries(endpoints)) })
  t.same(await idsOf(api), ['listed', 'unlisted'])
  for (const [name, { asked }] of Object.entries(servers)) t.equal(asked.length, 1, name)
})

test('a failing server is asked up to four times', async (t) => {
  const failing = await startAnswering(t, 503)
  const limited = await startAnswering(t, 429)
  let calls = 0
  const recovering = await startScripted(t, (request, response) => {
    calls += 1
    if (calls === 1) request.socket.destroy()
    else if (calls === 2) response.writeHead(500).end()
    else response.end(JSON.stringify(listOf('recovered')))
  })
  const api = await createListApi(t, {
    snapshot: worldOf({
      a: failing.url,
      b: limited.url,
      c: recovering.url,
      d: 'http://127.0.0.1:9',
    }),
  })
  t.same(await idsOf(api), ['recovered'])
  t.equal(failing.asked.length, 4)
  t.equal(limited.asked.length, 4)
  t.equal(recovering.asked.length, 3)
})

test('a server that timed out is left out for five seconds, then asked in the background', async (t) => {
  let isWell = false
  const server = await startScripted(t, (_request, response) => {
    if (isWell) response.end(JSON.stringify(listOf('m')))
  })
  const good = await startAnswering(t, 200, listOf('good'))
  const clock = { now: 0 }
  const api = await createListApi(t, {
    snapshot: worldOf({ a: server.url, b: good.url }),
    probes: { limitMs: 200, monotonic: () => clock.now },
  })
  t.same(await idsOf(api), ['good'])
  t.equal(server.asked.length, 1, 'the first probe has used up its time')
  clock.now += 4_999
  t.same(await idsOf(api), ['good'])
  t.same(await idsOf(api, 'sk-alice/basic'), ['good'], 'for another credential too')
  t.equal(server.asked.length, 1)
  isWell = true
  clock.now += 1
  t.same(await idsOf(api), ['good'], 'the request does not wait for the probe')
  await poll(async () => (await idsOf(api)).length === 2, 'the server is listed again')
  t.equal(server.asked.length, 2)
})

test('a server that answers 404 is listed if modelIds are set', async (t) => {
  const server = await startAnswering(t, 404)
  const api = await createListApi(t, {
    snapshot: snapshotOf(
      at('named', server.url, { modelIds: ['org/large', 'org/small'] }),
      at('unnamed', `${server.url}/other`),
      subscription('basic', team, { 'llm/named': rate, 'llm/unnamed': rate }),
    ),
  })
  t.same(await idsOf(api), ['org/large', 'org/small'])
})

test('one model is read by its id (200, 404)', async (t) => {
  const server = await startAnswering(t, 200, listOf('org/large', 'small'))
  const api = await createListApi(t, { snapshot: worldOf({ a: server.url }) })
  const get = (id: string, as?: string) =>
    api.external.inject({
      url: `/v1/models/${id}`,
      headers: as === undefined ? {} : { authorization: `Bearer ${as}` },
    })
  const { data } = (await ask(api, 'alice')).json()
  for (const [id, entry] of [
    ['small', data[1]],
    ['org/large', data[0]],
    ['org%2Flarge', data[0]],
  ] as const) {
    const answer = await get(id, 'alice')
    t.strictSame(answer.json(), entry, id)
    t.equal(answer.headers['cache-control'], 'no-store')
  }
  for (const id of ['other', 'org', 'org/large/', '%00']) {
    const answer = await get(id, 'alice')
    refused(t, answer, 404, 'not_found', id)
    if (id !== '%00') t.match(answer.json().error.message, `no model "${id}"`)
  }
  refused(t, await get('small', 'bob'), 404, 'not_found')
  refused(t, await get('small'), 401, 'credential_invalid')
  refused(t, await get('small', 'sk-alice/unknown'), 403, 'subscription_not_allowed')
  const other = await api.external.inject({ method: 'PUT', url: '/v1/models/org/large' })
  refused(t, other, 405)
})

test('a list of two thousand models', async (t) => {
  const names = Array.from({ length: 2_000 }, (_, i) => `m-${i}`)
  const limits = Object.fromEntries(names.map((name) => [`llm/${name}`, rate]))

  await t.test('asks each once', async (t) => {
    const server = await startScripted(t, ({ url }, response) => {
      response.end(JSON.stringify(listOf(url?.split('/')[2] ?? '')))
    })
    const api = await createListApi(t, {
      gateway: server.at,
      // Long enough for a busy machine.
      accessCheckTimeoutMs: 60_000,
      probes: { limitMs: 60_000, cacheTtlMs: 60_000 },
      snapshot: snapshotOf(
        ...names.map((name) => modelRef(name)),
        ...['one', 'two', 'three'].map((name) => subscription(name, team, limits)),
      ),
    })
    // On a busy machine the first list may end before all have answered.
    const listAll = () =>
      poll(async () => (await idsOf(api)).length === 2_000, 'all are listed', 60_000)
    const answeredMs = await timed(listAll)
    t.equal(server.asked.length, 2_000)
    const cachedMs = await timed(listAll)
    t.comment(`${answeredMs} ms, ${cachedMs} ms from memory`)
    t.equal(server.asked.length, 2_000)
  })

  await t.test('asks all that hang, and waits for none', async (t) => {
    const asked = new Set<string>()
    const api = await createListApi(t, {
      accessCheckTimeoutMs: 60_000,
      // Without connections, which would cost a busy machine more time than those that hang.
      probeModel({ model }) {
        asked.add(model)
        return model === 'llm/good' ? Promise.resolve('unlisted') : new Promise(() => {})
      },
      snapshot: snapshotOf(
        ...[...names, 'good'].map((name) => modelRef(name)),
        subscription('all', team, { ...limits, 'llm/good': rate }),
      ),
    })
    const ms = await timed(async () => t.same(await idsOf(api), ['good']))
    t.equal(asked.size, names.length + 1)
    // If each were waited for, it would take 20 rounds of half a second.
    t.ok(ms < 20 * 500, `${ms} ms`)
  })
})

test('redirects are not followed', async (t) => {
  const elsewhere = await startAnswering(t, 200, listOf('elsewhere'))
  const server = await startScripted(t, (_request, response) => {
    response.writeHead(307, { location: `${elsewhere.url}/v1/models` }).end()
  })
  const api = await createListApi(t, { snapshot: worldOf({ a: server.url }) })
  t.same(await idsOf(api), [])
  t.equal(elsewhere.asked.length, 0)
})

test('models that hang do not keep others from being listed', async (t) => {
  const hanging = await startScripted(t, () => {})
  const trickling = await startScripted(t, (_request, response) => void response.write('{"data":['))
  const good = await startAnswering(t, 200, listOf('good'))
  // In several subscriptions, before the good one.
  const hangers = Array.from({ length: 12 }, (_, index) => `hang-${index}`)
  const all = Object.fromEntries(hangers.map((name) => [`llm/${name}`, rate]))
  const deadlineMs = 1_500
  const api = await createListApi(t, {
    accessCheckTimeoutMs: deadlineMs,
    snapshot: snapshotOf(
      ...hangers.map((name, index) => at(name, `${(index % 2 ? hanging : trickling).url}/${name}`)),
      at('good', good.url),
      subscription('one', team, all),
      subscription('two', team, { ...all, 'llm/good': rate }),
    ),
  })
  const both = () =>
    Promise.all([idsOf(api), idsOf(api, 'alice', { 'x-maas-subscription': 'two' })])
  const begun = performance.now()
  await both()
  t.ok(performance.now() - begun < hangers.length * deadlineMs, 'one deadline for all models')
  // A busy machine may miss it the first time.
  await poll(async () => (await both()).every((ids) => ids.join() === 'good'), 'the good one')
})

test('at the deadline the models known so far are listed', async (t) => {
  const hanging = await startScripted(t, () => {})
  const good = await startAnswering(t, 200, listOf('good'))
  const api = await createListApi(t, {
    accessCheckTimeoutMs: 300,
    snapshot: worldOf({ a: hanging.url, b: good.url, c: hanging.url }),
  })
  // A busy machine may know of none the first time; those that hang are never known.
  const ids = await poll(async () => {
    const known = await idsOf(api)
    return known.length > 0 && known
  }, 'one is known')
  t.same(ids, ['good'])
})

test('ids of a model whose server is down get 503, from callers who may use it', async (t) => {
  let down: 'hangs' | 'fails' | undefined
  const server = await startScripted(t, (_request, response) => {
    if (down !== 'hangs') response.writeHead(down ? 500 : 200).end(JSON.stringify(listOf('served')))
  })
  const good = await startAnswering(t, 200, listOf('good'))
  const named = { modelIds: ['its-id'] }
  const open = ['llm/a', 'llm/b', 'llm/good']
  const snapshot = () =>
    snapshotOf(
      ...[at('a', server.url), at('b', server.url, named), at('good', good.url)],
      at('closed', server.url, { modelIds: ['closed-id'] }),
      accessPolicy('open', open, team),
      accessPolicy('others', ['llm/closed'], { groups: ['team-b'] }),
      ...[...open, 'llm/closed'].map((key) =>
        subscription(key.slice(4), { groups: ['team-a', 'team-b'] }, { [key]: rate }),
      ),
    )
  const api = await createListApi(t, { snapshot: snapshot(), probes: { limitMs: 200 } })
  const get = (id: string, as: string) =>
    api.external.inject({ url: `/v1/models/${id}`, headers: { authorization: `Bearer ${as}` } })
  t.equal((await get('served', 'alice')).statusCode, 200)
  refused(t, await get('a', 'alice'), 404, 'not_found', 'its server lists other ids')
  for (down of ['hangs', 'fails'] as const) {
    // Other resources, so that nothing is cached.
    api.snapshot = snapshot()
    for (const [id, key] of Object.entries({
      ...{ served: 'llm/a', a: 'llm/a', 'its-id': 'llm/b' },
      'publishers/llm/models/a': 'llm/a',
    })) {
      const answer = await get(id, 'alice')
      refused(t, answer, 503, 'model_unavailable', `${down} ${id}`)
      t.equal(answer.headers['retry-after'], '2')
      t.match(answer.json().error.message, `The server of the model ${key} does not respond`)
    }
    t.equal((await get('good', 'alice')).statusCode, 200)
    const others = [
      'none alice',
      'closed-id alice',
      'its-id bob',
      'its-id sk-alice/a',
      'a stranger',
    ]
    for (const other of others) {
      const [id, as] = other.split(' ') as [string, string]
      refused(t, await get(id, as), 404, 'not_found', `${down} ${other}`)
    }
    t.same((await ask(api, 'alice')).json().data.length, 1, 'not in the list')
  }
})

test('concurrent callers share a probe', async (t) => {
  const held: (() => void)[] = []
  const server = await startScripted(t, (_request, response) => {
    held.push(() => response.end(JSON.stringify(listOf('m'))))
  })
  const api = await createListApi(t, {
    snapshot: worldOf({ a: server.url }),
    probes: { cacheTtlMs: 60_000 },
  })
  const same = [idsOf(api), idsOf(api), idsOf(api)]
  const other = idsOf(api, 'sk-alice/basic')
  await poll(() => held.length === 2, 'one probe for each credential')
  for (const release of held) release()
  t.same(await Promise.all([...same, other]), [['m'], ['m'], ['m'], ['m']])
  t.same(await idsOf(api), ['m'])
  t.equal(server.asked.length, 2, 'the answer is cached')
  api.snapshot = worldOf({ a: server.url })
  const fresh = idsOf(api)
  await poll(() => held.length === 3, 'a change of resources causes a new probe')
  held[2]?.()
  t.same(await fresh, ['m'])
})

test('a refusal is not cached', async (t) => {
  let status = 403
  const server = await startScripted(t, (_request, response) => {
    response.writeHead(status).end(JSON.stringify(listOf('m')))
  })
  const api = await createListApi(t, { snapshot: worldOf({ a: server.url }) })
  t.same(await idsOf(api), [])
  status = 200
  t.same(await idsOf(api), ['m'])
})

test('a model with a backend is asked at our gateway, whatever endpoint is shown', async (t) => {
  const elsewhere = await startAnswering(t, 200, listOf('elsewhere'))
  const gateway = await startScripted(t, ({ url }, response) => {
    if (url === '/llm/hosted/v1/models') response.writeHead(404).end()
    else response.end(JSON.stringify(listOf('through')))
  })
  const endpointOverride = `${elsewhere.url}/base`
  const external = { modelRef: { kind: 'ExternalModel', name: 'x' } }
  const api = await createListApi(t, {
    gateway: gateway.at,
    snapshot: snapshotOf(
      modelRef('small'),
      modelRef('shown', { endpointOverride }),
      modelRef('nowhere', { backendUrl: undefined }),
      modelRef('hosted', external),
      modelRef('later', { ...external, backendUrl: undefined }),
      subscription('basic', team, {
        'llm/small': rate,
        'llm/shown': rate,
        'llm/nowhere': rate,
        'llm/hosted': rate,
        'llm/later': rate,
      }),
    ),
  })
  const answer = await ask(api, 'alice')
  t.match(answer.json().data, [
    { id: 'hosted', kind: 'ExternalModel', url: 'http://gateway.example/llm/hosted', created: 0 },
    // Both servers list the same name, which a body may not use.
    ...['shown', 'small'].map((name) => ({
      ...{ id: `publishers/llm/models/${name}`, owned_by: `llm/${name}` },
      url: 'http://gateway.example',
    })),
  ])
  t.equal(answer.json().data.length, 3)
  t.same(gateway.asked.map(({ path }) => path).sort(), [
    '/llm/shown/v1/models',
    '/llm/small/v1/models',
  ])
  t.equal(elsewhere.asked.length, 0)
})

test('a model without a backend is listed by its name, unasked, if a policy allows', async (t) => {
  const elsewhere = await startAnswering(t, 200, listOf('elsewhere'))
  const unserved = { backendUrl: undefined, endpointOverride: elsewhere.url }
  const api = await createListApi(t, {
    snapshot: snapshotOf(
      modelRef('open', unserved),
      modelRef('closed', unserved),
      modelRef('unpaid', unserved),
      accessPolicy('team', ['llm/open', 'llm/unpaid'], team),
      accessPolicy('others', ['llm/closed'], { groups: ['team-b'] }),
      subscription('basic', team, { 'llm/open': rate, 'llm/closed': rate }),
      subscription('theirs', { groups: ['team-b'] }, { 'llm/unpaid': rate }),
    ),
  })
  const answer = await ask(api, 'alice')
  t.match(answer.json().data, [
    { id: 'open', owned_by: 'llm/open', url: elsewhere.url, ready: false },
  ])
  t.equal(answer.json().data.length, 1)
  t.equal(elsewhere.asked.length, 0)
})

test('a backend that leads back to this API causes no endless loop', async (t) => {
  const api = await createListApi(t, {
    accessCheckTimeoutMs: 2_000,
    probes: { limitMs: 1_000 },
    snapshot: snapshotOf(),
  })
  const url = await api.external.listen({ host: '127.0.0.1', port: 0 })
  const good = await startAnswering(t, 200, listOf('good'))
  api.snapshot = worldOf({ a: url, b: `${url}/v1`, c: good.url })
  t.ok((await idsOf(api)).includes('good'))
})

test('other methods are answered (204, 405)', async (t) => {
  const api = await createListApi(t, { snapshot: snapshotOf() })
  const options = await api.external.inject({ method: 'OPTIONS', url: '/v1/models' })
  t.equal(options.statusCode, 204)
  t.equal(options.body, '')
  refused(t, await api.external.inject({ method: 'POST', url: '/v1/models' }), 405)
})

test('a key in x-api-key is sent to the gateway as a bearer token', async (t) => {
  const server = await startAnswering(t, 200, listOf('a'))
  const api = await createListApi(t, { snapshot: worldOf({ a: server.url }) })
  const answer = await ask(api, undefined, { 'x-api-key': 'sk-alice/basic' })
  t.match(answer.json(), { data: [{ id: 'a' }] })
  t.match(server.asked, [{ headers: { authorization: 'Bearer sk-alice/basic' } }])
})
