/** The manifests of k8s/, and their pods as tests see them. */

import { join } from 'node:path'
import { type Manifest, nameOf, render } from '../../../k8s/render.ts'
import { packageRoot } from '../../../src/runtime/package-root.ts'

export interface Container {
  readonly name: string
  readonly image: string
  readonly command?: readonly string[]
  readonly args?: readonly string[]
  readonly restartPolicy?: string
  readonly env?: readonly {
    readonly name: string
    readonly value?: string
    readonly valueFrom?: { readonly fieldRef?: { readonly fieldPath: string } }
  }[]
  readonly envFrom?: readonly { readonly configMapRef: { readonly name: string } }[]
  readonly ports?: readonly { readonly name?: string; readonly containerPort: number }[]
  readonly resources?: {
    readonly requests?: Readonly<Record<string, string>>
    readonly limits?: Readonly<Record<string, string>>
  }
  readonly securityContext?: object
  readonly volumeMounts?: readonly {
    readonly name: string
    readonly mountPath: string
    readonly readOnly?: boolean
  }[]
  readonly [probe: string]: unknown
}

export interface PodSpec {
  readonly serviceAccountName?: string
  readonly automountServiceAccountToken?: boolean
  readonly terminationGracePeriodSeconds?: number
  readonly securityContext?: object
  readonly initContainers?: readonly Container[]
  readonly containers: readonly Container[]
  readonly volumes?: readonly { readonly name: string; readonly [source: string]: unknown }[]
  readonly [field: string]: unknown
}

/** A pod of a manifest. */
export interface Pod {
  /** The name of the manifest. */
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly spec: PodSpec
  readonly containers: readonly Container[]
}

/** The overlays by name. */
export const overlays: Readonly<Record<'production' | 'trial', readonly Manifest[]>> = {
  production: render(folderOf('overlays/production')),
  trial: render(folderOf('overlays/trial')),
}

/** The path of a folder of k8s/. */
export function folderOf(name: string): string {
  return join(packageRoot, 'k8s', name)
}

interface Template {
  readonly metadata: { readonly labels: Readonly<Record<string, string>> }
  readonly spec: PodSpec
}

/** The pods of all kinds of workloads. */
export function podsOf(manifests: readonly Manifest[]): readonly Pod[] {
  return manifests.flatMap((manifest) => {
    const spec = manifest.spec as { template?: Template; jobTemplate?: { spec: Spec } } | undefined
    const template = spec?.template ?? spec?.jobTemplate?.spec.template
    if (template === undefined) return []
    const { initContainers = [], containers } = template.spec
    return {
      name: nameOf(manifest),
      labels: template.metadata.labels,
      spec: template.spec,
      containers: [...initContainers, ...containers],
    }
  })
}

interface Spec {
  readonly template: Template
}

/**
 * The environment of a container, including its ConfigMaps; values by reference have placeholders.
 */
export function environmentOf(
  container: Container,
  manifests: readonly Manifest[],
): Readonly<Record<string, string>> {
  const maps = (container.envFrom ?? []).map(({ configMapRef: { name } }) =>
    manifests.find((each) => each.kind === 'ConfigMap' && each.metadata.name === name),
  )
  return {
    ...Object.assign({}, ...maps.map((map) => map?.data as object)),
    ...Object.fromEntries(
      (container.env ?? []).map(({ name, value, valueFrom }) => [
        name,
        value ?? valueFrom?.fieldRef?.fieldPath ?? '',
      ]),
    ),
  }
}
