/**
 * Tests the manifests and the permissions of the service accounts with a real kube-apiserver
 * (KUBEBUILDER_ASSETS).
 */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { pino } from 'pino'
import root, { type Test } from 'tap'
import { stringify } from 'yaml'
import { render } from '../../k8s/render.ts'
import { applyStatus } from '../../src/cluster/controller/apply.ts'
import { startClusterController } from '../../src/cluster/controller/cluster-controller.ts'
import { toConditions } from '../../src/cluster/rules/object-status.ts'
import { createClient, type KubeRequest } from '../../src/kubernetes/client.ts'
import type { KubeObject } from '../../src/kubernetes/list.ts'
import { serve } from '../../src/main.ts'
import { createClusterSource } from '../../src/models/sources/cluster-source.ts'
import { packageRoot } from '../../src/runtime/package-root.ts'
import { formatAddress, loadConfig } from '../../src/settings/config.ts'
import { createDatabase } from '../support/database.ts'
import { accessPolicy, modelRef, subscription } from '../support/documents.ts'
import {
  type KubeServer,
  noKubeServer,
  startKubeServer,
} from '../support/kubernetes/kube-server.ts'
import { folderOf, overlays, podsOf } from '../support/kubernetes/manifests.ts'
import { poll } from '../support/poll.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const forbidden = { status: 403, message: /forbidden/ }

/** One server for the file, with the production overlay installed as docs/kubernetes.md describes. */
let installed: Promise<KubeServer> | undefined

async function install(): Promise<KubeServer> {
  const kube = await startKubeServer(root)
  const applied = [
    ['apply', '-k', folderOf('namespaces')],
    ['apply', '--validate=strict', '-k', folderOf('crds')],
    [
      ...['-n', 'tollgate', 'create', 'secret', 'generic', 'tollgate-stores'],
      ...['--from-literal=database-url=postgres://db', '--from-literal=redis-url=redis://redis'],
    ],
    ['apply', '--validate=strict', '-k', folderOf('overlays/production')],
  ].map((args) => kube.kubectl(args))
  for (const { status, output } of applied) if (status !== 0) throw new Error(output)
  // The service account that a Kubernetes controller would create.
  kube.kubectl(['-n', 'tollgate', 'create', 'serviceaccount', 'default'])
  const path = '/apis/tollgate.dev/v1alpha1/subscriptions'
  await poll(() => kube.client.send({ path }).catch(() => undefined), 'the CRDs are served', 30_000)
  const documents = [
    { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'llm' } },
    modelRef('small'),
    place(accessPolicy('everybody', ['llm/small'], { groups: ['system:authenticated'] })),
    place(subscription('all', { groups: ['system:authenticated'] }, { 'llm/small': [[9, '1m']] })),
  ]
  const { status, output } = kube.kubectl(['apply', '-f', '-'], toYaml(documents))
  if (status !== 0) throw new Error(output)
  return kube
}

function place(document: ReturnType<typeof modelRef>): object {
  return { ...document, metadata: { ...document.metadata, namespace: 'models-as-a-service' } }
}

function toYaml(documents: readonly object[]): string {
  return documents.map((each) => stringify(each, { aliasDuplicateObjects: false })).join('---\n')
}

function test(title: string, body: (t: Test, kube: KubeServer) => Promise<void>): void {
  root.test(title, { skip: noKubeServer }, async (t) => {
    installed ??= install()
    await body(t, await installed)
  })
}

for (const folder of ['overlays/production', 'overlays/trial', 'crds', 'namespaces']) {
  test(`a strict dry run of ${folder} has no errors`, async (t, kube) => {
    const args = ['apply', '--dry-run=server']
    const { status, output } = kube.kubectl(
      [...args, '--validate=strict', '-f', '-'],
      toYaml(render(folderOf(folder))),
    )
    t.equal(status, 0, output)
    t.notMatch(output, /Warning: (?!version)/)
    const misspelt = toYaml(render(folderOf(folder))).replace('metadata:', 'metdata:')
    t.not(kube.kubectl([...args, '--validate=strict', '-f', '-'], misspelt).status, 0)
  })
}

test('every pod meets the restricted standard', async (t, kube) => {
  const path = '/api/v1/namespaces/tollgate/pods?dryRun=All'
  const pods = [...podsOf(overlays.production), ...podsOf(overlays.trial)]
  t.ok(pods.length > 5)
  for (const { name, spec } of pods) {
    const create = (spec: object) =>
      kube.client.send({
        method: 'POST',
        path,
        body: { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'try' }, spec },
      })
    await t.resolves(create(spec), name)
    const [first] = spec.containers
    const loose = { ...spec, containers: [{ ...first, securityContext: {} }] }
    await t.rejects(create(loose), { status: 403, message: /violates PodSecurity/ }, name)
  }
})

test('the gateway account can read all resources', async (t, kube) => {
  const problems: string[] = []
  const closing = new AbortController()
  t.teardown(() => closing.abort())
  const source = createClusterSource({
    client: createClient(await kube.accessAs('tollgate', 'tollgate-gateway')),
    groups: ['tollgate.dev', 'maas.opendatahub.io'],
    onProblem: (collection, problem) => void problems.push(`${collection}: ${problem}`),
  })
  const documents = await source.next(closing.signal)
  t.ok(documents)
  t.strictSame(problems, [])
})

test('no account can read what it does not need', async (t, kube) => {
  for (const account of ['tollgate-gateway', 'tollgate-controller']) {
    const client = createClient(await kube.accessAs('tollgate', account))
    for (const path of [
      '/api/v1/secrets',
      '/api/v1/namespaces/tollgate/secrets',
      '/api/v1/namespaces/tollgate/secrets/tollgate-stores',
      '/api/v1/namespaces/llm/secrets/provider',
      '/api/v1/configmaps',
      '/apis/maas.opendatahub.io/v1alpha1/aitenants',
      '/api/v1/namespaces/kube-system/pods',
      '/apis/rbac.authorization.k8s.io/v1/clusterroles',
    ]) {
      await t.rejects(client.send({ path }), forbidden, `${account} ${path}`)
    }
    const path = '/apis/tollgate.dev/v1alpha1/namespaces/llm/modelrefs/small'
    await t.rejects(client.send({ method: 'DELETE', path }), forbidden, account)
  }
})

test('reads only the Secret that a Role names', async (t, kube) => {
  const page = readFileSync(join(packageRoot, 'docs', 'kubernetes.md'), 'utf8')
  const role = [...page.matchAll(/```yaml\n(.*?)```/gs)].find(([, text]) =>
    text?.includes('secrets]'),
  )
  t.equal(kube.kubectl(['apply', '-f', '-'], role?.[1]).status, 0)
  for (const name of ['provider', 'other']) {
    kube.kubectl(['-n', 'llm', 'create', 'secret', 'generic', name, '--from-literal=api-key=x'])
  }
  const client = createClient(await kube.accessAs('tollgate', 'tollgate-gateway'))
  const secret = (name: string) => client.send({ path: `/api/v1/namespaces/llm/secrets/${name}` })
  t.match(await secret('provider'), { data: { 'api-key': 'eA==' } })
  await t.rejects(secret('other'), forbidden)
})

test('the controller writes statuses and holds a valid Lease', async (t, kube) => {
  const lines: string[] = []
  const controller = await startClusterController({
    config: loadConfig({
      RESOURCES: 'kubernetes',
      KUBECONFIG: await kube.kubeconfigFor('tollgate', 'tollgate-controller'),
      LEASE_NAME: 'tollgate/tollgate-controller',
    }),
    log: pino({ level: 'warn' }, { write: (line) => void lines.push(line) }),
    clock: Date.now,
    leaseMs: [3_000, 1_000],
  })
  const statusOf = async (path: string) => (await kube.client.send({ path })).status
  const kinds = '/apis/tollgate.dev/v1alpha1/namespaces'
  const lease = '/apis/coordination.k8s.io/v1/namespaces/tollgate/leases/tollgate-controller'
  try {
    for (const path of [
      `${kinds}/llm/modelrefs/small`,
      `${kinds}/models-as-a-service/accesspolicies/everybody`,
      `${kinds}/models-as-a-service/subscriptions/all`,
    ]) {
      await poll(async () => await statusOf(path), path, 60_000)
      t.match(await statusOf(path), { phase: String, observedGeneration: 1 }, path)
    }
    t.match((await kube.client.send({ path: lease })).spec, { holderIdentity: /./ })
    const { output } = kube.kubectl(['get', 'tollgate', '-A'])
    t.match(output, /modelref.tollgate.dev\/small +(Ready|Pending)/)
  } finally {
    await controller.stop()
  }
  t.match((await kube.client.send({ path: lease })).spec, { holderIdentity: '' })
  t.strictSame(lines, [])
})

test('a status is stored with every character of its messages', async (t, kube) => {
  const client = createClient(await kube.accessAs('tollgate', 'tollgate-controller'))
  const path = '/apis/tollgate.dev/v1alpha1/namespaces/llm/modelrefs/small'
  const place = { path, apiVersion: 'tollgate.dev/v1alpha1', kind: 'ModelRef' }
  const message = `a\x7f\x80\u0085\u2028\ufeff\uffff"\\\n😀${'😀'.slice(1)}`
  const ready = { type: 'Ready', status: 'False', reason: 'ReconcileFailed', message } as const
  const status = toConditions([ready], { before: undefined, generation: 1, now: 0 })
  const now = { metadata: { name: 'small', namespace: 'llm' } }
  const stored = await client.send(applyStatus(place, now, status) as KubeRequest)
  t.equal(applyStatus(place, { ...now, status: stored.status }, status), undefined)
})

test('a field of a status that others have written, too, is removed', async (t, kube) => {
  const client = createClient(await kube.accessAs('tollgate', 'tollgate-controller'))
  const path = '/apis/tollgate.dev/v1alpha1/namespaces/llm/modelrefs/small'
  const place = { path, apiVersion: 'tollgate.dev/v1alpha1', kind: 'ModelRef' }
  const { conditions, observedGeneration } = toConditions([], {
    ...{ before: undefined, generation: 1, now: 0 },
  })
  const status = (endpoint: string | undefined) => ({ conditions, observedGeneration, endpoint })
  const now = async () => (await kube.client.send({ path })) as unknown as KubeObject
  const write = async (endpoint: string | undefined) => {
    const request = applyStatus(place, await now(), status(endpoint))
    if (request !== undefined) await client.send(request)
  }
  await write('http://old')
  const body = { status: { endpoint: 'http://restored' } }
  const contentType = 'application/merge-patch+json'
  await kube.client.send({ method: 'PATCH', path: `${path}/status`, contentType, body })
  await write(undefined)
  t.notOk('endpoint' in ((await now()).status as object))
  t.equal(applyStatus(place, await now(), status(undefined)), undefined)
  await write('http://new')
  t.match((await now()).status, { endpoint: 'http://new' })
})

test('cluster tokens can create keys, and cluster roles make administrators', async (t, kube) => {
  for (const account of ['alice', 'ops']) {
    kube.kubectl(['-n', 'llm', 'create', 'serviceaccount', account])
  }
  const namespace = ['-n', 'models-as-a-service']
  kube.kubectl([
    ...[...namespace, 'create', 'role', 'admins', '--verb=create'],
    '--resource=accesspolicies.tollgate.dev',
  ])
  kube.kubectl([
    ...[...namespace, 'create', 'rolebinding', 'admins', '--role=admins'],
    '--serviceaccount=llm:ops',
  ])
  const service = await serve({
    RESOURCES: 'kubernetes',
    KUBERNETES_TOKEN_REVIEW: 'true',
    KUBECONFIG: await kube.kubeconfigFor('tollgate', 'tollgate-gateway'),
    DATABASE_URL: await createDatabase(t),
    DATA_DIR: temporaryFolder(t),
    ...{ API_ADDRESS: '127.0.0.1:0', INTERNAL_ADDRESS: '127.0.0.1:0', GRPC_ADDRESS: '127.0.0.1:0' },
    ...{ METRICS_ADDRESS: 'off', LOG_LEVEL: 'silent', AUDIT_LOG: 'off' },
  })
  t.teardown(() => service.stop())
  const url = `http://${formatAddress(service.addresses.api)}`
  const ask = async (token: string, path: string, body: object) => {
    const answer = await fetch(`${url}${path}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
    return { status: answer.status, body: (await answer.json()) as Record<string, unknown> }
  }
  const alice = await kube.tokenFor('llm', 'alice')
  const made = await ask(alice, '/v1/api-keys', { name: 'first' })
  t.equal(made.status, 201, JSON.stringify(made.body))
  t.match(made.body, { key: /^sk-tg-/, subscription: 'all' })
  const elsewhere = await kube.tokenFor('llm', 'alice', 'vault')
  t.equal(
    (await ask(elsewhere, '/v1/api-keys', { name: 'second' })).status,
    401,
    'another audience',
  )
  t.equal((await ask(`${alice}x`, '/v1/api-keys', { name: 'third' })).status, 401)
  const others = { filters: { username: 'system:serviceaccount:llm:alice' } }
  const ops = await kube.tokenFor('llm', 'ops')
  const seen = await ask(ops, '/v1/api-keys/search', others)
  t.equal(seen.status, 200, JSON.stringify(seen.body))
  t.match(seen.body, { data: [{ name: 'first' }] })
  const bob = await kube.tokenFor('tollgate', 'default')
  t.equal((await ask(bob, '/v1/api-keys/search', others)).status, 403)
})

// The last one: nothing is installed after it.
test('what people wrote outlives the deletion of the overlay', async (t, kube) => {
  const { status, output } = kube.kubectl(['delete', '-k', folderOf('overlays/production')])
  t.equal(status, 0, output)
  const { output: left } = kube.kubectl(['get', 'modelrefs,accesspolicies,subscriptions', '-A'])
  for (const name of ['small', 'everybody', 'all']) t.match(left, name)
  t.not(kube.kubectl(['-n', 'tollgate', 'get', 'deployment', 'tollgate-gateway']).status, 0)
})
