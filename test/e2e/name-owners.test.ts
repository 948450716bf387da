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
const models = ['llm/sim', 'llm/victim', 'east/taker', 'east/prompt', 'llm/twin', 'west/twin']
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
        subscription('plenty', team, Object.fromEntries(models.map((key) => [key, hour]))),
        subscription('west', team, { 'llm/sim': hour, 'west/twin': hour }),
      ],
      tokens: ['token-ada,ada,1,team'],
    })
    await body(t as Test, gatewayOf(await starting))
  })
}

type Gateway = ReturnType<typeof gatewayOf>

function gatewayOf({ url, folder, all }: Replicas) {
  async function post(path: string, credential: string, body: object): Promise<Response> {
    return await fetch(url + path, {
      method: 'POST',
      headers: { authorization: `Bearer ${credential}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
  }
  return {
    all,
    async mint(name = 'plenty'): Promise<string> {
      const response = await post('/v1/api-keys', 'token-ada', { name, subscription: name })
      return ((await response.json()) as { key: string }).key
    },
    async chat(key: string, model: string): Promise<Response> {
      const response = await post('/v1/chat/completions', key, { model, messages: [] })
      await response.text()
      return response
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
    asked: 0,
    list: [] as readonly string[] | undefined,
  }
  const { url } = await startScripted(root, (request, response) => {
    request.resume()
    const isList = request.method === 'GET'
    if (isList) server.asked += 1
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
async function servedBy(gateway: Gateway, key: string, model: string): Promise<string> {
  const found = new Set<string>()
  for (let i = 0; i < 16; i += 1) {
    const { status, headers } = await gateway.chat(key, model)
    found.add(status === 200 ? (headers.get('x-served-by') ?? '?') : String(status))
  }
  return [...found].sort().join()
}

async function problemsOf(gateway: Gateway): Promise<string> {
  const response = await fetch(`http://${gateway.all[1]?.internal}/internal/v1/resources`)
  const { problems, data } = (await response.json()) as {
    problems: string[]
    data: { name: string; conditions: { type: string; status: string; message: string }[] }[]
  }
  for (const { name, conditions } of data) {
    for (const { type, status, message } of conditions) {
      if (type === 'ModelIdentityUnique') problems.push(`${name} is ${status}: ${message}`)
    }
  }
  return problems.join('\n')
}

test('a list takes no name from another namespace', async (t, gateway) => {
  const key = await gateway.mint()
  victim.list = ['org/prompt', 'prompt', 'other']
  gateway.put('victim.yaml', [modelRef('victim', { backendUrl: victim.url })])
  await poll(
    async () => (await servedBy(gateway, key, 'org/prompt')) === 'victim',
    'both processes know the name',
  )
  taker.list = ['org/prompt', 'prompt', 'secret', 'victim', 'of-taker']
  gateway.put('taker.yaml', [modelRef('taker', { backendUrl: taker.url }, 'east')])
  await poll(
    async () => (await servedBy(gateway, key, 'of-taker')) === 'taker',
    'both processes know the list of the newcomer',
  )
  for (const name of ['org/prompt', 'prompt', 'victim']) {
    t.equal(await servedBy(gateway, key, name), 'victim', name)
  }
  t.equal(
    await servedBy(gateway, key, 'secret'),
    '403',
    'a ModelRef that the caller may not use is not looked up among served names',
  )
  await poll(
    async () => (await problemsOf(gateway)).includes('ModelRef/east/taker: '),
    'the newcomer is reported',
  )
  const problems = await problemsOf(gateway)
  t.match(problems, '"org/prompt" to llm, "prompt" to llm, "secret" to llm/secret')
  t.match(problems, 'taker is False: 4 names belong to others')
  t.match(problems, 'victim is True: ')
})

test('nor do a ModelRef of that name and modelIds', async (t, gateway) => {
  const key = await gateway.mint()
  gateway.put('taker.yaml', [
    modelRef('taker', { backendUrl: taker.url, modelIds: ['org/prompt', 'mark'] }, 'east'),
    modelRef('prompt', { backendUrl: taker.url }, 'east'),
  ])
  await poll(async () => (await servedBy(gateway, key, 'mark')) === 'taker', 'they are in force')
  t.equal(await servedBy(gateway, key, 'org/prompt'), 'victim')
  t.equal(await servedBy(gateway, key, 'prompt'), 'victim')
  await poll(async () => {
    const problems = await problemsOf(gateway)
    return ['taker: 1 name belongs', 'prompt: 3 names belong'].every((one) =>
      problems.includes(`ModelRef/east/${one}`),
    )
  }, 'they are reported')
})

test('the owner stays after a restart while its server is silent', async (t, gateway) => {
  const key = await gateway.mint()
  victim.list = undefined
  taker.list = ['org/prompt', 'prompt', 'other', 'later']
  gateway.put('taker.yaml', [modelRef('taker', { backendUrl: taker.url }, 'east')])
  for (const replica of gateway.all) await replica.end('SIGTERM')
  const before = taker.asked
  for (const replica of gateway.all) await replica.start()
  await poll(
    async () => taker.asked > before && (await servedBy(gateway, key, 'later')) === 'taker',
    'the newcomer is known',
  )
  for (const name of ['org/prompt', 'prompt', 'other']) {
    t.equal(await servedBy(gateway, key, name), 'victim', name)
  }
  t.ok(victim.asked > 0)
})

test('of two ModelRefs that are both covered the earlier one serves', async (t, gateway) => {
  const key = await gateway.mint()
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
  await poll(
    async () => (await problemsOf(gateway)).includes('ModelRef/llm/twin: 2 names belong'),
    'the later one is reported',
  )
  gateway.put('twins.yaml', [
    since(modelRef('twin', { backendUrl: victim.url }, 'west'), '2026-03-01T00:00:00Z'),
    since(modelRef('twin', { backendUrl: taker.url }), '2026-02-01T00:00:00Z'),
  ])
  await poll(async () => (await servedBy(gateway, key, 'twin')) === 'taker', 'now the other one')
  t.equal(await servedBy(gateway, western, 'twin'), 'victim', 'the subscription tells')
})
