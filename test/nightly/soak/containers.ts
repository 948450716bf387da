/** Tests of the containers of both overlays: read-only and as uid 65532, with an engine or without. */

import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import root, { type Test } from 'tap'
import { createDatabase } from '../../support/database.ts'
import { accessPolicy, modelRef, subscription } from '../../support/documents.ts'
import { freePorts } from '../../support/free-ports.ts'
import { createPod, type Launch, type PodHere } from '../../support/image/container.ts'
import { readContainerfile } from '../../support/image/containerfile.ts'
import { environmentOf, overlays, podsOf } from '../../support/kubernetes/manifests.ts'
import { startDouble, type World } from '../../support/kubernetes/world.ts'
import { startModelServer } from '../../support/model-server.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { skipValkey, startValkey } from '../../support/valkey.ts'

/** The environment variables that the image sets. */
const imageEnvironment = Object.fromEntries(
  (readContainerfile()[1] ?? [])
    .filter(({ name }) => name === 'ENV')
    .flatMap(({ text }) => text.split(' ').map((pair) => pair.split('=') as [string, string])),
)

interface PodWorld {
  readonly world: World
  /** Settings that replace the cluster: addresses on this machine. */
  readonly here: Readonly<Record<string, string>>
  readonly ports: { readonly gateway: number; readonly internal: number }
  pod(name: string): PodHere
}

async function start(t: Test, overlay: keyof typeof overlays, launch: Launch): Promise<PodWorld> {
  const world = await startDouble(t)
  const [gateway = 0, internal = 0, metrics = 0] = await freePorts(3)
  const folder = temporaryFolder(t)
  const folders = { 'service-account': join(folder, 'account'), stores: join(folder, 'stores') }
  for (const path of Object.values(folders)) mkdirSync(path)
  if (overlay === 'production') {
    writeFileSync(join(folders.stores, 'database-url'), await createDatabase(t))
    writeFileSync(join(folders.stores, 'redis-url'), (await startValkey(t)).url)
  }
  const account = '/var/run/secrets/kubernetes.io/serviceaccount'
  writeFileSync(join(folders['service-account'], 'tokens.csv'), 'alice-token,alice,1,team-a\n')
  writeFileSync(join(folders['service-account'], 'namespace'), 'tollgate')
  writeFileSync(
    join(folders['service-account'], 'config'),
    JSON.stringify({
      'current-context': 'c',
      contexts: [{ name: 'c', context: { cluster: 'c', user: 'u' } }],
      clusters: [{ name: 'c', cluster: { server: world.access.server } }],
      users: [{ name: 'u', user: {} }],
    }),
  )
  const manifests = overlays[overlay]
  return {
    world,
    ports: { gateway, internal },
    here: {
      KUBECONFIG: `${account}/config`,
      KUBERNETES_TOKEN_REVIEW: 'false',
      TOKEN_AUTH_FILE: `${account}/tokens.csv`,
      GATEWAY_ADDRESS: `127.0.0.1:${gateway}`,
      INTERNAL_ADDRESS: `127.0.0.1:${internal}`,
      METRICS_ADDRESS: `127.0.0.1:${metrics}`,
      DRAIN_MIN_SECONDS: '0',
      // The model server is on this machine.
      MODEL_ADDRESSES_ALLOWED: '127.0.0.0/8',
    },
    pod(name) {
      const found = podsOf(manifests).find((pod) => pod.name.endsWith(`/${name}`))
      if (found === undefined) throw new Error(`no pod of ${name}`)
      return createPod(t, found, {
        launch,
        folders,
        environmentOf: (container) => ({
          ...imageEnvironment,
          ...environmentOf(container, manifests),
        }),
      })
    },
  }
}

async function statusOf(url: string): Promise<number> {
  return await fetch(url).then(
    ({ status }) => status,
    () => 0,
  )
}

/** `launch` starts a container of an overlay; it is called by the first test, and may build the image. */
export function containerTests(
  launch: (overlay: keyof typeof overlays) => Launch,
  skip: string | false,
): void {
  const test = (title: string, body: (t: Test) => Promise<void>) =>
    root.test(title, { skip: skip || skipValkey }, body)

  test('the pod of the gateway serves, drains and ends', async (t) => {
    const model = await startModelServer(t)
    const { world, here, ports, pod } = await start(t, 'production', launch('production'))
    await world.apply(modelRef('sim', { backendUrl: model.url }))
    await world.apply(accessPolicy('open', ['llm/sim'], { groups: ['team-a'] }))
    await world.apply(subscription('a', { groups: ['team-a'] }, { 'llm/sim': [[1_000, '1m']] }))
    const gateway = pod('tollgate-gateway')
    const service = gateway.run('tollgate', here)
    const probe = `http://127.0.0.1:${ports.internal}`
    const isReady = async () => (await statusOf(`${probe}/readyz`)) === 200
    await service.until('the service is ready', isReady)
    const envoy = gateway.run('envoy')
    const url = `http://127.0.0.1:${ports.gateway}`
    const isUp = async () => (await statusOf(`${url}/health`)) === 200
    await envoy.until('Envoy is ready', isUp)

    const headers = { 'content-type': 'application/json' }
    const made = await fetch(`${url}/v1/api-keys`, {
      method: 'POST',
      headers: { ...headers, authorization: 'Bearer alice-token' },
      body: JSON.stringify({ name: 'first' }),
    })
    t.equal(made.status, 201)
    const { key } = (await made.json()) as { key: string }
    const ask = () =>
      fetch(`${url}/llm/sim/v1/chat/completions`, {
        method: 'POST',
        headers: { ...headers, authorization: `Bearer ${key}` },
        body: JSON.stringify({ model: 'sim', messages: [{ role: 'user', content: 'Hello' }] }),
      })
    t.equal((await ask()).status, 200)

    const job = pod('maas-api-key-cleanup').run('cleanup', {}, ['tollgate', 'cleanup', probe])
    t.equal(await job.ended, 0, job.output())
    t.match(job.output(), 'Deleted 0 expired ephemeral keys.')

    const doctor = gateway.run('tollgate', here, ['tollgate', 'doctor'])
    await doctor.ended
    t.match(doctor.output(), /^Nothing is wrong\.$|docs\/runbook\.md#tollgateeventlooplate/m)
    t.notMatch(doctor.output(), 'critical')

    const drain = gateway.run('envoy', here, ['tollgate', 'drain'])
    t.equal(await drain.ended, 0, drain.output())
    t.equal(await statusOf(`${probe}/readyz`), 503)
    envoy.signal('SIGTERM')
    t.equal(await envoy.ended, 0, envoy.output())
    service.signal('SIGTERM')
    t.equal(await service.ended, 0, service.output())
  })

  test('the controller writes a status', async (t) => {
    const { world, here, pod } = await start(t, 'production', launch('production'))
    await world.apply(modelRef('sim'))
    const controller = pod('tollgate-controller').run('controller', here)
    const path = '/apis/tollgate.dev/v1alpha1/namespaces/llm/modelrefs/sim'
    const isWritten = async () => (await world.client.send({ path })).status !== undefined
    await controller.until('a status is written', isWritten)
    controller.signal('SIGTERM')
    t.equal(await controller.ended, 0, controller.output())
  })

  test('the trial has its own Postgres, a model, and statuses that become Active', async (t) => {
    const { world, here, ports, pod } = await start(t, 'trial', launch('trial'))
    await world.apply(modelRef('sim'))
    await world.apply(accessPolicy('open', ['llm/sim'], { groups: ['team-a'] }))
    const gateway = pod('tollgate-gateway')
    const service = gateway.run('tollgate', here)
    const isReady = async () =>
      (await statusOf(`http://127.0.0.1:${ports.internal}/readyz`)) === 200
    await service.until('the service is ready', isReady)
    gateway.run('envoy')
    const [port, own] = await freePorts(2)
    const controller = gateway.run('controller', {
      ...here,
      INTERNAL_ADDRESS: `127.0.0.1:${own}`,
      METRICS_ADDRESS: 'off',
    })
    const path = '/apis/tollgate.dev/v1alpha1/namespaces/models-as-a-service/accesspolicies/open'
    await controller.until('the AccessPolicy is Active', async () => {
      const { status } = await world.client.send({ path })
      return (status as { phase?: string } | undefined)?.phase === 'Active'
    })
    controller.signal('SIGTERM')
    t.equal(await controller.ended, 0, controller.output())
    service.signal('SIGTERM')
    t.equal(await service.ended, 0, service.output())
    const command = ['node', 'examples/model-server.ts', `127.0.0.1:${port}`]
    const model = pod('sample-model').run('sample-model', {}, command)
    const answers = async () => (await statusOf(`http://127.0.0.1:${port}/v1/models`)) === 200
    await model.until('the model responds', answers)
  })

  test('an unprivileged user can write only to the volumes', async (t) => {
    const { pod } = await start(t, 'production', launch('production'))
    const gateway = pod('tollgate-gateway')
    const mountsOf = async (container: string) => {
      const script = `
        id -u; id -G; grep -E 'Cap(Eff|Bnd)|NoNewPrivs' /proc/self/status
        for folder in / /etc /opt /opt/tollgate /usr /var /run /tmp /run/tollgate/envoy \\
          /run/tollgate/sockets /run/tollgate/journal /var/lib/tollgate/data; do
          [ ! -d $folder ] || { touch $folder/x 2>/dev/null && echo "writes $folder"; } || true
        done`
      const running = gateway.run(container, {}, ['sh', '-c', script])
      t.equal(await running.ended, 0, running.output())
      const lines = running.output().trim().split('\n')
      t.strictSame(lines.slice(0, 2), ['65532', '65532'])
      t.match(running.output(), /CapEff:\s0+\n/)
      t.match(running.output(), /NoNewPrivs:\s1\n/)
      return lines.filter((line) => line.startsWith('writes ')).map((line) => line.slice(7))
    }
    const ofService = ['/tmp', '/run/tollgate/envoy', '/run/tollgate/sockets']
    const journal = '/run/tollgate/journal'
    t.strictSame(await mountsOf('tollgate'), [...ofService, journal, '/var/lib/tollgate/data'])
    t.strictSame(await mountsOf('envoy'), ['/run/tollgate/sockets', journal])
  })
}
