/**
 * A cluster with nodes, for acceptance: CLUSTER_KUBECONFIG names it, its nodes have (or can pull) the
 * images, from CLUSTER_REGISTRY if that is set. What is installed there under our names is replaced.
 */

import { spawn, spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import type { Test } from 'tap'
import { stringify } from 'yaml'
import { temporaryFolder } from '../temporary-folder.ts'
import { folderOf } from './manifests.ts'

const { CLUSTER_KUBECONFIG = '', CLUSTER_REGISTRY = '' } = process.env

/** Why there is none, for tests to skip; false if there is one. */
export const noCluster = CLUSTER_KUBECONFIG === '' && 'no CLUSTER_KUBECONFIG: a cluster with nodes'

/** The image of every pod, and of pods that a test adds. */
export const imageHere = imageOf('tollgate')

function imageOf(name: string): string {
  return `${CLUSTER_REGISTRY && `${CLUSTER_REGISTRY}/`}${name}:0.1.0`
}

/** Environment of `helm`. */
export const clusterEnv = { ...process.env, KUBECONFIG: CLUSTER_KUBECONFIG }

/** The output of `kubectl`; throws with its errors. */
export function kubectl(args: readonly string[], input = ''): string {
  const options = { env: clusterEnv, encoding: 'utf8', input, maxBuffer: 2 ** 26 } as const
  const { status, stdout, stderr } = spawnSync('kubectl', args, options)
  if (status !== 0) throw new Error(`kubectl ${args.join(' ')}: ${stderr}${stdout}`)
  return stdout
}

/** An overlay of its own with these settings, for `kubectl apply -k`; returns its folder. */
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
  const kustomization = {
    resources: [relative(folder, folderOf(`overlays/${name}`))],
    ...{ images, patches: [{ patch: stringify(configMap) }] },
  }
  writeFileSync(join(folder, 'kustomization.yaml'), stringify(kustomization))
  return folder
}

/** Waits for a Deployment in the namespace `tollgate`. */
export function rolledOut(name: string): void {
  kubectl(['-n', 'tollgate', 'rollout', 'status', `deployment/${name}`, '--timeout=300s'])
}

/** The pods of the gateway that are not ending. */
export function gatewayPods(): readonly { readonly name: string; readonly node: string }[] {
  const selector = 'app.kubernetes.io/name=tollgate,app.kubernetes.io/component=gateway'
  const found = kubectl(['-n', 'tollgate', 'get', 'pods', '-l', selector, '-o', 'json'])
  interface Found {
    readonly metadata: { readonly name: string; readonly deletionTimestamp?: string }
    readonly spec: { readonly nodeName: string }
  }
  return (JSON.parse(found) as { items: readonly Found[] }).items
    .filter(({ metadata }) => metadata.deletionTimestamp === undefined)
    .map(({ metadata, spec }) => ({ name: metadata.name, node: spec.nodeName }))
}

/** Starts a pod of a user's in the namespace `llm`, which the gateway answers as any other pod. */
export function startUser(): void {
  const pod = {
    ...{ apiVersion: 'v1', kind: 'Pod', metadata: { name: 'user', namespace: 'llm' } },
    spec: {
      terminationGracePeriodSeconds: 0,
      containers: [{ name: 'user', image: imageHere, command: ['sleep', '86400'] }],
    },
  }
  kubectl(['-n', 'llm', 'delete', 'pod/user', 'serviceaccount/alice', '--ignore-not-found'])
  kubectl(['-n', 'llm', 'create', 'serviceaccount', 'alice'])
  kubectl(['apply', '-f', '-'], JSON.stringify(pod))
  kubectl(['-n', 'llm', 'wait', 'pod/user', '--for=condition=Ready', '--timeout=120s'])
}

/** Runs a module in the user's pod; resolves with what it prints, read as JSON. */
export async function runThere(
  module: string,
  env: Readonly<Record<string, string>>,
): Promise<unknown> {
  const set = Object.entries(env).map(([name, value]) => `${name}=${value}`)
  const program = ['env', ...set, 'node', '--input-type=module', '-']
  const child = spawn('kubectl', ['-n', 'llm', 'exec', '-i', 'user', '--', ...program], {
    ...{ env: clusterEnv, stdio: ['pipe', 'pipe', 'inherit'] },
  })
  child.stdin.end(module)
  let output = ''
  for await (const text of child.stdout.setEncoding('utf8')) output += text
  return JSON.parse(output)
}
