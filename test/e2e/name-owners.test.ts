import { renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import root, { type Test } from 'tap'
import { accessPolicy, modelRef, subscription, type WrittenDocument } from '../support/documents.ts'
import { envoyPath } from '../support/envoy-binary.ts'
import { listOf, startScripted } from '../support/list-api.ts'
import { poll } from '../support/poll.ts'
import { type Replicas, startReplicas } from '../support/replicas.ts'

const team = { groups: ['team'] }
const hour = [[1_000_000, '1h']] as const
const models = ['llm/sim', 'llm/victim', 'east/taker', 'llm/twin', 'west/twin']
const covered = (...keys: string[]) => Object.fromEntries(keys.map((key) => [key, hour]))
const skip = envoyPath() === undefined && 'no Envoy'
let starting: Promise<Replicas> | undefined

/** A test of two processes behind one Envoy, which all tests share. */
function test(title: string, body: (t: Test, gateway: Gateway) => Promise<void>): void {
  root.test(title, { skip }, async (t) => {
    starting ??= startReplicas(root, {
      count: 2,
      resources: (backendUrl) => [
        modelRef('sim', { backendUrl }),
        modelRef('secret', { backendUrl }),
        accessPolicy('open', models, team),
        accessPolicy('nobody', ['llm/closed'], { groups: ['others'] }),
        subscription('own', team, covered('llm/sim', 'llm/victim', 'llm/closed', 'llm/twin')),
        subscription('east', team, covered('llm/sim', 'east/taker')),
        subscription(
          'both',
          team,
          covered('llm/sim', 'llm/victim', 'east/taker', 'llm/twin', 'west/twin'),
        ),
        subscription('west', team, covered('llm/sim', 'west/twin')),
      ],
      tokens: ['token-ada,ada,1,team'],
      // With the table Envoy would decide by what one of the processes knows.
      env: { INFERENCE_WITH_IDENTITY_TOKENS: 'true', DECISION_TABLE: 'off' },
    })
    await body(t as Test, gatewayOf(await starting))
  })
}

type Gateway = ReturnType<typeof gatewayOf>

function gatewayOf({ url, folder, all }: Replicas) {
  async function post(path: string, credential: string, body: object, header = {}) {
    const authorization = `Bearer ${credential}`
    return await fetch(url + path, {
      method: 'POST',
      headers: { authorization, 'content-type': 'application/json', ...header },
      body: JSON.stringify(body),
    })
  }
  return {
    all,
    async mint(name: string, caps: object = {}): Promise<string> {
      const response = await post('/v1/api-keys', 'token-ada', {
        name,
        subscription: name,
        ...caps,
      })
      return ((await response.json()) as { key: string }).key
    },
    chat(key: string, model: string, header = {}, path = '/v1/chat/completions') {
      return post(path, key, { model, messages: [] }, header)
    },
    put(file: string, documents: readonly WrittenDocument[]): void {
      const texts = documents.map((document) => JSON.stringify(document))
      writeFileSync(join(folder, 'fresh'), texts.join('\n---\n'))
      renameSync(join(folder, 'fresh'), join(folder, 'resources', file))
    },
  }
}

/** A model server that says who it is, with a list that a test can change. */
async function startListing(name: string) {
  const server = {
    url: '',
    list: [] as readonly string[] | undefined,
  }
  const { url } = await startScripted(root, (request, response) => {
    request.resume()
    const isList = request.method === 'GET'
    const status = isList && server.list === undefined ? 503 : 200
    response.writeHead(status, { 'content-type': 'application/json', 'x-served-by': name })
    response.end(JSON.stringify(isList ? listOf(...(server.list ?? [])) : { usage: {} }))
  })
  server.url = url
  return server
}

const victim = await startListing('victim')
const taker = await startListing('taker')

/** Who serves a name, by many requests, because each process decides by what it knows. */
async function servedBy(
  gateway: Gateway,
  key: string,
  model: string,
  header = {},
  path?: string,
): Promise<string> {
  const found = new Set<string>()
  for (let i = 0; i < 8; i += 1) {
    const response = await gateway.chat(key, model, header, path)
    await response.text()
    const { status, headers } = response
    found.add(status === 200 ? (headers.get('x-served-by') ?? '?') : String(status))
  }
  return [...found].sort().join()
}

const crowd = Array.from({ length: 10_000 }, (_, i) => `z-${i}`)

test('a server outside of the Subscription takes, blocks and adds no name', async (t, gateway) => {
  const [key, eastern] = [await gateway.mint('own'), await gateway.mint('east')]
  // The hostile one is there first, and lists what everybody has.
  taker.list = ['a', 'org/prompt', 'secret', 'sim', 'victim', ...crowd]
  gateway.put('taker.yaml', [modelRef('taker', { backendUrl: taker.url }, 'east')])
  const known = async () => (await servedBy(gateway, eastern, 'org/prompt')) === 'taker'
  await poll(known, 'its own callers are served by it')
  t.equal(await servedBy(gateway, key, 'org/prompt'), '403')
  victim.list = ['org/prompt', 'prompt']
  gateway.put('victim.yaml', [
    modelRef('victim', { backendUrl: victim.url }),
    modelRef('closed', { backendUrl: `${victim.url}/closed` }),
  ])
  await poll(async () => (await servedBy(gateway, key, 'prompt')) === 'victim', 'both know it')
  t.equal(await servedBy(gateway, key, 'org/prompt'), 'victim', 'a closed model lists it, too')
  t.equal(await servedBy(gateway, eastern, 'org/prompt'), 'taker')
  t.equal(await servedBy(gateway, key, 'a'), '403')
  t.equal(await servedBy(gateway, eastern, 'prompt'), '403')
  t.equal(await servedBy(gateway, eastern, 'z-10'), 'taker')
  t.equal(await servedBy(gateway, eastern, 'z-9999'), '403', 'a thousand names are taken')
  t.equal(
    await servedBy(gateway, eastern, 'secret'),
    '403',
    'a ModelRef that the caller may not use is not looked up among served names',
  )
})

test('of two in the Subscription none is chosen, until one declares the name', async (t, gateway) => {
  const key = await gateway.mint('both')
  const capped = await gateway.mint('both', { models: [{ namespace: 'llm', name: 'victim' }] })
  t.equal(await servedBy(gateway, key, 'org/prompt'), '400')
  const refusal = await gateway.chat(key, 'org/prompt')
  const { error } = (await refusal.json()) as { error: { code: string; message: string } }
  t.equal(error.code, 'model_ambiguous')
  for (const part of ['/llm/victim/v1/chat/completions', '/east/taker/v1/', 'spec.modelIds']) {
    t.match(error.message, part)
  }
  t.equal(await servedBy(gateway, key, 'prompt'), 'victim')
  t.equal(await servedBy(gateway, capped, 'org/prompt'), 'victim', 'the key has only one of them')
  const path = '/east/taker/v1/chat/completions'
  t.equal(await servedBy(gateway, key, 'org/prompt', {}, path), 'taker')
  const published = {
    victim: 'publishers/llm/models/victim',
    taker: 'publishers/east/models/taker',
  }
  for (const [name, id] of Object.entries(published)) {
    t.equal(await servedBy(gateway, key, id), name)
  }
  gateway.put('victim.yaml', [
    modelRef('victim', { backendUrl: victim.url, modelIds: ['org/prompt', 'prompt'] }),
  ])
  await poll(async () => (await servedBy(gateway, key, 'org/prompt')) === 'victim', 'declared')
  gateway.put('victim.yaml', [modelRef('victim', { backendUrl: victim.url })])
  await poll(async () => (await servedBy(gateway, key, 'org/prompt')) === '400', 'as before')
})

test('an identity token asks in all of its Subscriptions, or the one that it names', async (t, gateway) => {
  const named = (name: string) => ({ 'x-maas-subscription': name })
  const ask = (model: string, header = {}) => servedBy(gateway, 'token-ada', model, header)
  t.equal(await ask('org/prompt'), '400')
  t.equal(await ask('org/prompt', named('own')), 'victim')
  t.equal(await ask('org/prompt', named('east')), 'taker')
  t.equal(await ask('org/prompt', named('both')), '400')
  t.equal(await ask('org/prompt', named('west')), '403')
})

test('a process that starts while a server is silent does not know its names', async (t, gateway) => {
  const key = await gateway.mint('own')
  victim.list = undefined
  for (const replica of gateway.all) await replica.end('SIGTERM')
  for (const replica of gateway.all) await replica.start()
  t.equal(await servedBy(gateway, key, 'org/prompt'), '403', 'nobody else serves it')
  const path = '/llm/victim/v1/chat/completions'
  t.equal(await servedBy(gateway, key, 'org/prompt', {}, path), 'victim')
  t.equal(await servedBy(gateway, key, 'publishers/llm/models/victim'), 'victim')
  victim.list = ['org/prompt']
  await poll(async () => (await servedBy(gateway, key, 'org/prompt')) === 'victim', 'it answers')
  for (const replica of gateway.all) await replica.end('SIGTERM')
  for (const replica of gateway.all) await replica.start()
  t.equal(await servedBy(gateway, key, 'org/prompt'), 'victim', 'it is known from the beginning')
})

/** What the conditions say of names that others declare. */
async function identitiesOf(gateway: Gateway): Promise<string> {
  const response = await fetch(`http://${gateway.all[1]?.internal}/internal/v1/resources`)
  const { data } = (await response.json()) as {
    data: { conditions: { type: string; message: string }[] }[]
  }
  const all = data.flatMap(({ conditions }) => conditions)
  return all.map(({ type, message }) => (type === 'ModelIdentityUnique' ? message : '')).join('\n')
}

test('of two ModelRefs that are both covered the earlier one serves', async (t, gateway) => {
  const key = await gateway.mint('both')
  const western = await gateway.mint('west')
  const since = (document: ReturnType<typeof modelRef>, creationTimestamp: string) => ({
    ...document,
    metadata: { ...document.metadata, creationTimestamp },
  })
  gateway.put('twins.yaml', [
    since(
      modelRef('twin', { backendUrl: victim.url, modelIds: ['pair'] }, 'west'),
      '2026-01-01T00:00:00Z',
    ),
    since(modelRef('twin', { backendUrl: taker.url, modelIds: ['pair'] }), '2026-02-01T00:00:00Z'),
  ])
  for (const name of ['twin', 'pair']) {
    await poll(async () => (await servedBy(gateway, western, name)) === 'victim', 'in force')
    await poll(async () => (await servedBy(gateway, key, name)) === 'victim', name)
  }
  t.match(await identitiesOf(gateway), '2 names belong to others: "pair" to west/twin, "twin" to')
  gateway.put('twins.yaml', [
    since(modelRef('twin', { backendUrl: victim.url }, 'west'), '2026-03-01T00:00:00Z'),
    since(modelRef('twin', { backendUrl: taker.url }), '2026-02-01T00:00:00Z'),
  ])
  await poll(async () => (await servedBy(gateway, key, 'twin')) === 'taker', 'now the other one')
  t.equal(await servedBy(gateway, western, 'twin'), 'victim', 'the subscription tells')
})
