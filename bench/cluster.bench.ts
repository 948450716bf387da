/**
 * What a large cluster costs while Checks are answered: the first sync, and single changes, by wall
 * clock, CPU and the longest block of the event loop. This process simulates the API server, so
 * that sending costs almost nothing.
 */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { pino } from 'pino'
import { createResourceAudit } from '../src/audit/service-events.ts'
import { noTrail } from '../src/audit/trail.ts'
import {
  type AllModelPolicies,
  noPolicies,
  policiesInSteps,
} from '../src/cluster/rules/policies.ts'
import type { JsonObject } from '../src/formats/fields.ts'
import { createClusterFile } from '../src/gateway/cluster-file.ts'
import { type KubeClient, KubeError } from '../src/kubernetes/client.ts'
import { routerLabels } from '../src/models/rules/reading/parse-routing.ts'
import { createClusterSource } from '../src/models/sources/cluster-source.ts'
import { collections } from '../src/models/sources/collections.ts'
import { startPipeline } from '../src/models/sources/pipeline.ts'
import { createResourceLogger } from '../src/models/sources/resource-report.ts'
import { inSlices } from '../src/runtime/slices.ts'
import { cpuMicros, type Figure, maxTurn, median } from './measure.ts'

const apiVersion = 'tollgate.dev/v1alpha1'
const models = 2_000
const subscriptions = 10_000
const policies = 500
const changes = 9

function object(kind: string, namespace: string, name: string, spec: object): JsonObject {
  version += 1
  const metadata = { name, namespace, uid: `${kind}-${name}`, resourceVersion: `${version}` }
  return { apiVersion, kind, metadata, spec }
}

let version = 0
const own = 'models-as-a-service'

function modelRef(i: number, modelIds: readonly string[] = []): JsonObject {
  const modelRef = { kind: 'LLMInferenceService', name: `m${i}` }
  // Half of them have a backendUrl; for the others the backend is found.
  const backendUrl = i % 2 === 0 ? { backendUrl: `http://10.0.0.1:${1_000 + i}` } : {}
  return object('ModelRef', 'llm', `m${i}`, { modelRef, modelIds, ...backendUrl })
}

function httpRoute(i: number, prefix = `/llm/m${i}`): JsonObject {
  const written = object('HTTPRoute', 'llm', `m${i}-kserve-route`, {
    parentRefs: [{ name: 'models', namespace: 'gateways' }],
    rules: [
      {
        matches: [{ path: { type: 'PathPrefix', value: prefix } }],
        filters: [{ type: 'URLRewrite' }],
        backendRefs: [
          { group: 'inference.networking.k8s.io', kind: 'InferencePool', name: `m${i}` },
        ],
      },
    ],
  })
  const labels = { ...routerLabels, 'app.kubernetes.io/name': `m${i}` }
  const type = { ...written, apiVersion: 'gateway.networking.k8s.io/v1' }
  return { ...type, metadata: { ...(written.metadata as object), labels } }
}

function gateway(address = '10.96.0.7'): JsonObject {
  const listeners = [{ name: 'http', port: 80, protocol: 'HTTP' }]
  const made = object('Gateway', 'gateways', 'models', { listeners })
  return { ...made, status: { addresses: [{ value: address }] } }
}

function references(i: number) {
  return [0, 1, 2, 3].map((next) => ({ namespace: 'llm', name: `m${(4 * i + next) % models}` }))
}

function subscription(i: number, limit = 100_000): JsonObject {
  const tokenRateLimits = [
    { limit, window: '1m' },
    { limit: 10 * limit, window: '1h' },
  ]
  return object('Subscription', own, `s${i}`, {
    owner: { groups: [{ name: `team-${i}` }] },
    modelRefs: references(i).map((reference) => ({ ...reference, tokenRateLimits })),
  })
}

function accessPolicy(i: number, group = `team-${i}`): JsonObject {
  const subjects = { groups: [{ name: group }] }
  return object('AccessPolicy', own, `p${i}`, { modelRefs: references(i), subjects })
}

/** A simulated API server with these objects that sends changes by `push`. */
function createPlayed(stored: Readonly<Record<string, readonly JsonObject[]>>) {
  const streams = new Map<string, (line: Buffer) => void>()
  const pluralOf = (path: string): string => /\/([a-z]+)\?/.exec(path)?.[1] ?? ''
  const client: KubeClient = {
    async send({ path }) {
      await delay(0)
      const items = stored[pluralOf(path)]
      const isThere = /tollgate\.dev|gateway\.networking/.test(path)
      if (items === undefined || !isThere) throw new KubeError(404, 'no such')
      const from = Number(/continue=(\d+)/.exec(path)?.[1] ?? 0)
      const limit = Number(/limit=(\d+)/.exec(path)?.[1])
      const next = from + limit < items.length ? `${from + limit}` : ''
      // Each page is sent as text.
      const page = JSON.stringify({
        metadata: { resourceVersion: `${version}`, continue: next },
        items: items.slice(from, from + limit),
      })
      return JSON.parse(page)
    },
    async open({ path, signal }) {
      return (async function* () {
        for (;;) {
          const line = await new Promise<Buffer | undefined>((settle) => {
            streams.set(pluralOf(path), settle)
            signal?.addEventListener('abort', () => settle(undefined), { once: true })
          })
          if (line === undefined) return
          yield line
        }
      })()
    },
  }
  const push = (plural: string, changed: JsonObject): void =>
    streams.get(plural)?.(Buffer.from(`${JSON.stringify({ type: 'MODIFIED', object: changed })}\n`))
  return { client, push }
}

export async function benchCluster(): Promise<readonly Figure[]> {
  const range = <T>(count: number, make: (i: number) => T) =>
    Array.from({ length: count }, (_, i) => make(i))
  const { client, push } = createPlayed({
    modelrefs: range(models, (i) => modelRef(i)),
    accesspolicies: range(policies, (i) => accessPolicy(i)),
    subscriptions: range(subscriptions, (i) => subscription(i)),
    tenants: [],
    httproutes: range(models, (i) => httpRoute(i)),
    gateways: [gateway()],
  })
  const directory = mkdtempSync(join(tmpdir(), 'tollgate-bench-'))
  const clusterFile = createClusterFile({
    directory,
    readLoadedClusters: () => Promise.reject(new Error('no Envoy')),
    onLoaded() {},
    onSeen() {},
    onOverdue() {},
    onFault: console.error,
  })
  const figures: Figure[] = []
  let published = 0
  let generated: AllModelPolicies = noPolicies
  async function time(act: () => unknown): Promise<readonly [number, number]> {
    const before = published
    await delay(300)
    const begin = process.cpuUsage()
    const startedAt = performance.now()
    await act()
    while (published === before) await delay(1)
    return [performance.now() - startedAt, cpuMicros(begin) / 1_000]
  }
  const show = ([tookMs, cpuMs]: readonly number[]): string =>
    `${tookMs?.toFixed(0)} ms, ${cpuMs?.toFixed(0)} ms CPU`
  const heap = process.memoryUsage().heapUsed
  let controller: { close(): void } | undefined
  try {
    const report = createResourceLogger(pino({ level: 'silent' }))
    const noteChanges = createResourceAudit(noTrail)
    const first = await time(async () => {
      controller = await startPipeline({
        source: createClusterSource({
          client,
          groups: Object.keys(collections) as (keyof typeof collections)[],
          onProblem() {},
        }),
        async publish(snapshot, resources, refused) {
          await inSlices(clusterFile.planInSteps(snapshot))
          await clusterFile.write()
          generated = await inSlices(policiesInSteps(snapshot, refused, generated))
          await noteChanges(resources)
          published += 1
        },
        report,
        onFailure: console.error,
      })
    })
    figures.push({ name: 'first sync of a cluster with 14,500 resources', value: show(first) })
    globalThis.gc?.()
    const grown = (process.memoryUsage().heapUsed - heap) / 1_048_576
    figures.push({
      name: '  heap, the played API server included',
      value: `${grown.toFixed(0)} MiB`,
    })
    for (const [name, change] of [
      ['one ModelRef', (i: number) => push('modelrefs', modelRef(i, [`id-${version}`]))],
      ['one Subscription', (i: number) => push('subscriptions', subscription(i, version))],
      ['one HTTPRoute', (i: number) => push('httproutes', httpRoute(i | 1, `/x/${version}`))],
      ['the Gateway of all models', () => push('gateways', gateway(`10.96.0.${version % 250}`))],
      ['one AccessPolicy', (i: number) => push('accesspolicies', accessPolicy(i, `g-${version}`))],
    ] as const) {
      const seen: (readonly number[])[] = []
      const blocks: number[] = []
      for (let i = 0; i < 2 * changes; i += 1) {
        if (i < changes) seen.push(await time(() => change(i * 23)))
        else blocks.push(await maxTurn(() => time(() => change(i * 23))))
      }
      const middle = [0, 1].map((at) => median(seen.map((each) => each[at] as number)))
      figures.push(
        { name: `  a change of ${name}, median`, value: show(middle) },
        {
          name: '    most work in one turn of the event loop, median / worst',
          value: `${median(blocks).toFixed(1)} / ${Math.max(...blocks).toFixed(1)} ms CPU`,
        },
      )
    }
  } finally {
    controller?.close()
    clusterFile.close()
    rmSync(directory, { recursive: true })
  }
  return figures
}

if (import.meta.main) {
  for (const { name, value } of await benchCluster()) console.log(`${name.padEnd(58)}  ${value}`)
}
