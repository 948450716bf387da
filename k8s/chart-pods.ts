/** Where the chart's values for every object and every pod go. */

import type { Manifest } from './render.ts'

type JsonObject = Record<string, unknown>

interface Metadata {
  labels?: JsonObject
  annotations?: JsonObject
}

interface Container {
  readonly name: string
  env?: unknown[]
  volumeMounts?: unknown[]
}

/** Expressions are written out by the chart's writer: WITH a field, EACH entry of a list or map, ELSE. */
export function placeInPods(manifest: Manifest): Manifest {
  const placed = structuredClone(manifest) as Manifest & { spec?: JsonObject }
  addTo(placed.metadata as Metadata, '.Values.labels', '.Values.annotations')
  const spec = (
    placed.kind === 'CronJob'
      ? (placed.spec as { jobTemplate: { spec: unknown } }).jobTemplate.spec
      : placed.spec
  ) as { template?: { metadata: Metadata; spec: JsonObject } } | undefined
  if (spec?.template === undefined) return placed
  addTo(spec.template.metadata, '.Values.podLabels', '.Values.podAnnotations')
  const pod = spec.template.spec
  for (const field of ['imagePullSecrets', 'nodeSelector', 'tolerations', 'affinity']) {
    pod[`WITH ${field}`] = `.Values.${field}`
  }
  if (placed.kind === 'CronJob') return placed
  const isGateway = 'topologySpreadConstraints' in pod
  if (isGateway) {
    pod['ELSE topologySpreadConstraints .Values.gateway.topologySpreadConstraints'] =
      pod.topologySpreadConstraints
    delete pod.topologySpreadConstraints
  } else {
    pod['WITH topologySpreadConstraints'] = '.Values.controller.topologySpreadConstraints'
  }
  const volumes = pod.volumes as { name: string; secret?: JsonObject }[]
  const stores = volumes.find(({ name }) => name === 'stores')?.secret ?? {}
  // Nothing reads it if the URLs of all stores of the pod come from other files.
  const files = ['DATABASE', ...(isGateway ? ['REDIS'] : [])].map(
    (name) => `.Values.settings.${name}_URL_FILE`,
  )
  stores['WITH optional'] = `not (empty (and ${files.join(' ')}))`
  ;(volumes as unknown[]).push('EACH .Values.extraVolumes')
  const containers = [pod.initContainers, pod.containers].flat() as (Container | undefined)[]
  for (const container of containers) {
    container?.volumeMounts?.push('EACH .Values.extraVolumeMounts')
    if (container?.name !== 'envoy') container?.env?.push('EACH .Values.extraEnv')
  }
  return placed
}

function addTo(metadata: Metadata, labels: string, annotations: string): void {
  const parts = metadata as Metadata & JsonObject
  if (metadata.labels) metadata.labels.EACH = labels
  else parts['WITH labels'] = labels
  if (metadata.annotations) metadata.annotations.EACH = annotations
  else parts['WITH annotations'] = annotations
}
