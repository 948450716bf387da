/**
 * Trial, production and chart on a cluster with nodes, end to end: that of CLUSTER_KUBECONFIG, or one
 * on this machine. On another cluster, production and chart also need CLUSTER_DATABASE_URL and
 * CLUSTER_REDIS_URL, as pods reach them; the chart needs helm.
 */

import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { type Test, test } from 'tap'
import {
  clusterEnv,
  gatewayPods,
  imageHere,
  kubectl,
  noCluster,
  ownOverlay,
  requestedCpu,
  rolledOut,
} from '../../support/kubernetes/cluster.ts'
import {
  applyProduction,
  askDoctor,
  loadDuring,
  makeKey,
  namespaced,
  noStores,
  prepare,
  prepareStores,
  resources,
  waitForPhase,
} from '../../support/kubernetes/installation.ts'
import { folderOf } from '../../support/kubernetes/manifests.ts'
import { findProgram } from '../../support/kubernetes/programs.ts'
import { ask, askWho, url } from '../../support/kubernetes/user-pod.ts'
import { poll } from '../../support/poll.ts'

const helm = findProgram('helm') ?? ''

const namesOfPods = async () => (await gatewayPods()).map(({ name }) => name)

/** Whether every request is answered with 200 while `act` changes something. */
async function answersDuring(t: Test, key: string, what: string, act: () => Promise<unknown>) {
  const { counts } = await loadDuring(t, { key, what }, act)
  t.strictSame(Object.keys(counts), ['200'], what)
}

/** That a role of the cluster makes an administrator, until it is taken back. */
async function administratorsByRole(t: Test): Promise<void> {
  const there = ['-n', 'models-as-a-service']
  const username = 'system:serviceaccount:llm:alice'
  const role = ['role/soak-administrators', 'rolebinding/soak-administrators']
  const remove = () => kubectl([...there, 'delete', '--ignore-not-found', ...role])
  t.teardown(remove)
  await remove()
  t.match(await askWho(), { status: 200, username, administrator: false })
  const resource = '--resource=accesspolicies.tollgate.dev'
  await kubectl([...there, 'create', 'role', 'soak-administrators', '--verb=create', resource])
  const whose = ['--role=soak-administrators', '--serviceaccount=llm:alice']
  await kubectl([...there, 'create', 'rolebinding', 'soak-administrators', ...whose])
  // A verdict is kept for 30 s.
  const becomes = (expected: boolean) =>
    poll(async () => (await askWho()).administrator === expected, `${expected}`, 60_000)
  await becomes(true)
  await remove()
  await becomes(false)
}

test('the trial answers, limits, and all is in force', { skip: noCluster }, async (t) => {
  await prepare()
  const overlay = ownOverlay(t, 'trial', { GATEWAY_URL: url })
  await kubectl(['apply', '-k', overlay])
  const key = await makeKey(t, 100)
  await kubectl([...namespaced, 'delete', 'job/soak', '--ignore-not-found'])
  await kubectl([...namespaced, 'create', 'job', 'soak', '--from=cronjob/maas-api-key-cleanup'])
  await kubectl([...namespaced, 'wait', '--for=condition=Complete', '--timeout=90s', 'job/soak'])
  t.equal(await ask(key, 'nope'), 403)
  for (const status of [200, 200, 429]) {
    const isSo = async () => (await ask(key, 'sim-small', 64)) === status
    await poll(isSo, `an answer with status ${status}`)
  }
  await waitForPhase('accesspolicies', 'everybody', 'models-as-a-service', 'Active')
  await waitForPhase('subscriptions', 'everybody', 'models-as-a-service', 'Active')
  await waitForPhase('modelrefs', 'sim-small', 'llm', 'Ready')
  t.match(await askDoctor(), /^Nothing is wrong\.$|runbook\.md#tollgateeventlooplate/m)
  await administratorsByRole(t)

  await kubectl(['delete', '-k', overlay])
  t.match(await kubectl(['-n', 'llm', 'get', 'modelrefs.tollgate.dev']), 'sim-small')
  await kubectl(['delete', '--timeout=60s', '-f', resources])
})

test('production answers while pods, settings and a node change', { skip: noStores }, async (t) => {
  await prepareStores()
  await applyProduction(t)
  const key = await makeKey(t)
  await answersDuring(t, key, 'a rolling restart', async () => {
    await kubectl([...namespaced, 'rollout', 'restart', 'deployment/tollgate-gateway'])
    await rolledOut('tollgate-gateway')
  })
  const before = await namesOfPods()
  await answersDuring(t, key, 'other settings', () => applyProduction(t, { LOG_LEVEL: 'debug' }))
  for (const name of await namesOfPods()) t.notOk(before.includes(name), `${name} is a new pod`)
  const [{ node } = { node: '' }] = await gatewayPods()
  t.teardown(() => kubectl(['uncordon', node]))
  await answersDuring(t, key, 'a drained node', () => {
    const flags = ['--delete-emptydir-data', '--ignore-daemonsets', '--timeout=400s']
    return kubectl(['drain', node, ...flags, '--pod-selector=app.kubernetes.io/name=tollgate'])
  })
  await kubectl(['uncordon', node])

  const holder = ['get', 'lease/tollgate-controller', '-o', 'jsonpath={.spec.holderIdentity}']
  const first = await kubectl([...namespaced, ...holder])
  await kubectl([...namespaced, 'delete', 'pod', first.replace(/_.*/, '')])
  const isAnother = async () => {
    const now = await kubectl([...namespaced, ...holder])
    return now !== '' && now !== first
  }
  await poll(isAnother, 'another controller writes', 60_000)
  await kubectl(['delete', '-k', folderOf('overlays/production')])
  t.match(await kubectl(['-n', 'llm', 'get', 'modelrefs.tollgate.dev']), 'sim-small')
})

const noHelm = noStores || (helm === '' && 'no helm')

test('an upgrade of the chart replaces the pods', { skip: noHelm }, async (t) => {
  await prepareStores()
  const run = async (...args: readonly string[]): Promise<string> => {
    const { stdout } = await promisify(execFile)(helm, [...args, ...namespaced], {
      env: clusterEnv,
    })
    t.comment(stdout)
    return stdout
  }
  const cpu = ['gateway', 'envoy'].map((each) => `${each}.resources.requests.cpu=${requestedCpu}`)
  const values = [`image=${imageHere}`, `settings.GATEWAY_URL=${url}`, ...cpu]
  const chart = ['tollgate', folderOf('chart'), '--set', values.join()]
  t.teardown(() => run('uninstall', 'tollgate', '--ignore-not-found'))
  t.match(await run('install', ...chart), 'STATUS: deployed')
  const key = await makeKey(t)
  const before = await namesOfPods()
  await run('upgrade', ...chart, '--set', 'settings.LOG_LEVEL=debug')
  await rolledOut('tollgate-gateway')
  for (const name of await namesOfPods()) t.notOk(before.includes(name), `${name} is a new pod`)
  t.equal(await ask(key), 200)
  await run('uninstall', 'tollgate')
  t.match(await kubectl(['get', 'crd', '-o', 'name']), 'modelrefs.tollgate.dev')
})
