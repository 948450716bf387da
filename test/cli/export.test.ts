import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import { parseAllDocuments, stringify } from 'yaml'
import type { ClusterAccess } from '../../src/kubernetes/client.ts'
import { runAt } from '../support/command.ts'
import { startDouble } from '../support/kubernetes/world.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const apiVersion = 'maas.opendatahub.io/v1alpha1'
const model = (name: string) => ({
  apiVersion,
  kind: 'MaaSModelRef',
  metadata: { name, namespace: 'llm' },
  spec: { modelRef: { kind: 'LLMInferenceService', name } },
})

/** Runs the command; returns its output and its exit status. */
async function run(args: readonly string[], env: NodeJS.ProcessEnv = {}, input = '') {
  const { status, out, err } = await runAt({ env, input }, 'export', ...args)
  const documents = parseAllDocuments(out).map((document) => document.toJS())
  return { status, documents, out, err }
}

test('prints the resources of a cluster in our format', async (t) => {
  const world = await startDouble(t)
  await world.apply(model('granite'))
  await world.apply(model('llama'))
  const folder = temporaryFolder(t)
  const kubeconfig = join(folder, 'config')
  writeFileSync(kubeconfig, stringify(kubeconfigOf(world.access)))
  const { status, documents, err } = await run([], { KUBECONFIG: kubeconfig })
  t.equal(status, 0)
  t.strictSame(
    documents.map(({ apiVersion, kind, metadata }) => [apiVersion, kind, metadata.name]),
    [
      ['tollgate.dev/v1alpha1', 'ModelRef', 'granite'],
      ['tollgate.dev/v1alpha1', 'ModelRef', 'llama'],
    ],
  )
  t.equal(err, '2 resources exported, 0 problems')
})

test('reads lists of kubectl from standard input', async (t) => {
  const list = { apiVersion: 'v1', kind: 'List', items: [model('granite'), { kind: 'Pod' }] }
  const { apiVersion, kind, ...llama } = model('llama')
  // As the API server itself gives it, `kubectl get --raw`.
  const ofKind = { apiVersion, kind: `${kind}List`, items: [llama] }
  const given = [list, ofKind].map((each) => stringify(each)).join('---\n')
  const { status, documents } = await run(['-'], {}, given)
  t.equal(status, 0)
  t.strictSame(
    documents.map(({ metadata }) => metadata.name),
    ['granite', 'llama'],
  )
})

test('reads YAML as the service does: merge keys are merged', async (t) => {
  const text = `apiVersion: ${apiVersion}
kind: MaaSSubscription
metadata: {name: team-a}
spec:
  owner: {users: [ada]}
  modelRefs:
    - &granite {namespace: llm, name: granite, tokenRateLimits: [{limit: 5, window: 1m}]}
    - {<<: *granite, name: llama}
`
  const { status, documents, err } = await run(['-'], {}, text)
  t.equal(status, 0, err)
  t.match(documents, [{ spec: { modelRefs: [{}, { namespace: 'llm', name: 'llama' }] } }])
})

test('reports an invalid resource, with status 1', async (t) => {
  const file = join(temporaryFolder(t), 'all.yaml')
  const broken = { ...model('granite'), spec: {} }
  writeFileSync(file, [model('llama'), broken].map((each) => stringify(each)).join('---\n'))
  const { status, documents, err } = await run([file])
  t.equal(status, 1)
  t.equal(documents.length, 1)
  t.match(err, 'error: MaaSModelRef llm/granite: spec.modelRef is required')
})

test('unreadable input is an error, and invalid arguments print the usage', async (t) => {
  t.match(await run(['-'], {}, 'a: [b'), { status: 1, err: /not valid YAML/ })
  t.match(await run([]), { status: 1, err: /^Name files, or set KUBECONFIG/ })
  t.match(await run([], { KUBECONFIG: '/nowhere' }), {
    ...{ status: 1, err: 'KUBECONFIG: /nowhere cannot be read (ENOENT)' },
  })
  t.match(await run(['/nowhere/at/all.yaml']), {
    ...{ status: 1, err: '/nowhere/at/all.yaml cannot be read (ENOENT).' },
  })
  t.equal((await run(['--nope'])).status, 2)
  t.equal((await run(['--help'])).status, 0)
  t.strictSame((await run(['-'], {}, '')).documents, [])
  t.match(await run(['/dev/zero']), { status: 1, err: '/dev/zero is longer than 64 MiB.' })
})

function kubeconfigOf({ server, token, ca }: ClusterAccess) {
  const data = ca && Buffer.from(ca).toString('base64')
  return {
    'current-context': 'test',
    contexts: [{ name: 'test', context: { cluster: 'test', user: 'test' } }],
    clusters: [
      { name: 'test', cluster: { server, ...(data && { 'certificate-authority-data': data }) } },
    ],
    users: [{ name: 'test', user: { token } }],
  }
}
