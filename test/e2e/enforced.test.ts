import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pino } from 'pino'
import root, { type Test } from 'tap'
import { loadConfig } from '../../src/config.ts'
import { openPool } from '../../src/store/postgres/postgres.ts'
import { startClusterController } from '../../src/wiring/cluster-controller.ts'
import { createDatabase } from '../support/database.ts'
import { accessPolicy, modelRef, subscription } from '../support/documents.ts'
import { envoyPath } from '../support/envoy-binary.ts'
import { freePorts } from '../support/free-ports.ts'
import { startDouble, type World } from '../support/kubernetes/world.ts'
import { poll } from '../support/poll.ts'
import { startReplicas } from '../support/replicas.ts'
import { startLoad, tally } from '../support/steady-load.ts'
import { startTcpProxy } from '../support/tcp-proxy.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const skip = envoyPath() === undefined && 'no Envoy'
const team = { groups: ['team'] }

interface Condition {
  readonly type: string
  readonly status: string
  readonly reason: string
  readonly message: string
}

interface Shown {
  readonly metadata: { readonly generation: number }
  readonly status?: {
    readonly phase?: string
    readonly observedGeneration: number
    readonly conditions: readonly Condition[]
  }
}

/** A condition of an object, once it is about what is written now. */
async function condition(
  world: World,
  plural: string,
  name: string,
  type: string,
  namespace = 'llm',
): Promise<Condition | undefined> {
  const path = `/apis/tollgate.dev/v1alpha1/namespaces/${namespace}/${plural}/${name}`
  const found = (await world.client.send({ path }).catch(() => undefined)) as Shown | undefined
  if (found?.status?.observedGeneration !== found?.metadata.generation) return undefined
  return found?.status?.conditions.find((each) => each.type === type)
}

const enforced = (world: World, model: string, kind: 'auth' | 'trlp' = 'auth') =>
  condition(
    world,
    kind === 'auth' ? 'modelauthpolicies' : 'tokenratelimitpolicies',
    `maas-${kind}-${model}`,
    'Enforced',
  )

function kubeconfigOf(t: Test, world: World): string {
  const path = join(temporaryFolder(t), 'config')
  writeFileSync(
    path,
    JSON.stringify({
      ...{ apiVersion: 'v1', kind: 'Config', 'current-context': 'c' },
      contexts: [{ name: 'c', context: { cluster: 'c', user: 'u' } }],
      clusters: [{ name: 'c', cluster: { server: world.access.server } }],
      users: [{ name: 'u', user: {} }],
    }),
  )
  return path
}

root.test('what is enforced holds, and what is not known is not said', { skip }, async (t) => {
  const world = await startDouble(t)
  const kubeconfig = kubeconfigOf(t, world)
  const database = await createDatabase(t)
  const proxy = await startTcpProxy(t, Number(new URL(database).port))
  const [adminPort = 0] = await freePorts(1)
  const { url, model, all } = await startReplicas(t, {
    count: 2,
    database,
    resources: () => [],
    tokens: ['token-ann,ann,1,team'],
    envoyAdminPort: adminPort,
    env: {
      RESOURCES: 'kubernetes',
      KUBECONFIG: kubeconfig,
      ENVOY_ADMIN_ADDRESS: `127.0.0.1:${adminPort}`,
    },
  })
  const controller = await startClusterController({
    config: loadConfig({
      RESOURCES: 'kubernetes',
      KUBECONFIG: kubeconfig,
      DATABASE_URL: proxy.through(database),
    }),
    log: pino({ level: 'silent' }),
    clock: Date.now,
    leaseMs: [5_000, 1_000],
  })
  t.teardown(() => controller.stop())
  const headers = { authorization: 'Bearer token-ann', 'content-type': 'application/json' }
  async function mint(name: string): Promise<string> {
    const answer = await fetch(`${url}/v1/api-keys`, {
      ...{ method: 'POST', headers },
      body: JSON.stringify({ name, subscription: name }),
    })
    return ((await answer.json()) as { key?: string }).key ?? ''
  }
  const chatOf = (key: string, name: string) => ({
    url: `${url}/llm/${name}/v1/chat/completions`,
    headers: { ...headers, authorization: `Bearer ${key}` },
    body: JSON.stringify({ model: 'sim', messages: [], sim: { totalTokens: 10 } }),
  })
  async function chat(key: string, name: string): Promise<number> {
    const { url: to, ...init } = chatOf(key, name)
    const answer = await fetch(to, { method: 'POST', ...init })
    await answer.text()
    return answer.status
  }
  const isTrue = (name: string, kind: 'auth' | 'trlp' = 'auth') =>
    poll(
      async () => (await enforced(world, name, kind))?.status === 'True',
      `${name} ${kind}`,
      30_000,
    )

  await t.test('two models on one route are enforced, and both hold', async (t) => {
    for (const name of ['one', 'two']) await world.apply(modelRef(name, { backendUrl: model.url }))
    await world.apply(accessPolicy('open', ['llm/one', 'llm/two'], team))
    const limits = { 'llm/one': [[10, '1h']], 'llm/two': [[1_000_000, '1h']] } as const
    await world.apply(subscription('both', team, limits))
    for (const name of ['one', 'two']) {
      await isTrue(name)
      await isTrue(name, 'trlp')
      await poll(
        async () => (await condition(world, 'modelrefs', name, 'Programmed'))?.status === 'True',
        `the cluster of ${name}`,
      )
    }
    // From now on, and nothing but the limit refuses.
    const key = await mint('both')
    t.equal(await chat(key, 'one'), 200)
    for (let i = 0; i < 20; i += 1) t.equal(await chat(key, 'two'), 200)
    await poll(async () => (await chat(key, 'one')) === 429, 'the limit of the one')
    t.equal(await chat(key, 'two'), 200, 'is not that of the other')
    const own = 'models-as-a-service'
    await poll(
      async () =>
        (await condition(world, 'accesspolicies', 'open', 'Ready', own))?.status === 'True',
      'the AccessPolicy is Ready',
    )
  })

  await t.test('the last of ten policies admits while the others go', async (t) => {
    const names = Array.from({ length: 10 }, (_, i) => `p${i}`)
    for (const name of names) await world.apply(accessPolicy(name, ['llm/two'], team))
    await world.remove(accessPolicy('open', [], {}))
    await isTrue('two')
    const key = await mint('both')
    const load = startLoad(50, () => chatOf(key, 'two'))
    for (const name of names.slice(1)) {
      await world.remove(accessPolicy(name, [], {}))
      await new Promise((settle) => setTimeout(settle, 100))
    }
    await poll(async () => {
      const path = '/apis/tollgate.dev/v1alpha1/namespaces/llm/modelauthpolicies/maas-auth-two'
      const { spec } = (await world.client.send({ path })) as {
        spec: { accessPolicyCount: number }
      }
      return spec.accessPolicyCount === 1
    }, 'one is left')
    await isTrue('two')
    const shots = await load.stop()
    t.strictSame(tally(shots), { 200: shots.length })
  })

  await t.test('a process that is stopped is named', async (t) => {
    const [, second] = all
    second?.signal('SIGSTOP')
    await world.apply(accessPolicy('later', ['llm/two'], { users: ['bob'] }))
    const lacking = await poll(async () => {
      const found = await enforced(world, 'two')
      return found?.message === 'not in force yet in replica-2' ? found : undefined
    }, 'it is missing')
    t.match(lacking, { status: 'False', reason: 'NotEnforced' })
    t.match(await enforced(world, 'two', 'trlp'), { status: 'True' })
    const sql = openPool({ url: database, connections: 1 })
    t.teardown(() => sql.end())
    await sql`update tollgate_reports set reported_at = reported_at - interval '31 seconds'
      where replica in (select id from tollgate_replicas where name = 'replica-2')`
    await poll(async () => {
      const found = await enforced(world, 'two', 'trlp')
      return found?.status === 'Unknown' && found.message.endsWith('from replica-2')
    }, 'it is silent')
    second?.signal('SIGCONT')
    await isTrue('two')
    await isTrue('two', 'trlp')
  })

  await t.test('without the database nothing is True', async (t) => {
    proxy.refuse()
    await world.apply(accessPolicy('later', ['llm/two'], { users: ['eve'] }))
    const seen = new Set<string>()
    await poll(
      async () => {
        const found = await enforced(world, 'one', 'trlp')
        seen.add((await enforced(world, 'two'))?.status ?? '')
        return found?.status === 'Unknown'
      },
      'what has not changed is Unknown',
      30_000,
    )
    t.notOk(seen.has('True') && (await enforced(world, 'two'))?.status === 'True')
    proxy.heal()
    await isTrue('one', 'trlp')
    await isTrue('two')
  })

  await t.test('each process shows the same', async (t) => {
    for (const { internal } of all) {
      const answer = await fetch(`http://${internal}/internal/v1/resources`)
      const { data } = (await answer.json()) as {
        data: readonly { kind: string; name: string; conditions: readonly Condition[] }[]
      }
      const found = data.find(({ name }) => name === 'maas-auth-two')
      t.match(found, {
        kind: 'ModelAuthPolicy',
        conditions: [
          { type: 'Accepted', status: 'True' },
          { type: 'Enforced', status: 'True' },
        ],
      })
    }
  })
})
