import { execFileSync, spawn } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { type ClusterAccess, createClient } from '../../../src/kubernetes/client.ts'
import { noOpenssl } from '../certificates.ts'
import { freePorts } from '../free-ports.ts'
import { poll } from '../poll.ts'
import { temporaryFolder } from '../temporary-folder.ts'
import { findProgram } from './programs.ts'

const etcd = findProgram('etcd')
const server = findProgram('apiextensions-apiserver')

/**
 * Why Kubernetes' own custom-resource server cannot run here, for tests to skip; false if it can.
 */
export const noCrdServer =
  noOpenssl ||
  (etcd === undefined && 'no etcd (Debian: etcd-server)') ||
  (server === undefined &&
    'no apiextensions-apiserver (go install k8s.io/apiextensions-apiserver@v0.36.3)')

/**
 * Starts it with an etcd of its own; both end with `t`. Returns an administrator's access to it.
 */
export async function startCrdServer(t: Test): Promise<ClusterAccess> {
  const folder = temporaryFolder(t)
  const at = (name: string): string => join(folder, name)
  makeCertificates(folder)
  writeFileSync(at('nowhere'), nowhere)
  const [api = 0] = await freePorts(1)
  const stored = await startEtcd(t, etcd as string, at('etcd'))
  run(t, server as string, [
    ...['--etcd-servers', stored, '--bind-address', '127.0.0.1', '--secure-port', `${api}`],
    ...['--tls-cert-file', at('serving.crt'), '--tls-private-key-file', at('serving.key')],
    ...['--client-ca-file', at('ca.crt'), '--authentication-skip-lookup'],
    // It asks for the main API server, but works without one.
    ...['kubeconfig', 'authentication-kubeconfig', 'authorization-kubeconfig'].flatMap((flag) => [
      `--${flag}`,
      at('nowhere'),
    ]),
    '--disable-admission-plugins',
    'NamespaceLifecycle,MutatingAdmissionWebhook,ValidatingAdmissionWebhook,ValidatingAdmissionPolicy,MutatingAdmissionPolicy',
  ])
  const read = (name: string): string => readFileSync(at(name), 'utf8')
  const access = {
    server: `https://127.0.0.1:${api}`,
    ca: read('ca.crt'),
    cert: read('admin.crt'),
    key: read('admin.key'),
  }
  const kube = createClient(access)
  const isUp = () => kube.send({ path: '/apis/apiextensions.k8s.io/v1/customresourcedefinitions' })
  await poll(() => isUp().catch(() => undefined), 'the custom-resource server responds', 60_000)
  return access
}

/** Starts an etcd with its data in this folder; returns its URL. */
export async function startEtcd(t: Test, command: string, folder: string): Promise<string> {
  const [client, peer] = (await freePorts(2)).map((port) => `http://127.0.0.1:${port}`) as [
    string,
    string,
  ]
  run(t, command, [
    ...['--data-dir', folder, '--initial-advertise-peer-urls', peer],
    ...['--listen-client-urls', client, '--advertise-client-urls', client],
    ...['--listen-peer-urls', peer, '--initial-cluster', `default=${peer}`],
    '--unsafe-no-fsync',
  ])
  return client
}

/** Runs a server until `t` ends. */
export function run(t: Test, command: string, args: readonly string[]): void {
  const child = spawn(command, args, { stdio: 'ignore' })
  t.teardown(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return
    const ended = new Promise((settle) => child.once('exit', settle))
    child.kill('SIGKILL')
    await ended
  })
}

/** A certificate authority, and certificates of its server and of an administrator. */
export function makeCertificates(folder: string): void {
  const openssl = (...args: readonly string[]): void => {
    execFileSync('openssl', args, { cwd: folder, stdio: 'ignore' })
  }
  const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
  openssl(
    ...['req', '-x509', ...curve, '-days', '1', '-subj', '/CN=test-ca'],
    ...['-keyout', 'ca.key', '-out', 'ca.crt'],
  )
  for (const [name, subject, extension] of [
    ['admin', '/O=system:masters/CN=admin', 'extendedKeyUsage=clientAuth'],
    ['serving', '/CN=127.0.0.1', 'subjectAltName=IP:127.0.0.1'],
  ] as const) {
    writeFileSync(join(folder, 'extension'), extension)
    openssl(...['req', ...curve, '-subj', subject, '-keyout', `${name}.key`, '-out', `${name}.csr`])
    openssl(
      ...['x509', '-req', '-in', `${name}.csr`, '-CA', 'ca.crt', '-CAkey', 'ca.key'],
      ...['-CAcreateserial', '-days', '1', '-extfile', 'extension', '-out', `${name}.crt`],
    )
  }
}

const nowhere = JSON.stringify({
  apiVersion: 'v1',
  kind: 'Config',
  clusters: [{ name: 'none', cluster: { server: 'http://127.0.0.1:9' } }],
  contexts: [{ name: 'none', context: { cluster: 'none', user: 'none' } }],
  'current-context': 'none',
  users: [{ name: 'none', user: {} }],
})

/** Creates definitions and waits until the server serves them. */
export async function installCrds(access: ClusterAccess, crds: readonly object[]): Promise<void> {
  const kube = createClient(access)
  const path = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions'
  for (const crd of crds) await kube.send({ method: 'POST', path, body: { ...crd } })
  for (const crd of crds) {
    const { metadata, spec } = crd as {
      metadata: { name: string }
      spec: { group: string; names: { plural: string }; versions: { name: string }[] }
    }
    const served = `/apis/${spec.group}/${spec.versions[0]?.name}/${spec.names.plural}`
    const isServed = () => kube.send({ path: served }).catch(() => undefined)
    await poll(isServed, `${metadata.name} is served`, 30_000)
  }
}
