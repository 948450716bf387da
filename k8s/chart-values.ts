/** The values of the chart. Their defaults come from the overlay. */

import type { Manifest } from './render.ts'

/** A place in the manifests: `Kind name`, and the path in it; list elements by index or name. */
export type Place = readonly [manifest: string, ...path: readonly (string | number)[]]

export interface Value {
  /** Its name in values.yaml, with dots. */
  readonly name: string
  readonly meaning: string
  /** All have the same content, which is the default. */
  readonly places: readonly [Place, ...(readonly Place[])]
}

const pod = ['spec', 'template', 'spec'] as const
const gateway = ['Deployment tollgate-gateway', ...pod] as const
const controller = ['Deployment tollgate-controller', ...pod] as const
const job = ['CronJob maas-api-key-cleanup', 'spec', 'jobTemplate', ...pod] as const
const scaler = ['HorizontalPodAutoscaler tollgate-gateway', 'spec'] as const

export const values: readonly Value[] = [
  {
    name: 'image',
    meaning: 'built by the Containerfile, with its tag or digest',
    places: [
      [...gateway, 'initContainers', 'tollgate', 'image'],
      [...gateway, 'containers', 'envoy', 'image'],
      [...controller, 'containers', 'controller', 'image'],
      [...job, 'containers', 'cleanup', 'image'],
    ],
  },
  {
    name: 'settings',
    meaning:
      'of the service and the controller, except those that the chart sets: docs/settings.md; GATEWAY_URL is the public one. All that can be counted is counted, the rest refused (METER_PATHS, UNMETERED_PATHS); beside the original: chat and open',
    places: [['ConfigMap tollgate-settings', 'data']],
  },
  {
    name: 'storesSecret',
    meaning: 'a Secret with the entries database-url and redis-url, which you create',
    places: [
      [...gateway, 'volumes', 'stores', 'secret', 'secretName'],
      [...controller, 'volumes', 'stores', 'secret', 'secretName'],
    ],
  },
  {
    name: 'podSecurityContext',
    meaning: 'of every pod; on OpenShift runAsUser, runAsGroup and fsGroup must be null',
    places: [
      [...gateway, 'securityContext'],
      [...controller, 'securityContext'],
      [...job, 'securityContext'],
    ],
  },
  {
    name: 'service.type',
    meaning: 'ClusterIP behind a gateway of the cluster, else LoadBalancer',
    places: [['Service tollgate-gateway', 'spec', 'type']],
  },
  {
    name: 'gateway.resources',
    meaning: 'of the service beside Envoy',
    places: [[...gateway, 'initContainers', 'tollgate', 'resources']],
  },
  {
    name: 'gateway.journalSize',
    meaning:
      'of the volume of the journal, in memory, of the files that settings.USAGE_JOURNAL_BYTES limits; counts towards the memory of Envoy',
    places: [[...gateway, 'volumes', 'journal', 'emptyDir', 'sizeLimit']],
  },
  {
    name: 'gateway.dataSize',
    meaning: 'of the volume data, which has a copy of the journal',
    places: [[...gateway, 'volumes', 'data', 'emptyDir', 'sizeLimit']],
  },
  {
    name: 'envoy.resources',
    meaning:
      'of Envoy, which sheds load from settings.ENVOY_HEAP_BYTES on: less than its memory limit',
    places: [[...gateway, 'containers', 'envoy', 'resources']],
  },
  {
    name: 'envoy.concurrency',
    meaning: 'threads of Envoy: one for each core of its limit, each with 128 MiB',
    places: [[...gateway, 'containers', 'envoy', 'command', 4]],
  },
  {
    name: 'controller.replicas',
    meaning: 'only one writes, the others wait to take over',
    places: [['Deployment tollgate-controller', 'spec', 'replicas']],
  },
  {
    name: 'controller.resources',
    meaning: 'of each',
    places: [[...controller, 'containers', 'controller', 'resources']],
  },
  {
    name: 'cleanup.resources',
    meaning: 'of the job that deletes expired ephemeral keys',
    places: [[...job, 'containers', 'cleanup', 'resources']],
  },
  {
    name: 'autoscaling.minReplicas',
    meaning: 'of the gateway',
    places: [[...scaler, 'minReplicas']],
  },
  {
    name: 'autoscaling.maxReplicas',
    meaning: 'of the gateway',
    places: [[...scaler, 'maxReplicas']],
  },
]

/** As which the gateway is asked. */
export const gatewayScheme = 'ternary "http" "https" (empty .Values.settings.GATEWAY_TLS_CERT_FILE)'

const [least, most] = [
  '(.Values.autoscaling.minReplicas | default 3)',
  '(.Values.autoscaling.maxReplicas | default 12)',
]

/** Of the gateway's Service. */
export const gatewayPort = 'ternary 80 443 (empty .Values.settings.GATEWAY_TLS_CERT_FILE)'

/** A file with the URL of a store: by default the Secret's. */
function storeFile(entry: string): string {
  const setting = `${entry.toUpperCase().replace('-', '_')}_FILE`
  return `.Values.settings.${setting} | default "/var/run/secrets/tollgate/stores/${entry}" | toJson`
}

/** What else follows from settings, as Helm's expressions. */
export const derived: readonly (readonly [Place, string])[] = [
  [
    [...scaler, 'maxReplicas'],
    `ternary ${most} nil (le (${least} | int) (${most} | int)) | required \`autoscaling.maxReplicas: must not be below minReplicas\``,
  ],
  // A drain, and what comes after it.
  [
    [...gateway, 'terminationGracePeriodSeconds'],
    'add (.Values.settings.DRAIN_SECONDS | default 300 | int) 30',
  ],
  [
    [...gateway, 'containers', 'envoy', 'readinessProbe', 'httpGet', 'scheme'],
    `${gatewayScheme} | upper`,
  ],
  [['Service tollgate-gateway', 'spec', 'ports', 'http', 'appProtocol'], gatewayScheme],
  [
    [...gateway, 'initContainers', 'tollgate', 'env', 'DATABASE_URL_FILE', 'value'],
    storeFile('database-url'),
  ],
  [
    [...gateway, 'initContainers', 'tollgate', 'env', 'REDIS_URL_FILE', 'value'],
    storeFile('redis-url'),
  ],
  [
    [...controller, 'containers', 'controller', 'env', 'DATABASE_URL_FILE', 'value'],
    storeFile('database-url'),
  ],
  // That of GATEWAY_URL, which names none.
  [['Service tollgate-gateway', 'spec', 'ports', 'http', 'port'], gatewayPort],
]

/** Settings that the templates read or set, so that they must not be in files. */
export const inTemplates: ReadonlySet<string> = new Set([
  'DRAIN_SECONDS',
  'GATEWAY_TLS_CERT_FILE',
  'GATEWAY_URL',
])

/** What the templates set in pods: values must not replace it. */
export const ownMetadata = [
  'app.kubernetes.io/name',
  'app.kubernetes.io/component',
  'checksum/settings',
] as const

/** TLS of listeners that probes, the cleanup job and the PodMonitor ask without it. */
export const withoutTls: ReadonlySet<string> = new Set([
  'TLS_CERT_FILE',
  'TLS_KEY_FILE',
  'TLS_CLIENT_CA_FILE',
  'TLS_MIN_VERSION',
])

const ofController = /tollgate-(controller(-lease)?|models-write|access-status)$/

/** Objects that an installation may leave out. */
export const optional: Readonly<
  Record<string, { readonly has: (manifest: Manifest) => boolean; readonly meaning: string }>
> = {
  'controller.enabled': {
    has: ({ metadata }) => ofController.test(metadata.name),
    meaning: 'exactly one release of a cluster has it',
  },
  'autoscaling.enabled': {
    has: ({ kind }) => kind === 'HorizontalPodAutoscaler',
    meaning: 'if disabled, set the number of replicas with kubectl scale',
  },
  'networkPolicies.enabled': {
    has: ({ kind }) => kind === 'NetworkPolicy',
    meaning: 'which pods may connect to which',
  },
}
