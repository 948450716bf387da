import { execFileSync, spawnSync } from 'node:child_process'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { Ajv } from 'ajv'
import { test } from 'tap'
import { parse, parseAllDocuments, stringify } from 'yaml'
import { type Manifest, nameOf, render } from '../../k8s/render.ts'
import { renderChart } from '../../k8s/write-chart.ts'
import { folderOf } from '../support/kubernetes/manifests.ts'
import { findProgram } from '../support/kubernetes/programs.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const chart = folderOf('chart')

const helm = findProgram('helm')
const noHelm = helm === undefined && 'no helm (go install helm.sh/helm/v3/cmd/helm@v3.19.0)'

/** The objects in a YAML stream by name. */
function read(text: string): Readonly<Record<string, Manifest>> {
  const manifests = parseAllDocuments(text).map((document) => document.toJS() as Manifest | null)
  return byName(manifests.filter((each) => each !== null))
}

function byName(manifests: readonly Manifest[]): Readonly<Record<string, Manifest>> {
  const entries = manifests.map((each) => [nameOf(each), each] as const)
  return Object.fromEntries(entries.sort(([one], [other]) => (one < other ? -1 : 1)))
}

function template(...args: readonly string[]) {
  const all = ['template', 'tollgate', chart, '--include-crds', ...args]
  return spawnSync(helm ?? '', all, { encoding: 'utf8', maxBuffer: 2 ** 24 })
}

const run = (tool: string, ...args: readonly string[]): string =>
  execFileSync(tool, args, { encoding: 'utf8', maxBuffer: 2 ** 24 })
const namesOfSettings = (text: string) => new Set(text.match(/tollgate-settings\S*/g))
const withoutDigests = (text: string) => text.replaceAll(/(tollgate-settings)-\w{10}/g, '$1')

const folders = ['namespaces', 'crds', 'base', 'overlays/production', 'overlays/trial']

test('the chart in the repository matches the overlay', async (t) => {
  const rendered = renderChart()
  const kept = readdirSync(chart, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name).slice(chart.length + 1))
  t.strictSame([...rendered.keys()].sort(), kept.sort(), 'run: npm run chart')
  for (const [name, text] of rendered) {
    t.equal(text, readFileSync(join(chart, name), 'utf8'), `${name}, or run: npm run chart`)
  }
})

for (const [name, command, source] of [
  ['kustomize', 'build', 'go install sigs.k8s.io/kustomize/kustomize/v5@v5.7.1'],
  ['kubectl', 'kustomize', 'with Kubernetes'],
] as const) {
  const tool = findProgram(name) ?? ''
  const skip = tool === '' && `no ${name} (${source})`
  test(`renders the folders like ${name}`, { skip }, async (t) => {
    for (const folder of folders) {
      const theirs = read(withoutDigests(run(tool, command, folderOf(folder))))
      t.strictSame(byName(render(folderOf(folder))), theirs, folder)
    }
    const [production, takeOver, folder] = [
      folderOf('overlays/production'),
      folderOf('components/take-over'),
      temporaryFolder(t),
    ]
    const kustomization = {
      resources: [relative(folder, production)],
      components: [relative(folder, takeOver)],
    }
    writeFileSync(join(folder, 'kustomization.yaml'), stringify(kustomization))
    const text = run(tool, command, folder)
    t.strictSame(byName(render(folder)), read(withoutDigests(text)), 'with a component')
    const [before, after] = [run(tool, command, production), text].map(namesOfSettings)
    t.equal(before?.size, 1, 'the ConfigMap and the pods that use it')
    t.equal(after?.size, 1)
    t.notSame(after, before, 'other settings have another name, so that the pods are replaced')
  })
}

test('values are checked, settings by their names', async (t) => {
  const read = (name: string) => readFileSync(join(chart, name), 'utf8')
  const isValid = new Ajv({ strict: false }).compile(JSON.parse(read('values.schema.json')))
  const defaults = parse(read('values.yaml'))
  t.ok(isValid(defaults), JSON.stringify(isValid.errors))
  const settings = (more: object) => ({ ...defaults, settings: { ...defaults.settings, ...more } })
  for (const good of [
    { METER_PATHS: 'chat' },
    { DATABASE_URL_FILE: '/run/url' },
    { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4317' },
  ]) {
    t.ok(isValid(settings(good)), JSON.stringify(good))
  }
  for (const wrong of [
    settings({ METER_PATH: 'chat' }),
    settings({ METER_PATHS: 1 }),
    // The chart sets them.
    settings({ METRICS_ADDRESS: 'off' }),
    settings({ LEASE_NAME: 'mine' }),
    settings({ RESOURCES_FILE: '/run/resources' }),
    // The chart sets their files, and no pod starts with both.
    settings({ DATABASE_URL: 'postgres://db/tollgate' }),
    settings({ REDIS_URL: 'redis://redis' }),
    // Its probes are without TLS.
    settings({ TLS_CERT_FILE: '/tls/tls.crt' }),
    { ...defaults, imagePullSecret: [] },
    { ...defaults, tolerations: {} },
    // Pods are selected by the labels, and replaced by the annotation.
    { ...defaults, podLabels: { 'app.kubernetes.io/name': 'mine' } },
    { ...defaults, podLabels: { 'app.kubernetes.io/component': 'mine' } },
    { ...defaults, labels: { 'app.kubernetes.io/name': 'mine' } },
    { ...defaults, podAnnotations: { 'checksum/settings': 'mine' } },
    { ...defaults, podAnnotations: { 'example.com/port': 9464 } },
    { ...defaults, nodeSelector: { gpu: true } },
    // They have a value beside, and no pod starts with both.
    settings({ GATEWAY_URL_FILE: '/run/url' }),
    settings({ LOG_LEVEL_FILE: '/run/level' }),
    // The probe's scheme follows from it.
    settings({ GATEWAY_TLS_CERT_FILE_FILE: '/run/path' }),
    { ...defaults, monitoring: { rules: { runbookUrl: 'docs/runbook.md' } } },
  ]) {
    t.notOk(isValid(wrong))
  }
})

test('a refusal of a value says where it is', { skip: noHelm }, async (t) => {
  for (const [path, message] of [
    ['settings.LOGLEVEL', "at '/settings': additional properties 'LOGLEVEL' not allowed"],
    [
      'podLabels.app\\.kubernetes\\.io/name',
      "at '/podLabels/app.kubernetes.io~1name': false schema",
    ],
  ] as const) {
    const { status, stderr } = template('--set-string', `${path}=mine`)
    t.not(status, 0)
    t.ok(stderr.includes(message), stderr)
    t.ok(stderr.length < 500)
  }
})

test('no container has a setting of its own that values accept', async (t) => {
  const { properties } = JSON.parse(readFileSync(join(chart, 'values.schema.json'), 'utf8'))
  const accepted = Object.keys(properties.settings.properties)
  const own = [...renderChart().values()].flatMap((text) =>
    [...text.matchAll(/- name: ([A-Z_]+)$/gm)].map(([, name = '']) => name),
  )
  t.ok(own.includes('USAGE_JOURNAL'))
  // The URLs of the stores come from the Secret, or from another file.
  const both = own.filter((name) => accepted.includes(name) && !/^(DATABASE|REDIS)_/.test(name))
  t.strictSame(both, [])
  for (const name of ['ENVOY_HEAP_BYTES', 'KUBERNETES_TOKEN_REVIEW']) {
    t.ok(accepted.includes(name), name)
  }
})

test('names carry the release', async (t) => {
  for (const [name, text] of renderChart()) {
    if (!name.startsWith('templates/') || name.endsWith('.txt')) continue
    const own = text.match(/^ {2}name: .*$/m)?.[0] ?? ''
    t.match(own, '.Release.Name', name)
    t.notMatch(text, /\b(HELM|WITH|EACH|ELSE)\b/, `${name}: nothing is left to be written out`)
    const label = text.match(/app\.kubernetes\.io\/name: tollgate/)
    t.equal(label, null, `${name}: pods are selected by the release`)
  }
})

const others = ['template', 'other', chart, '--namespace', 'elsewhere']

test('two releases share no object of the cluster', { skip: noHelm }, async (t) => {
  const objects = Object.values(
    read(run(helm ?? '', ...others, '--set', 'controller.enabled=false')),
  )
  for (const { kind, metadata } of objects) t.match(metadata.name, /^other-/, kind)
  t.notMatch(JSON.stringify(objects), /tollgate-gateway|"tollgate-internal|models-write/)
})

test('what only some clusters have is rendered if it is asked for', { skip: noHelm }, async (t) => {
  const file = join(temporaryFolder(t), 'values.yaml')
  const pods = {
    imagePullSecrets: [{ name: 'pull' }],
    nodeSelector: { pool: 'gate' },
    tolerations: [{ key: 'gate', operator: 'Exists' }],
    affinity: { nodeAffinity: {} },
  }
  writeFileSync(
    file,
    stringify({
      ...pods,
      labels: { team: 'platform' },
      annotations: { note: 'a' },
      podLabels: { mesh: 'none' },
      podAnnotations: { scrape: 'never' },
      extraEnv: [{ name: 'X', value: 'z' }],
      extraVolumes: [{ name: 'ca', configMap: { name: 'ca' } }],
      extraVolumeMounts: [{ name: 'ca', mountPath: '/ca' }],
      gateway: { topologySpreadConstraints: [{ maxSkew: 2 }] },
      ingress: { enabled: true, hosts: ['models.example'], className: 'nginx' },
      httpRoute: { enabled: true, parentRefs: [{ name: 'front' }], hostnames: ['models.example'] },
      monitoring: {
        podMonitor: { enabled: true },
        rules: { enabled: true, runbookUrl: 'https://wiki.example/runbook' },
        dashboards: { enabled: true },
      },
    }),
  )
  const objects = read(run(helm ?? '', ...others, '--values', file))
  const all = Object.values(objects)
  const count = (kind: string) => all.filter((each) => each.kind === kind).length
  for (const kind of ['Ingress', 'HTTPRoute', 'PodMonitor', 'PrometheusRule']) {
    t.equal(count(kind), 1, kind)
  }
  t.equal(count('ConfigMap'), 4, 'the settings, and three dashboards')
  const rules = JSON.stringify(all.find(({ kind }) => kind === 'PrometheusRule'))
  t.match(rules, 'https://wiki.example/runbook#tollgatedown')
  t.match(rules, '{{ $labels.instance }}')
  for (const each of all.filter(({ kind }) => /^(Deployment|CronJob)$/.test(kind))) {
    const text = JSON.stringify(each)
    for (const part of Object.entries(pods)) {
      t.ok(text.includes(JSON.stringify(Object.fromEntries([part])).slice(1, -1)), part[0])
    }
    t.match(text, '"mesh":"none"')
    t.match(text, '"scrape":"never"')
    if (each.kind === 'Deployment') t.match(text, '"mountPath":"/ca"')
  }
  const deployments = JSON.stringify(all.filter(({ kind }) => kind === 'Deployment'))
  for (const part of ['"maxSkew":2', '"name":"X"', '"configMap":{"name":"ca"}']) {
    t.match(deployments, part)
  }
  for (const each of all) t.match(each.metadata, { labels: { team: 'platform' } }, each.kind)
})

test('the chart renders the production overlay and the definitions', {
  skip: noHelm,
}, async (t) => {
  const { stdout, stderr } = template('--namespace', 'tollgate')
  t.equal(stderr, '')
  const all = ['crds', 'overlays/production'].flatMap((name) => render(folderOf(name)))
  const text = stdout.replaceAll(/( +annotations:\n)? +checksum\/settings: .*\n/g, '')
  t.strictSame(read(text), byName(all))
})

test('helm lint finds no problem', { skip: noHelm }, async (t) => {
  const { status, stdout } = spawnSync(helm ?? '', ['lint', '--strict', chart], {
    encoding: 'utf8',
  })
  t.equal(status, 0, stdout)
})

test('values change the objects', { skip: noHelm }, async (t) => {
  const { stdout, stderr } = template(
    ...['--namespace', 'gate', '--set', 'image=registry.example/tollgate@sha256:0'],
    ...['--set', 'settings.GATEWAY_URL=https://models.example', '--set', 'storesSecret=stores'],
    ...['--set', 'podSecurityContext.runAsUser=null', '--set', 'autoscaling.enabled=false'],
    ...['--set', 'networkPolicies.enabled=false', '--set', 'controller.replicas=1'],
    ...['--set', 'envoy.concurrency=4', '--set-string', 'settings.DRAIN_SECONDS=900'],
    ...['--set', 'gateway.journalSize=1Gi', '--set', 'gateway.dataSize=5Gi'],
  )
  t.equal(stderr, '')
  const objects = Object.values(read(stdout))
  const text = JSON.stringify(objects)
  t.notMatch(text, /"namespace":"tollgate"|tollgate:0|runAsUser|"tollgate-stores"/)
  t.match(text, 'registry.example/tollgate@sha256:0')
  t.match(text, '"GATEWAY_URL":"https://models.example"')
  t.match(text, '"secretName":"stores"')
  t.match(text, '"--concurrency","4"')
  t.match(text, '"terminationGracePeriodSeconds":930')
  t.match(text, '{"medium":"Memory","sizeLimit":"1Gi"}')
  t.match(text, '{"sizeLimit":"5Gi"}')
  t.notOk(objects.some(({ kind }) => /Policy$|Autoscaler$/.test(kind) && kind !== 'AccessPolicy'))
  const controller = objects.find(({ metadata }) => metadata.name === 'tollgate-controller')
  t.ok(controller)
})

test('values that an older chart lacked have their defaults', { skip: noHelm }, async (t) => {
  const older = ['envoy.concurrency', 'gateway.journalSize', 'gateway.dataSize']
  const { stdout } = template(...older.flatMap((name) => ['--set', `${name}=null`]))
  t.strictSame(read(stdout), read(template().stdout))
})

test('the URLs of the stores may come from other files', { skip: noHelm }, async (t) => {
  const found = (...settings: readonly string[]) => {
    const set = settings.flatMap((each) => ['--set', `settings.${each}`])
    const objects = read(template(...set).stdout)
    return ['gateway', 'controller'].map((name) => {
      const text = JSON.stringify(objects[`Deployment default/tollgate-${name}`])
      const files = text.match(/(?<="name":"(DATABASE|REDIS)_URL_FILE","value":")[^"]*/g)
      return [...(files ?? []), text.includes('"optional":true')]
    })
  }
  const folder = '/var/run/secrets/tollgate/stores'
  const [database, redis] = [`${folder}/database-url`, `${folder}/redis-url`]
  t.strictSame(found(), [
    [database, redis, false],
    [database, false],
  ])
  // The Secret still has the other one.
  t.strictSame(found('DATABASE_URL_FILE=/vault/db'), [
    ['/vault/db', redis, false],
    ['/vault/db', true],
  ])
  t.strictSame(found('DATABASE_URL_FILE=/vault/db', 'REDIS_URL_FILE=/vault/redis'), [
    ['/vault/db', '/vault/redis', true],
    ['/vault/db', true],
  ])
})

test('maps without an entry count as empty', { skip: noHelm }, async (t) => {
  const on = ['--set', 'ingress.enabled=true,ingress.hosts[0]=a,monitoring.dashboards.enabled=true']
  for (const name of ['ingress.annotations', 'annotations', 'labels', 'podLabels', 'affinity']) {
    t.equal(template(...on, '--set', `${name}=null`).stdout, template(...on).stdout, name)
  }
  const dashboards = template(...on, '--set', 'monitoring.dashboards.labels=null')
  t.equal(dashboards.status, 0, dashboards.stderr)
})

test('a gateway with TLS is asked with TLS', { skip: noHelm }, async (t) => {
  const tls = ['--set', 'settings.GATEWAY_TLS_CERT_FILE=/tls/tls.crt']
  const route = ['--set', 'httpRoute.enabled=true,httpRoute.parentRefs[0].name=front']
  const plain = template(...route).stdout
  const secure = template(...tls, ...route).stdout
  const empty = template('--set', 'settings.GATEWAY_TLS_CERT_FILE=', ...route).stdout
  for (const [text, scheme, port] of [
    [plain, 'http', 80],
    [empty, 'http', 80],
    [secure, 'https', 443],
  ] as const) {
    const objects = read(text)
    const deployment = JSON.stringify(objects['Deployment default/tollgate-gateway'])
    t.match(deployment, `"path":"/health","port":"http","scheme":"${scheme.toUpperCase()}"`)
    const service = JSON.stringify(objects['Service default/tollgate-gateway'])
    t.match(service, `"appProtocol":"${scheme}"`)
    // Where GATEWAY_URL leads.
    t.match(service, `"port":${port},`)
    const forwarded = JSON.stringify(objects['HTTPRoute default/tollgate-gateway'])
    t.match(forwarded, `{"name":"tollgate-gateway","port":${port}}`)
    t.match(text, `"GATEWAY_URL":"${scheme}://tollgate-gateway.`)
  }
})

test('other settings replace the pods that use them', { skip: noHelm }, async (t) => {
  const checksums = (...args: readonly string[]) =>
    template(...args).stdout.match(/(?<=checksum\/settings: ).*/g)
  const before = checksums()
  t.equal(before?.length, 2, 'the gateway and the controller')
  t.strictSame(checksums('--set', 'controller.replicas=3'), before)
  const after = checksums('--set', 'settings.LOG_LEVEL=debug')
  t.equal(after?.length, 2)
  t.notSame(after, before)
})

test('helm names a misspelled or missing value', { skip: noHelm }, async (t) => {
  for (const [wrong, reason] of [
    ['contoller.replicas=1', 'contoller'],
    ['controller.replicas=none', '/controller/replicas'],
    ['settings.LOG_LEVEL=1', '/settings/LOG_LEVEL'],
    ['settings.logLevel=info', 'logLevel'],
    // In a file: `settings:` without an entry.
    ['settings=null', "missing property 'settings'"],
    ['settings.DRAIN_SECONDS_FILE=/a', 'DRAIN_SECONDS_FILE'],
    ['autoscaling.maxReplicas=2', 'maxReplicas: must not be below minReplicas'],
    ['ingress.enabled=true', 'ingress.hosts: name at least one'],
    ['httpRoute.enabled=true', 'httpRoute.parentRefs: name a Gateway'],
  ] as const) {
    const { status, stderr } = template('--set', wrong)
    t.not(status, 0, wrong)
    t.match(stderr, reason, wrong)
  }
  for (const wrong of ['five minutes', '3601', '0']) {
    const text = template('--set-string', `settings.DRAIN_SECONDS=${wrong}`)
    t.not(text.status, 0)
    t.match(text.stderr, '/settings/DRAIN_SECONDS')
  }
})
