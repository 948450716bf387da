/**
 * Why requests failed: Envoy's report of each (failure-log.ts), and the cluster's reports about its pod at that time.
 */

import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { clusterEnv, gatewaySelector } from './cluster.ts'
import type { Failure } from './user-pod.ts'

interface Change {
  readonly at: number
  readonly pod: string
  readonly createdAt: number
  readonly state: string
}

interface Seen {
  readonly type: string
  readonly object: {
    readonly metadata: {
      readonly name: string
      readonly creationTimestamp: string
      readonly deletionTimestamp?: string
    }
    readonly status: {
      readonly conditions?: readonly { readonly type: string; readonly status: string }[]
      readonly containerStatuses?: readonly { readonly name: string; readonly state: object }[]
    }
  }
}

export interface GatewayWatch {
  /** A line for each failure: Envoy's report, and the state of its pod. */
  explain(failures: readonly Failure[]): readonly string[]
  stop(): void
}

/** Follows the pods of the gateway and their logs until `stop`, also across an outage of the API server. */
export function watchGateway(): GatewayWatch {
  const changes: Change[] = []
  const drains: { readonly at: number; readonly pod: string; readonly text: string }[] = []
  const accounts = new Map<string, { readonly pod: string; readonly account: object }>()
  const children = new Map<string, ReturnType<typeof spawn>>()
  let isOver = false

  /** Starts `kubectl` unless it runs; `onLine` gets its lines that are JSON objects. */
  function follow(name: string, args: readonly string[], onLine: (line: string) => void): void {
    if (isOver || children.has(name)) return
    const child = spawn('kubectl', ['-n', 'tollgate', ...args], {
      ...{ env: clusterEnv, stdio: ['ignore', 'pipe', 'ignore'] },
    })
    children.set(name, child)
    const lines = createInterface({ input: child.stdout as NodeJS.ReadableStream })
    // The last one may be torn.
    lines.on('line', (line) => /^\{.*\}$/.test(line) && onLine(line))
    child.on('close', () => {
      children.delete(name)
      if (name === pods) setTimeout(followPods, 1_000).unref()
    })
  }

  const pods = ''
  function followPods(): void {
    const flags = ['-l', gatewaySelector, '--watch', '--output-watch-events', '-o', 'json']
    // An event is one line.
    follow(pods, ['get', 'pods', ...flags], (line) => note(JSON.parse(line) as Seen))
  }

  function note({ type, object: { metadata, status } }: Seen): void {
    const { conditions = [], containerStatuses = [] } = status
    const envoy = containerStatuses.find(({ name }) => name === 'envoy')
    const is = (type: string) =>
      conditions.some((each) => each.type === type && each.status === 'True')
    const state = [
      type === 'DELETED' ? 'gone' : metadata.deletionTimestamp ? 'terminating' : 'running',
      is('Ready') ? 'ready' : 'not ready',
      `Envoy ${Object.keys(envoy?.state ?? {}).join()}`,
    ].join(', ')
    const pod = metadata.name
    const createdAt = Date.parse(metadata.creationTimestamp)
    const last = changes.findLast((change) => change.pod === pod)
    if (last?.state !== state) changes.push({ at: Date.now(), pod, createdAt, state })
    if (type === 'DELETED' || !('running' in (envoy?.state ?? {}))) return
    follow(`${pod} tollgate`, ['logs', '--follow', pod, '--container', 'tollgate'], (line) => {
      if (!/"msg":"[^"]*Envoy/.test(line)) return
      const { time: at, requests, connections, msg } = JSON.parse(line)
      drains.push({ at, pod, text: JSON.stringify({ msg, requests, connections }) })
    })
    follow(pod, ['logs', '--follow', pod, '--container', 'envoy'], (line) => {
      const { id, ...account } = JSON.parse(line) as { id: string }
      accounts.set(id, { pod, account })
    })
  }

  followPods()
  return {
    explain(failures) {
      const seconds = (ms: number) => `${(ms / 1_000).toFixed(1)} s`
      const stateOf = (pod: string, at: number) => {
        const change = changes.findLast((each) => each.pod === pod && each.at <= at)
        if (change === undefined) return `${pod}: not seen yet`
        const age = `${seconds(at - change.createdAt)} old`
        const said = drains
          .filter((each) => each.pod === pod)
          .map((each) => `, ${each.text} ${seconds(each.at - at)} later`)
        return `${pod}: ${age}, ${change.state} for ${seconds(at - change.at)}${said.join('')}`
      }
      return failures.map((failure) => {
        const { id = '', endedAt, sentAt } = failure
        const found = accounts.get(id)
        const names = found ? [found.pod] : [...new Set(changes.map(({ pod }) => pod))]
        const states = names.map((pod) => stateOf(pod, endedAt))
        const about = { ...failure, tookMs: endedAt - sentAt, ...found?.account }
        return `failed: ${JSON.stringify(about)} ${states.join('; ')}`
      })
    },
    stop() {
      isOver = true
      for (const child of children.values()) child.kill()
    },
  }
}
