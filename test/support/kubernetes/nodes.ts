/**
 * A cluster with three nodes on this machine, made by test/nightly/soak/nodes: as root, with containerd, an
 * engine for the image, and the programs of test/nightly/soak/nodes/build in KUBEBUILDER_ASSETS.
 */

import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { packageRoot } from '../../../src/runtime/package-root.ts'
import { createDatabase } from '../database.ts'
import { startDnsServer } from '../dns-server.ts'
import { buildImage, noEngine, saveImages } from '../image/engine.ts'
import { startTcpProxy, type TcpProxy } from '../tcp-proxy.ts'
import { startValkey } from '../valkey.ts'
import { valkeyPath } from '../valkey-binary.ts'
import { findProgram } from './programs.ts'

const { KUBEBUILDER_ASSETS: assets = '/nowhere' } = process.env
const built = ['kube-apiserver', 'etcd', 'kubelet', 'metrics-server'].map((each) =>
  join(assets, each),
)
const installed = ['containerd', 'ctr', 'runc', 'ip', 'iptables', 'openssl', 'kubectl']
const missing = [
  ...built.filter((path) => !existsSync(path)),
  ...installed.filter((name) => findProgram(name) === undefined),
]

/** Why there are none, for tests to skip; false if they can be made. */
export const noNodes =
  (process.getuid?.() !== 0 && 'not root') ||
  (missing.length > 0 && `no ${missing.join()}`) ||
  noEngine ||
  (valkeyPath() === undefined && 'no Valkey')

/** Short, because paths of sockets are limited. */
const folder = '/tmp/tollgate-nodes'

/** The administrator's KUBECONFIG. */
export const nodesKubeconfig = join(folder, 'conf', 'admin.conf')

/** The address of this machine, as pods reach it. */
const machine = '172.30.0.254'

export interface Nodes {
  readonly databaseUrl: string
  readonly redisUrl: string
  /** The routes from the pods to the stores. */
  readonly database: TcpProxy
  readonly redis: TcpProxy
  /** Whether DNS answers. */
  setDns(answers: boolean): void
  /** Kills the first process of a container, as a crash would. */
  killContainer(node: string, id: string): void
  /** Kills the API server, and starts it again. */
  killApiServer(): void
  startApiServer(): void
}

const script = (name: string) => join(packageRoot, 'test', 'nightly', 'soak', 'nodes', name)

/** Builds the images and starts the nodes, which end with `t`; existing nodes are used and left. */
export async function startNodes(t: Test): Promise<Nodes> {
  if (!existsSync(nodesKubeconfig)) {
    t.teardown(() => spawnSync(script('down'), [folder], { stdio: 'inherit' }))
    mkdirSync(folder)
    const archive = join(folder, 'images.tar')
    buildImages(archive)
    execFileSync(script('up'), [folder, assets, archive], {
      stdio: ['ignore', 'ignore', 'inherit'],
    })
  }

  let answers = true
  const services = watchServices()
  t.teardown(services.stop)
  await startDnsServer(t, (name) => (answers ? services.addressOf(name) : null), {
    address: machine,
    port: 53,
  })
  const { port, pathname, username, password } = new URL(await createDatabase(t))
  const valkey = await startValkey(t)
  const at = (port: number) => ({ at: { host: machine, port } })
  const pid = () => Number(readFileSync(join(folder, 'pid', 'apiserver'), 'utf8'))
  return {
    databaseUrl: `postgres://${username}:${password}@${machine}:5432${pathname}`,
    redisUrl: `redis://${machine}:6379`,
    database: await startTcpProxy(t, Number(port), at(5432)),
    redis: await startTcpProxy(t, valkey.port, at(6379)),
    setDns(isUp) {
      answers = isUp
    },
    killContainer(node, id) {
      const socket = join(folder, node, 'containerd.sock')
      execFileSync('ctr', ['-a', socket, '-n', 'k8s.io', 'tasks', 'kill', '-s', 'SIGKILL', id])
    },
    killApiServer: () => void process.kill(pid(), 'SIGKILL'),
    startApiServer() {
      // Also called by a test's end, when the route may exist.
      if (existsSync(`/proc/${pid()}/fd`)) return
      const started = spawn(join(folder, 'apiserver'), { detached: true, stdio: 'ignore' })
      started.unref()
      writeFileSync(join(folder, 'pid', 'apiserver'), `${started.pid}`)
    },
  }
}

function buildImages(archive: string): void {
  const [image, trial, pause] = ['tollgate:0.2.0', 'tollgate-trial:0.2.0', 'tollgate-pause:0.2.0']
  buildImage(image)
  buildImage(trial, 'trial')
  buildImage(pause, undefined, script('Containerfile'))
  saveImages(archive, [image, trial, pause])
}

/** The addresses of Services by name, polled every two seconds. */
function watchServices() {
  let known: ReadonlyMap<string, string> = new Map()
  const template =
    '{range .items[*]}{.metadata.name}.{.metadata.namespace}.svc.cluster.local {.spec.clusterIP}{"\\n"}{end}'
  function look(): void {
    const args = ['get', 'services', '-A', '-o', `jsonpath=${template}`]
    const asked = spawn('kubectl', ['--kubeconfig', nodesKubeconfig, ...args], {
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    let text = ''
    asked.stdout.setEncoding('utf8').on('data', (more: string) => {
      text += more
    })
    asked.on('close', (status) => {
      const pairs = text.trim().split('\n')
      if (status === 0) known = new Map(pairs.map((line) => line.split(' ') as [string, string]))
    })
  }
  look()
  const timer = setInterval(look, 2_000)
  return {
    addressOf: (name: string) => known.get(name),
    stop: () => clearInterval(timer),
  }
}
