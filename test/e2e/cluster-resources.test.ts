import root from 'tap'
import { showAddress } from '../../src/config.ts'
import { accessPolicy, modelRef, subscription } from '../support/documents.ts'
import { envoyPath } from '../support/envoy-binary.ts'
import { startGateway } from '../support/gateway.ts'
import { writeKubeconfig } from '../support/kubernetes/kubeconfig.ts'
import { startDouble } from '../support/kubernetes/world.ts'
import { poll } from '../support/poll.ts'
import { startScriptedModel } from '../support/scripted-model.ts'

const skip = envoyPath() === undefined && 'no Envoy'
const chat = '/llm/fresh/v1/chat/completions'

root.test('what is applied to a cluster is usable through Envoy', { skip }, async (t) => {
  const server = await startScriptedModel()
  const world = await startDouble(t)
  const kubeconfig = writeKubeconfig(t, world.access)
  const limits = [[1_000_000, '1h']] as const
  await world.apply(subscription('plenty', { groups: ['team'] }, { 'llm/fresh': limits }))
  await world.apply(accessPolicy('open', ['llm/fresh'], { groups: ['team'] }))
  const gateway = await startGateway(t, {
    env: { RESOURCES: 'kubernetes', KUBECONFIG: kubeconfig },
  })
  const { key } = await gateway.mint().catch(() => ({ key: '' }))
  t.equal(key, '', 'a Subscription whose only model is not there pays for nothing')
  const readyz = async () => {
    const answer = await fetch(`http://${showAddress(gateway.addresses.internal)}/readyz`)
    return JSON.stringify(await answer.json())
  }
  const put = (value: string) =>
    world.apply({
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name: 'provider', namespace: 'llm' },
      data: { 'api-key': Buffer.from(value).toString('base64') },
    })
  await put('first\n')
  const secretRef = { name: 'provider', key: 'api-key' }

  await t.test('within seconds, and without a 503', async (t) => {
    const spec = { backendUrl: server.url, credential: { secretRef } }
    await world.apply(modelRef('fresh', spec))
    const { key } = await poll(
      async () => (await gateway.mint().catch(() => undefined)) as { key: string },
      'a key can be made',
    )
    const { status } = await gateway.chat(key, {}, {}, chat)
    t.equal(status, 200)
    t.equal(server.received.at(-1)?.headers.authorization, 'Bearer first', 'with its Secret')
    await put('second')
    await poll(
      async () => {
        await gateway.chat(key, {}, {}, chat)
        return server.received.at(-1)?.headers.authorization === 'Bearer second'
      },
      'a replaced Secret is in force',
      30_000,
    )
  })

  await t.test('and stays so without the API server', async (t) => {
    const { key } = await gateway.mint()
    t.notMatch(await readyz(), 'kubernetes')
    world.faults.status = 503
    world.faults.cut()
    await poll(async () => (await readyz()).includes('kubernetes'), '/readyz says so')
    t.equal((await gateway.chat(key, {}, {}, chat)).status, 200)
    t.equal(server.received.at(-1)?.headers.authorization, 'Bearer second')
    world.faults.status = 0
    await world.remove(modelRef('fresh'))
    await poll(
      async () => (await gateway.chat(key, {}, {}, chat)).status === 403,
      'it goes on',
      30_000,
    )
  })
})
