import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Test, test } from 'tap'
import { type Manifest, nameOf, readManifests, render } from '../../k8s/render.ts'
import { parseResource } from '../../src/models/rules/reading/parse-resource.ts'
import { packageRoot } from '../../src/runtime/package-root.ts'
import { settings } from '../../src/settings/all-settings.ts'
import { loadConfig } from '../../src/settings/config.ts'
import {
  type Container,
  environmentOf,
  folderOf,
  overlays,
  type Pod,
  podsOf,
} from '../support/kubernetes/manifests.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const k8s = join(packageRoot, 'k8s')
const settingsName = 'tollgate-settings'

/** Runs the test for each overlay. */
function inOverlays(
  title: string,
  body: (t: Test, manifests: readonly Manifest[], pods: readonly Pod[]) => void,
): void {
  for (const [name, manifests] of Object.entries(overlays)) {
    test(`${title}, in ${name}`, async (t) => body(t, manifests, podsOf(manifests)))
  }
}

const { version } = JSON.parse(readFileSync(join(packageRoot, 'package.json'), 'utf8'))
const named = (pods: readonly Pod[], name: string): Pod =>
  pods.find((pod) => pod.name === name) as Pod
const gatewayName = 'Deployment tollgate/tollgate-gateway'

inOverlays('every pod is restricted', (t, _manifests, pods) => {
  t.ok(pods.length >= 3)
  for (const { name, spec, containers } of pods) {
    t.match(
      spec.securityContext,
      { runAsNonRoot: true, runAsUser: 65_532, seccompProfile: { type: 'RuntimeDefault' } },
      name,
    )
    t.equal(spec.automountServiceAccountToken, false, name)
    for (const field of ['hostNetwork', 'hostPID', 'hostIPC']) t.notOk(spec[field], name)
    for (const volume of spec.volumes ?? []) t.notOk(volume.hostPath, name)
    for (const each of containers) {
      t.strictSame(
        each.securityContext,
        {
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ['ALL'] },
        },
        `${name} ${each.name}`,
      )
    }
  }
})

inOverlays('only containers that use a service account token mount it', (t, _manifests, pods) => {
  const mounting = pods.flatMap((pod) =>
    pod.containers
      .filter((each) => each.volumeMounts?.some(({ name }) => name === 'service-account'))
      .map(({ name }) => name),
  )
  t.strictSame(mounting.sort(), ['controller', 'tollgate'])
})

inOverlays('every listener of a pod is for IPv4 and IPv6', (t, _manifests, pods) => {
  const tcp = pods
    .flatMap(({ containers }) => containers.flatMap(({ env = [] }) => env))
    .filter(({ name, value }) => name.endsWith('_ADDRESS') && !value?.startsWith('unix:'))
  t.ok(tcp.length >= 5)
  for (const { name, value } of tcp) t.match(value, /^\[::\]:\d+$/, name)
})

inOverlays('every port has a name, which probes and Services use', (t, manifests, pods) => {
  let asked = 0
  for (const { name, containers } of pods) {
    const ports = containers.flatMap((each) => (each.ports ?? []).map((port) => port.name))
    t.equal(new Set(ports).size, ports.length, `${name}: ${ports}`)
    for (const container of containers) {
      for (const probe of ['startupProbe', 'livenessProbe', 'readinessProbe']) {
        const { httpGet, tcpSocket } = (container[probe] ?? {}) as Record<string, { port: unknown }>
        const target = httpGet ?? tcpSocket
        if (target === undefined) continue
        asked += 1
        const own = (container.ports ?? []).map((port) => port.name)
        t.ok(own.includes(target.port as string), `${name} ${container.name} ${probe}`)
      }
    }
  }
  for (const manifest of manifests.filter(({ kind }) => kind === 'Service')) {
    const { selector, ports } = manifest.spec as {
      selector: Record<string, string>
      ports: { name?: string; targetPort: unknown }[]
    }
    for (const { name, targetPort } of ports) {
      asked += 1
      t.ok(name, nameOf(manifest))
      const targets = selected(pods, selector).flatMap(({ containers }) =>
        containers.flatMap((each) => (each.ports ?? []).map((port) => port.name)),
      )
      t.ok(targets.includes(targetPort as string), `${nameOf(manifest)}: ${targetPort}`)
    }
  }
  t.ok(asked > 8)
})

/** The pods that a selector selects. */
function selected(pods: readonly Pod[], labels: Readonly<Record<string, string>>) {
  return pods.filter((pod) =>
    Object.entries(labels).every(([name, value]) => pod.labels[name] === value),
  )
}

inOverlays('no manifest contains a secret', (t, manifests, pods) => {
  t.notOk(manifests.some(({ kind }) => kind === 'Secret'))
  for (const { name, containers } of pods) {
    for (const container of containers) {
      for (const [variable, value] of Object.entries(environmentOf(container, manifests))) {
        t.notMatch(value, /:\/\/[^/]*@|PRIVATE KEY|\bsk-/, `${name} ${variable}`)
        t.notMatch(variable, /(TOKEN|PASSWORD|SECRET|KEY|DATABASE_URL|REDIS_URL)$/, name)
      }
    }
  }
})

inOverlays('all pods use the images of this version', (t, manifests, pods) => {
  const containers = pods.flatMap((pod) => pod.containers)
  for (const { name, image } of containers) {
    const hasDatabase = manifests === overlays.trial && name === 'tollgate'
    t.equal(image, `${hasDatabase ? 'tollgate-trial' : 'tollgate'}:${version}`, name)
  }
})

inOverlays('every container has requests and limits', (t, _manifests, pods) => {
  for (const { name, containers } of pods) {
    for (const { name: container, resources } of containers) {
      const { requests, limits } = resources ?? {}
      for (const resource of ['cpu', 'memory']) {
        const [least, most] = [requests?.[resource], limits?.[resource]].map(quantity)
        t.ok(least && most && least <= most, `${name} ${container} ${resource}`)
      }
    }
  }
})

/** The number of cores or bytes. */
function quantity(written = ''): number {
  const [, figure, unit = ''] = /^([\d.]+)(m|Mi|Gi)?$/.exec(written) ?? []
  return Number(figure) * ({ '': 1, m: 0.001, Mi: 2 ** 20, Gi: 2 ** 30 }[unit] ?? Number.NaN)
}

inOverlays('the settings exist and are valid', (t, manifests, pods) => {
  const folder = temporaryFolder(t)
  const stores = { DATABASE_URL_FILE: 'postgres://db/tollgate', REDIS_URL_FILE: 'redis://redis' }
  const known = new Set(Object.values(settings).flatMap(({ name }) => [name, `${name}_FILE`]))
  let count = 0
  for (const { name, containers } of pods) {
    for (const container of containers) {
      const env = { ...environmentOf(container, manifests) }
      for (const variable of Object.keys(env)) {
        count += 1
        t.ok(known.has(variable), `${name} ${container.name}: ${variable}`)
      }
      for (const [variable, text] of Object.entries(stores)) {
        if (env[variable] === undefined) continue
        const { mountPath = '' } =
          container.volumeMounts?.find((mount) => env[variable]?.startsWith(mount.mountPath)) ?? {}
        t.ok(mountPath, `${variable} is mounted`)
        env[variable] = join(folder, variable)
        writeFileSync(env[variable], text)
      }
      t.doesNotThrow(() => loadConfig({ ...env, KUBERNETES_SERVICE_HOST: '10.0.0.1' }), name)
    }
  }
  t.ok(count > 15)
})

inOverlays('files of the service that Envoy reads are on shared volumes', (t, manifests, pods) => {
  const { containers, spec } = named(pods, gatewayName)
  const [service, envoy] = ['tollgate', 'envoy'].map((name) =>
    containers.find((each) => each.name === name),
  ) as [Container, Container]
  t.equal(service.restartPolicy, 'Always', 'a native sidecar')
  const config = loadConfig({
    ...environmentOf(service, manifests),
    DATABASE_URL_FILE: '',
    REDIS_URL_FILE: '',
    KUBERNETES_SERVICE_HOST: '10.0.0.1',
  })
  const sockets = [config.apiAddress, config.envoyAdminAddress, ...config.grpcAddresses]
  const shared = [
    config.usageJournal ?? '',
    ...sockets.map((address) => ('path' in address ? address.path : '')),
  ]
  for (const path of shared) {
    t.same(mountOf(service, path), mountOf(envoy, path), path)
    t.ok(mountOf(service, path) && !mountOf(service, path)?.readOnly, path)
  }
  const shown = mountOf(service, config.usageJournal ?? '')?.name
  const volume = spec.volumes?.find(({ name }) => name === shown)
  t.match(volume?.emptyDir, { medium: 'Memory', sizeLimit: /Mi$/ }, 'a hung disk stops no request')
  const bootstrap = envoy.command?.[(envoy.command?.indexOf('--config-path') ?? 0) + 1] ?? ''
  t.equal(bootstrap, join(config.envoyConfigDir, 'bootstrap.json'))
  t.equal(config.envoyConfigWrite, true)
  t.match(mountOf(envoy, bootstrap), { readOnly: true })
  t.notOk(mountOf(service, bootstrap)?.readOnly)
  t.ok(mountOf(service, join(config.dataDir, 'x')))
  const volumes = new Set(spec.volumes?.map(({ name }) => name))
  for (const each of containers)
    for (const { name } of each.volumeMounts ?? []) t.ok(volumes.has(name))
  t.equal(config.gatewayAddress.port, envoy.ports?.[0]?.containerPort)
  t.ok(
    config.envoyHeapBytes <= 0.8 * quantity(envoy.resources?.limits?.memory),
    'the heap limit is reached before the memory limit',
  )
  const threads = envoy.command?.[(envoy.command?.indexOf('--concurrency') ?? 0) + 1]
  t.equal(threads, envoy.resources?.limits?.cpu, 'one thread for each core')
})

inOverlays('Envoy is drained before it ends', (t, manifests, pods) => {
  const { containers, spec } = named(pods, gatewayName)
  const find = (name: string) => containers.find((each) => each.name === name) as Container
  const [service, envoy] = ['tollgate', 'envoy'].map((name) => environmentOf(find(name), manifests))
  t.strictSame(find('envoy').lifecycle, { preStop: { exec: { command: ['tollgate', 'drain'] } } })
  for (const name of ['INTERNAL_ADDRESS', 'ENVOY_ADMIN_ADDRESS', 'DRAIN_SECONDS']) {
    t.equal(envoy?.[name], service?.[name], name)
  }
  const { drainMs } = loadConfig({ DRAIN_SECONDS: envoy?.DRAIN_SECONDS })
  t.equal(spec.terminationGracePeriodSeconds, drainMs / 1_000 + 30)
  for (const name of ['POD_NAMESPACE', 'POD_NAME', 'POD_UID']) t.ok(service?.[name], name)
})

function mountOf(container: Container, path: string) {
  return container.volumeMounts?.find(({ mountPath }) => path.startsWith(`${mountPath}/`))
}

interface Peer {
  readonly namespaceSelector?: { readonly matchLabels?: Readonly<Record<string, string>> }
  readonly podSelector?: { readonly matchLabels?: Readonly<Record<string, string>> }
}

interface PolicySpec {
  readonly podSelector: { readonly matchLabels: Readonly<Record<string, string>> }
  readonly policyTypes: readonly string[]
  /** None: no connection is allowed. */
  readonly ingress?: readonly {
    readonly from?: readonly Peer[]
    readonly ports: readonly { readonly port: number }[]
  }[]
}

inOverlays('every pod has one network policy, for its own ports only', (t, manifests, pods) => {
  const policies = manifests
    .filter(({ kind }) => kind === 'NetworkPolicy')
    .map(({ spec }) => spec as PolicySpec)
  for (const pod of pods) {
    const own = policies.filter(({ podSelector }) =>
      selected([pod], podSelector.matchLabels).includes(pod),
    )
    t.equal(own.length, 1, pod.name)
    t.strictSame(own[0]?.policyTypes, ['Ingress', 'Egress'], pod.name)
    const ports = pod.containers.flatMap((each) => each.ports ?? [])
    for (const { from, ports: open } of own[0]?.ingress ?? []) {
      for (const { port } of open) {
        const { name } = ports.find(({ containerPort }) => containerPort === port) ?? {}
        t.ok(name, `${pod.name}: ${port}`)
        const peers = JSON.stringify(from ?? 'anybody')
        if (name === 'internal') t.match(peers, /"cleanup"/)
        if (name === 'metrics') t.match(peers, /"monitoring"/)
        if (name === 'http' && pod.name === gatewayName) t.equal(from, undefined)
      }
    }
  }
})

inOverlays('every referenced object exists', (t, manifests, pods) => {
  const names = new Set(manifests.map(nameOf))
  const namespaces = readManifests(join(folderOf('namespaces'), 'namespaces.yaml'))
  for (const manifest of manifests) {
    const { namespace } = manifest.metadata
    const isClusterWide = /^(ClusterRole|ClusterRoleBinding|CustomResourceDefinition)$/
    if (isClusterWide.test(manifest.kind)) t.equal(namespace, undefined, nameOf(manifest))
    else
      t.ok(
        namespaces.some(({ metadata }) => metadata.name === namespace),
        nameOf(manifest),
      )
  }
  for (const { name, spec, containers } of pods) {
    const { serviceAccountName: account } = spec
    if (account) t.ok(names.has(`ServiceAccount tollgate/${account}`), name)
    for (const { envFrom = [] } of containers) {
      for (const { configMapRef } of envFrom) {
        t.ok(names.has(`ConfigMap tollgate/${configMapRef.name}`), name)
      }
    }
  }
})

test('new installations count everything, a take-over what the original counted', async (t) => {
  const read = (data: unknown) => {
    const { paths } = loadConfig(data as Record<string, string>)
    return [paths.metered.size, paths.unmetered]
  }
  const settingsOf = (manifests: readonly Manifest[]) =>
    manifests.find(({ kind, metadata }) => kind === 'ConfigMap' && metadata.name === settingsName)
      ?.data
  for (const overlay of ['production', 'trial']) {
    const manifests = render(join(k8s, 'overlays', overlay))
    t.strictSame(read(settingsOf(manifests)), [5, 'closed'], overlay)
    const taking = render(join(k8s, 'components', 'take-over'), manifests)
    t.strictSame(read(settingsOf(taking)), [1, 'open'], `${overlay} with the take-over`)
  }
  const units = readFileSync(join(packageRoot, 'systemd', 'tollgate.env'), 'utf8')
  const lines = [...units.matchAll(/^(METER_PATHS|UNMETERED_PATHS)=(.*)$/gm)]
  t.strictSame(read(Object.fromEntries(lines.map((line) => line.slice(1)))), [5, 'closed'])
})

test('the cleanup runs as the contract describes', async (t) => {
  const job = overlays.production.find(({ kind }) => kind === 'CronJob')
  t.match(job, {
    metadata: { name: 'maas-api-key-cleanup' },
    spec: {
      schedule: '*/15 * * * *',
      concurrencyPolicy: 'Forbid',
      jobTemplate: { spec: { activeDeadlineSeconds: 60, backoffLimit: 2 } },
    },
  })
  const [command, , , url] = podsOf(job ? [job] : [])[0]?.containers[0]?.args ?? []
  t.equal(command, 'cleanup')
  const { hostname, port } = new URL(url ?? '')
  const service = overlays.production.find(({ metadata }) => metadata.name === hostname)
  t.match(service, { kind: 'Service', spec: { ports: [{ port: Number(port) }] } })
})

test('production survives the loss of a node', async (t) => {
  const { production } = overlays
  const pods = podsOf(production)
  const { spec } = named(pods, gatewayName)
  t.same(
    (spec.topologySpreadConstraints as { topologyKey: string }[]).map((each) => each.topologyKey),
    ['topology.kubernetes.io/zone', 'kubernetes.io/hostname'],
  )
  for (const manifest of production.filter(({ kind }) => kind === 'PodDisruptionBudget')) {
    const { selector } = manifest.spec as { selector: { matchLabels: Record<string, string> } }
    t.equal(selected(pods, selector.matchLabels).length, 1, nameOf(manifest))
  }
  const scaler = production.find(({ kind }) => kind === 'HorizontalPodAutoscaler')
  const { scaleTargetRef, minReplicas, metrics } = (scaler as Manifest).spec as {
    scaleTargetRef: { kind: string; name: string }
    minReplicas: number
    metrics: { containerResource: { container: string } }[]
  }
  t.equal(minReplicas, 3)
  const target = production.find(
    (each) => each.kind === scaleTargetRef.kind && each.metadata.name === scaleTargetRef.name,
  )
  t.match(target, {
    spec: { replicas: undefined, strategy: { rollingUpdate: { maxUnavailable: 0 } } },
  })
  t.strictSame(
    metrics.map(({ containerResource }) => containerResource.container).sort(),
    named(pods, gatewayName)
      .containers.map(({ name }) => name)
      .sort(),
  )
})

inOverlays('deleting it leaves the definitions and the namespaces', (t, manifests) => {
  const kept = manifests.filter(({ kind }) => /^(CustomResourceDefinition|Namespace)$/.test(kind))
  t.strictSame(kept.map(nameOf), [])
})

test('the resources of the trial overlay are valid', async (t) => {
  const path = join(folderOf('overlays/trial'), 'resources.yaml')
  const documents = readManifests(path).filter(({ kind }) => kind !== 'Namespace')
  t.equal(documents.length, 3)
  for (const document of documents) t.match(parseResource(document), { resource: Object })
})

test('every file is in an overlay, or meant to be applied by hand', async (t) => {
  const apart = ['overlays/trial/resources.yaml']
  const folders = ['base', 'overlays/production', 'overlays/trial']
  for (const folder of [...folders, 'components/monitoring', 'components/take-over']) {
    const text = readFileSync(join(folderOf(folder), 'kustomization.yaml'), 'utf8')
    for (const file of readdirSync(folderOf(folder))) {
      if (file === 'kustomization.yaml' || apart.includes(`${folder}/${file}`)) continue
      t.match(text, file, `${folder}/${file}`)
    }
  }
})
