/**
 * A cluster with nodes, for acceptance: the cluster of CLUSTER_KUBECONFIG, whose nodes have (or can pull) the images,
 * from CLUSTER_REGISTRY if that is set; otherwise one on this machine (nodes.ts). Existing objects with our names are
 * replaced.
 */

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { text } from 'node:stream/consumers'
import type { Test } from 'tap'
import { stringify } from 'yaml'
import { temporaryFolder } from '../temporary-folder.ts'
import { withFailureLog } from './failure-log.ts'
import { folderOf, overlays, podsOf } from './manifests.ts'
import { nodesKubeconfig, noNodes } from './nodes.ts'

const { CLUSTER_KUBECONFIG, CLUSTER_REGISTRY = '' } = process.env

/** Why there is none on this machine, for tests that need its nodes to skip. */
export const noOwnNodes = CLUSTER_KUBECONFIG ? 'the cluster of CLUSTER_KUBECONFIG' : noNodes

/** Why there is no cluster, for tests to skip; false if there is one. */
export const noCluster = !CLUSTER_KUBECONFIG && noNodes && `no CLUSTER_KUBECONFIG, and ${noNodes}`

/** The image of every pod, and of pods that a test adds. */
export const imageHere = imageOf('tollgate')

function imageOf(name: string): string {
  return `${CLUSTER_REGISTRY && `${CLUSTER_REGISTRY}/`}${name}:0.2.0`
}

/** Environment of `helm`. */
export const clusterEnv = { ...process.env, KUBECONFIG: CLUSTER_KUBECONFIG || nodesKubeconfig }

/** The output of `kubectl`; rejects with its errors. */
export async function kubectl(args: readonly string[], input = ''): Promise<string> {
  const child = spawn('kubectl', args, { env: clusterEnv, stdio: 'pipe' })
  child.stdin.on('error', () => {}).end(input)
  const [stdout, stderr, [status]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close'),
  ])
  if (status !== 0) throw new Error(`kubectl ${args.join(' ')}: ${stderr}${stdout}`)
  return stdout
}

/** The requests of each of two containers of a pod of the gateway; each node has the processors of this machine. */
export const requestedCpu = '200m'

const fewProcessors = ['initContainers', 'containers'].map((list) => ({
  ...{ op: 'replace', value: requestedCpu },
  path: `/spec/template/spec/${list}/0/resources/requests/cpu`,
}))

const envoy = podsOf(overlays.production)
  .find(({ name }) => name.endsWith('/tollgate-gateway'))
  ?.containers.find(({ name }) => name === 'envoy')

const explained = {
  ...{ op: 'replace', path: '/spec/template/spec/containers/0/command' },
  value: withFailureLog(envoy?.command ?? []),
}

/**
 * An overlay of its own with these settings, for `kubectl apply -k`; returns its folder. In production, Envoy also logs
 * why a response failed.
 */
export function ownOverlay(t: Test, name: string, settings: Readonly<Record<string, string>>) {
  const folder = temporaryFolder(t)
  const configMap = {
    ...{ apiVersion: 'v1', kind: 'ConfigMap' },
    metadata: { name: 'tollgate-settings', namespace: 'tollgate' },
    data: settings,
  }
  const images = ['tollgate', 'tollgate-trial'].map((each) => {
    const [, newName, newTag] = /^(.*):(.*)$/.exec(imageOf(each)) ?? []
    return { name: each, newName, newTag }
  })
  const patches: object[] = [{ patch: stringify(configMap) }]
  if (name === 'production') {
    const target = { kind: 'Deployment', name: 'tollgate-gateway' }
    const changes = [explained, ...(noOwnNodes ? [] : fewProcessors)]
    patches.push({ target, patch: stringify(changes) })
  }
  const kustomization = {
    resources: [relative(folder, folderOf(`overlays/${name}`))],
    ...{ images, patches },
  }
  writeFileSync(join(folder, 'kustomization.yaml'), stringify(kustomization))
  return folder
}

/** Waits for a Deployment in the namespace `tollgate`. */
export async function rolledOut(name: string): Promise<void> {
  await kubectl(['-n', 'tollgate', 'rollout', 'status', `deployment/${name}`, '--timeout=300s'])
}

export interface GatewayPod {
  readonly name: string
  readonly node: string
  readonly isReady: boolean
  readonly restarts: number
  /** The id of the service's container. */
  readonly service: string
}

interface FoundStatus {
  readonly name: string
  readonly containerID?: string
  readonly restartCount: number
}

interface Found {
  readonly metadata: { readonly name: string; readonly deletionTimestamp?: string }
  readonly spec: { readonly nodeName: string }
  readonly status: {
    readonly conditions?: readonly { readonly type: string; readonly status: string }[]
    readonly containerStatuses?: readonly FoundStatus[]
    readonly initContainerStatuses?: readonly FoundStatus[]
  }
}

export const gatewaySelector = 'app.kubernetes.io/name=tollgate,app.kubernetes.io/component=gateway'

/** The pods of the gateway that are not ending. */
export async function gatewayPods(): Promise<readonly GatewayPod[]> {
  const found = await kubectl([
    '-n',
    'tollgate',
    'get',
    'pods',
    '-l',
    gatewaySelector,
    '-o',
    'json',
  ])
  return (JSON.parse(found) as { items: readonly Found[] }).items
    .filter(({ metadata }) => metadata.deletionTimestamp === undefined)
    .map(({ metadata, spec, status }) => {
      const { conditions = [], containerStatuses = [], initContainerStatuses = [] } = status
      const all = [...containerStatuses, ...initContainerStatuses]
      const service = all.find(({ name }) => name === 'tollgate')
      return {
        name: metadata.name,
        node: spec.nodeName,
        isReady: conditions.some(({ type, status }) => type === 'Ready' && status === 'True'),
        restarts: all.reduce((total, { restartCount }) => total + restartCount, 0),
        service: service?.containerID?.replace('containerd://', '') ?? '',
      }
    })
}
