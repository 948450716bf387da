/**
 * A complete kube-apiserver with an etcd of its own: reviews, RBAC, Pod Security and the built-in
 * kinds.
 */

import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import {
  type ClusterAccess,
  createClient,
  type KubeClient,
} from '../../../src/kubernetes/client.ts'
import { noOpenssl } from '../certificates.ts'
import { freePorts } from '../free-ports.ts'
import { poll } from '../poll.ts'
import { temporaryFolder } from '../temporary-folder.ts'
import { makeCertificates, run, startEtcd } from './crd-server.ts'

const assets = process.env.KUBEBUILDER_ASSETS
const programs = Object.fromEntries(
  ['kube-apiserver', 'etcd', 'kubectl'].map((name) => [name, join(assets ?? '/nowhere', name)]),
)
const missing = Object.entries(programs).filter(([, path]) => !existsSync(path))

/** Why there is none, for tests to skip; false if there is one. */
export const noKubeServer =
  noOpenssl ||
  (assets === undefined
    ? 'no KUBEBUILDER_ASSETS (CONTRIBUTING.md)'
    : missing.length > 0 && `no ${missing.map(([name]) => name).join()} in KUBEBUILDER_ASSETS`)

export interface KubeServer {
  /** The administrator's client. */
  readonly client: KubeClient
  readonly access: ClusterAccess
  /** `kubectl` as the administrator; `input` is its standard input. */
  kubectl(args: readonly string[], input?: string): KubectlResult
  /** A token of a service account, as the kubelet would mount it. */
  tokenFor(namespace: string, account: string, audience?: string): Promise<string>
  /** The access of a service account. */
  accessAs(namespace: string, account: string): Promise<ClusterAccess>
  /** The path of a KUBECONFIG for a service account. */
  kubeconfigFor(namespace: string, account: string): Promise<string>
}

export interface KubectlResult {
  readonly status: number | null
  readonly output: string
}

/** Resolves once it responds; both end with `t`. */
export async function startKubeServer(t: Test): Promise<KubeServer> {
  const folder = temporaryFolder(t)
  const at = (name: string): string => join(folder, name)
  makeCertificates(folder)
  const openssl = (...args: readonly string[]) =>
    execFileSync('openssl', args, { cwd: folder, stdio: 'ignore' })
  openssl('ecparam', '-genkey', '-name', 'prime256v1', '-noout', '-out', 'accounts.key')
  openssl('ec', '-in', 'accounts.key', '-pubout', '-out', 'accounts.pub')
  const etcd = await startEtcd(t, programs.etcd ?? '', at('etcd'))
  const [port = 0] = await freePorts(1)
  run(t, programs['kube-apiserver'] ?? '', [
    ...['--etcd-servers', etcd, '--bind-address', '127.0.0.1', '--secure-port', `${port}`],
    ...['--tls-cert-file', at('serving.crt'), '--tls-private-key-file', at('serving.key')],
    ...['--client-ca-file', at('ca.crt'), '--authorization-mode', 'RBAC'],
    ...['--service-account-issuer', 'https://kubernetes.default.svc'],
    ...['--service-account-key-file', at('accounts.pub')],
    ...['--service-account-signing-key-file', at('accounts.key')],
    ...['--service-cluster-ip-range', '10.0.0.0/24', '--endpoint-reconciler-type', 'none'],
  ])
  const read = (name: string): string => readFileSync(at(name), 'utf8')
  const server = `https://127.0.0.1:${port}`
  const access = { server, ca: read('ca.crt'), cert: read('admin.crt'), key: read('admin.key') }
  const client = createClient(access, { timeoutMs: 30_000 })
  const isUp = () => client.send({ path: '/api/v1/namespaces/default' }).catch(() => undefined)
  await poll(isUp, 'kube-apiserver answers', 120_000)

  const kubeconfig = writeKubeconfig(at('admin.json'), {
    'client-certificate': at('admin.crt'),
    'client-key': at('admin.key'),
  })
  function writeKubeconfig(path: string, user: object): string {
    const cluster = { server, 'certificate-authority': at('ca.crt') }
    const file = {
      ...{ apiVersion: 'v1', kind: 'Config', 'current-context': 'c' },
      contexts: [{ name: 'c', context: { cluster: 'c', user: 'u' } }],
      clusters: [{ name: 'c', cluster }],
      users: [{ name: 'u', user }],
    }
    writeFileSync(path, JSON.stringify(file))
    return path
  }
  const self: KubeServer = {
    client,
    access,
    kubectl(args, input) {
      const all = ['--kubeconfig', kubeconfig, '--cache-dir', at('cache'), ...args]
      const options = { encoding: 'utf8', input: input ?? '', maxBuffer: 2 ** 24 } as const
      const { status, stdout, stderr } = spawnSync(programs.kubectl ?? '', all, options)
      return { status, output: `${stdout}${stderr}` }
    },
    async tokenFor(namespace, account, audience) {
      const { status } = await client.send({
        method: 'POST',
        path: `/api/v1/namespaces/${namespace}/serviceaccounts/${account}/token`,
        body: {
          apiVersion: 'authentication.k8s.io/v1',
          kind: 'TokenRequest',
          spec: { ...(audience && { audiences: [audience] }), expirationSeconds: 3_600 },
        },
      })
      return (status as { token: string }).token
    },
    async accessAs(namespace, account) {
      return { server, ca: access.ca, token: await self.tokenFor(namespace, account) }
    },
    async kubeconfigFor(namespace, account) {
      const token = await self.tokenFor(namespace, account)
      return writeKubeconfig(at(`${namespace}-${account}.json`), { token })
    },
  }
  return self
}
