/**
 * What breaks in a cluster, and what it costs: a container, the API server, DNS, stores. Production on
 * nodes of this machine.
 */

import { setTimeout as delay } from 'node:timers/promises'
import { type Test, test } from 'tap'
import {
  type GatewayPod,
  gatewayPods,
  imageHere,
  kubectl,
  noOwnNodes,
} from '../../support/kubernetes/cluster.ts'
import {
  applyProduction,
  askDoctor,
  loadDuring,
  makeKey,
  namespaced,
  ownNodes,
  prepareStores,
} from '../../support/kubernetes/installation.ts'
import { ask } from '../../support/kubernetes/user-pod.ts'
import { poll } from '../../support/poll.ts'

const skip = noOwnNodes

let installed: Promise<string> | undefined
/** A key; production is installed once. */
function install(t: Test): Promise<string> {
  installed ??= (async () => {
    await prepareStores()
    await applyProduction(t)
    return await makeKey(t)
  })()
  return installed
}

test('a killed service container costs what was under way', { skip }, async (t) => {
  const key = await install(t)
  const { killContainer } = await ownNodes()
  const [pod] = await gatewayPods()
  const what = 'a service container killed with SIGKILL'
  const { counts, failedMs } = await loadDuring(t, { key, what }, async () => {
    killContainer(pod?.node ?? '', pod?.service ?? '')
    const isBack = async () => {
      const now = (await gatewayPods()).find(({ name }) => name === pod?.name)
      return (now?.restarts ?? 0) > (pod?.restarts ?? 0) && now?.isReady
    }
    await poll(isBack, 'the container is back', 120_000)
  })
  const { 200: served = 0, '503 unavailable': refused = 0, ...others } = counts
  t.strictSame(others, {})
  // Each of 24 connections may meet it once.
  t.ok(refused <= 24, `${refused} beside ${served} within ${failedMs} ms`)
})

test('nothing fails while the API server is away', { skip }, async (t) => {
  const key = await install(t)
  const { killApiServer, startApiServer } = await ownNodes()
  t.teardown(startApiServer)
  const what = 'an API server away for 18 s'
  const { counts } = await loadDuring(t, { key, what }, async () => {
    killApiServer()
    await delay(18_000)
    startApiServer()
    const isUp = () => kubectl(['get', '--raw', '/readyz']).catch(() => '')
    await poll(isUp, 'the API server answers', 120_000)
  })
  t.strictSame(Object.keys(counts), ['200'])
})

test('a pod becomes ready while DNS is away', { skip }, async (t) => {
  const key = await install(t)
  const { setDns } = await ownNodes()
  t.teardown(() => setDns(true))
  const before = await gatewayPods()
  setDns(false)
  await kubectl([...namespaced, 'delete', 'pod', '--wait=false', before[0]?.name ?? ''])
  const startedAt = performance.now()
  const isNew = ({ name }: GatewayPod) => before.every((pod) => pod.name !== name)
  const isReady = async () => (await gatewayPods()).find((pod) => isNew(pod) && pod.isReady)
  const pod = await poll(isReady, 'a new pod is ready', 280_000)
  t.comment(`ready after ${Math.round((performance.now() - startedAt) / 1_000)} s without DNS`)
  t.equal(pod?.restarts, 0)
  setDns(true)
  await poll(async () => (await ask(key)) === 200, 'the model answers', 60_000)
})

test('tollgate doctor names what is away, the worst first', { skip }, async (t) => {
  await install(t)
  const { database, redis } = await ownNodes()
  const sections = async () => {
    const said = await askDoctor('--since-start')
    return { said, names: [...said.matchAll(/runbook\.md#(\S+)/g)].map(([, name]) => name) }
  }
  const until = async (...expected: readonly string[]) => {
    const has = async () => {
      const { names } = await sections()
      return expected.every((name, at) => names.indexOf(name) >= at)
    }
    await poll(has, expected.join(), 60_000).catch(async () => t.fail((await sections()).said))
  }
  redis.refuse()
  await until('tollgateredisaway')
  database.refuse()
  await until('tollgatedatabaseaway', 'tollgateredisaway')
  redis.heal()
  database.heal()
  t.comment((await sections()).said)
})

test('without DATABASE_URL the image says what it needs', { skip }, async (t) => {
  await install(t)
  const container = { name: 'serve', image: imageHere, args: ['serve'] }
  const pod = {
    ...{ apiVersion: 'v1', kind: 'Pod', metadata: { name: 'no-stores', namespace: 'llm' } },
    spec: { restartPolicy: 'Never', containers: [container] },
  }
  await kubectl(['apply', '-f', '-'], JSON.stringify(pod))
  t.teardown(() => kubectl(['-n', 'llm', 'delete', 'pod/no-stores']))
  const failed = '--for=jsonpath={.status.phase}=Failed'
  await kubectl(['-n', 'llm', 'wait', 'pod/no-stores', failed, '--timeout=60s'])
  t.match(await kubectl(['-n', 'llm', 'logs', 'pod/no-stores']), 'DATABASE_URL')
})
