/**
 * Trial, production and chart on a cluster with nodes (CLUSTER_KUBECONFIG), end to end. Production and
 * chart also need CLUSTER_DATABASE_URL and CLUSTER_REDIS_URL, as pods reach them; the chart needs helm.
 */

import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { type Test, test } from 'tap'
import { render } from '../../k8s/render.ts'
import {
  clusterEnv,
  gatewayPods,
  imageHere,
  kubectl,
  noCluster,
  ownOverlay,
  rolledOut,
  runThere,
  startUser,
} from '../support/kubernetes/cluster.ts'
import { folderOf } from '../support/kubernetes/manifests.ts'
import { findProgram } from '../support/kubernetes/programs.ts'

const { CLUSTER_DATABASE_URL = '', CLUSTER_REDIS_URL = '' } = process.env
const noStores =
  noCluster ||
  ((!CLUSTER_DATABASE_URL || !CLUSTER_REDIS_URL) && 'no CLUSTER_DATABASE_URL, _REDIS_URL')
const helm = findProgram('helm') ?? ''
const resources = join(folderOf('overlays/trial'), 'resources.yaml')
const url = 'http://tollgate-gateway.tollgate'
const namespaced = ['-n', 'tollgate']

const newKey = `
const { URL: url, TOKEN: token } = process.env
const headers = { authorization: 'Bearer ' + token, 'content-type': 'application/json' }
const made = await fetch(url + '/v1/api-keys', { method: 'POST', headers, body: '{"name":"soak"}' })
console.log(JSON.stringify({ status: made.status, ...await made.json() }))`

const chat = `
const { URL: url, KEY: key, MODEL: model, TOKENS: tokens } = process.env
const headers = { authorization: 'Bearer ' + key, 'content-type': 'application/json' }
const body = JSON.stringify({ model, max_tokens: +tokens, messages: [{ role: 'user', content: 'Hi' }] })
const { status } = await fetch(url + '/v1/chat/completions', { method: 'POST', headers, body })
console.log(status)`

/** 40 requests a second on kept connections; counts results. */
const load = `
import { Agent, request } from 'node:http'
const { URL: url, KEY: key, SECONDS: seconds } = process.env
const agent = new Agent({ keepAlive: true, maxSockets: 24 })
const headers = { authorization: 'Bearer ' + key, 'content-type': 'application/json' }
const body = JSON.stringify({ model: 'sim-small', max_tokens: 2, messages: [{ role: 'user', content: 'Hi' }] })
const counts = {}
const one = () => new Promise((done) => {
  const end = (result) => done(counts[result] = (counts[result] ?? 0) + 1)
  request(url + '/v1/chat/completions', { method: 'POST', agent, headers, timeout: 20_000 }, (answer) =>
    answer.resume().on('end', () => end(answer.statusCode)).on('error', ({ code }) => end(code)))
    .on('timeout', function () { this.destroy(new Error('no answer')) })
    .on('error', ({ code, message }) => end(code ?? message)).end(body)
})
const all = []
for (let sent = 0; sent < seconds * 40; sent += 1) {
  all.push(one())
  await new Promise((next) => setTimeout(next, 25))
}
await Promise.all(all)
console.log(JSON.stringify(counts))`

/** What comes before every installation; whatever an earlier one left is removed. */
function prepare(): void {
  for (const name of ['trial', 'production']) {
    kubectl(['delete', '--ignore-not-found', '-k', folderOf(`overlays/${name}`)])
  }
  kubectl(['apply', '-k', folderOf('namespaces')])
  kubectl(['apply', '-k', folderOf('crds')])
  const definitions = render(folderOf('crds')).map(({ metadata }) => `crd/${metadata.name}`)
  kubectl(['wait', '--for=condition=Established', '--timeout=60s', ...definitions])
}

/** Applies the trial's resources with this limit an hour, and makes a key as a user would. */
async function makeKey(t: Test, limit = 100_000_000): Promise<string> {
  const written = readFileSync(resources, 'utf8').replace(/limit: \d+/, `limit: ${limit}`)
  kubectl(['apply', '-f', '-'], written)
  rolledOut('tollgate-gateway')
  startUser()
  const token = kubectl(['-n', 'llm', 'create', 'token', 'alice']).trim()
  const made = (await runThere(newKey, { URL: url, TOKEN: token })) as {
    status: number
    key: string
  }
  t.equal(made.status, 201)
  return made.key
}

const ask = (key: string, model = 'sim-small', tokens = 2) =>
  runThere(chat, { URL: url, KEY: key, MODEL: model, TOKENS: `${tokens}` })

/** Whether every request is answered with 200 while `act` changes something. */
async function answersDuring(t: Test, key: string, what: string, act: () => void) {
  const answered = runThere(load, { URL: url, KEY: key, SECONDS: '120' })
  // The load has begun when the first connections are there.
  await setTimeout(5_000)
  act()
  const counts = (await answered) as Record<string, number>
  t.comment(`${what}: ${JSON.stringify(counts)}`)
  t.strictSame(Object.keys(counts), ['200'], what)
}

function waitForPhase(kind: string, name: string, namespace: string, phase: string): void {
  const wish = `--for=jsonpath={.status.phase}=${phase}`
  kubectl(['-n', namespace, 'wait', wish, '--timeout=120s', `${kind}.tollgate.dev/${name}`])
}

test('the trial answers, limits, and everything is in force', { skip: noCluster }, async (t) => {
  prepare()
  const overlay = ownOverlay(t, 'trial', { GATEWAY_URL: url })
  kubectl(['apply', '-k', overlay])
  kubectl([...namespaced, 'delete', 'job/soak', '--ignore-not-found'])
  kubectl([...namespaced, 'create', 'job', 'soak', '--from=cronjob/maas-api-key-cleanup'])
  const key = await makeKey(t, 10_000)
  kubectl([...namespaced, 'wait', '--for=condition=Complete', '--timeout=90s', 'job/soak'])
  t.equal(await ask(key), 200)
  t.equal(await ask(key, 'nope'), 403)
  for (const status of [200, 200, 429]) {
    t.equal(await ask(key, 'sim-small', 9_000), status)
    await setTimeout(3_000)
  }
  waitForPhase('accesspolicies', 'everybody', 'models-as-a-service', 'Active')
  waitForPhase('subscriptions', 'everybody', 'models-as-a-service', 'Active')
  waitForPhase('modelrefs', 'sim-small', 'llm', 'Ready')
  const doctor = [
    'exec',
    'deployment/tollgate-gateway',
    '-c',
    'tollgate',
    '--',
    'tollgate',
    'doctor',
  ]
  t.match(kubectl([...namespaced, ...doctor]), 'Nothing is wrong.')

  kubectl(['delete', '-k', overlay])
  t.match(kubectl(['-n', 'llm', 'get', 'modelrefs.tollgate.dev']), 'sim-small')
  kubectl(['delete', '--timeout=60s', '-f', resources])
})

/** The Secret of the stores, and the model server of the trial. */
function prepareStores(): void {
  prepare()
  const literals = { 'database-url': CLUSTER_DATABASE_URL, 'redis-url': CLUSTER_REDIS_URL }
  kubectl([...namespaced, 'delete', 'secret/tollgate-stores', '--ignore-not-found'])
  kubectl([
    ...[...namespaced, 'create', 'secret', 'generic', 'tollgate-stores'],
    ...Object.entries(literals).map(([name, value]) => `--from-literal=${name}=${value}`),
  ])
  kubectl(['apply', '-f', join(folderOf('overlays/trial'), 'sample-model.yaml')])
  const setImage = ['set', 'image', 'deployment/sample-model', `sample-model=${imageHere}`]
  kubectl([...namespaced, ...setImage])
}

test('production answers while pods, settings and a node change', { skip: noStores }, async (t) => {
  prepareStores()
  kubectl(['apply', '-k', ownOverlay(t, 'production', { GATEWAY_URL: url })])
  const key = await makeKey(t)
  await answersDuring(t, key, 'a rolling restart', () => {
    kubectl([...namespaced, 'rollout', 'restart', 'deployment/tollgate-gateway'])
    rolledOut('tollgate-gateway')
  })
  const before = gatewayPods().map(({ name }) => name)
  await answersDuring(t, key, 'other settings', () => {
    kubectl(['apply', '-k', ownOverlay(t, 'production', { GATEWAY_URL: url, LOG_LEVEL: 'debug' })])
    rolledOut('tollgate-gateway')
  })
  for (const { name } of gatewayPods()) t.notOk(before.includes(name), `${name} is a new pod`)
  const [{ node } = { node: '' }] = gatewayPods()
  t.teardown(() => kubectl(['uncordon', node]))
  await answersDuring(t, key, 'a drained node', () => {
    const flags = ['--delete-emptydir-data', '--ignore-daemonsets', '--timeout=400s']
    kubectl(['drain', node, ...flags, '--pod-selector=app.kubernetes.io/name=tollgate'])
  })
  kubectl(['uncordon', node])
  kubectl(['delete', '-k', folderOf('overlays/production')])
  t.match(kubectl(['-n', 'llm', 'get', 'modelrefs.tollgate.dev']), 'sim-small')
})

const noHelm = noStores || (helm === '' && 'no helm')

test('an upgrade of the chart replaces the pods', { skip: noHelm }, async (t) => {
  prepareStores()
  const run = (...args: readonly string[]): string =>
    execFileSync(helm, [...args, ...namespaced], { env: clusterEnv, encoding: 'utf8' })
  const chart = ['tollgate', folderOf('chart'), '--set', `image=${imageHere}`]
  t.teardown(() => run('uninstall', 'tollgate', '--ignore-not-found'))
  t.match(run('install', ...chart, '--set', `settings.GATEWAY_URL=${url}`), 'STATUS: deployed')
  const key = await makeKey(t)
  t.equal(await ask(key), 200)
  const before = gatewayPods().map(({ name }) => name)
  run(
    'upgrade',
    ...chart,
    '--set',
    `settings.GATEWAY_URL=${url}`,
    '--set',
    'settings.LOG_LEVEL=debug',
  )
  rolledOut('tollgate-gateway')
  for (const { name } of gatewayPods()) t.notOk(before.includes(name), `${name} is a new pod`)
  t.equal(await ask(key), 200)
  run('uninstall', 'tollgate')
  t.match(kubectl(['get', 'crd', '-o', 'name']), 'modelrefs.tollgate.dev')
})
