/**
 * What resources cost while Checks are answered: the first load and single changes, by wall clock,
 * CPU and the longest block of the event loop.
 */

import { mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { stringify } from 'yaml'
import { createClusterFile } from '../src/gateway/cluster-file.ts'
import { createFolderSource } from '../src/models/sources/folder-source.ts'
import { startPipeline } from '../src/models/sources/pipeline.ts'
import { inSlices } from '../src/runtime/slices.ts'
import { cpuMicros, type Figure, maxTurn, median } from './measure.ts'

const apiVersion = 'tollgate.dev/v1alpha1'
const models = 2_000
const subscriptions = 7_500
const policies = 500
const changes = 9

/** A ModelRef and its Subscription, which fill one of 2,000 files. */
function modelFile(i: number, modelIds: readonly string[] = []): string {
  const metadata = { name: `m${i}`, namespace: 'llm' }
  const modelRef = { kind: 'LLMInferenceService', name: `m${i}` }
  const spec = { modelRef, backendUrl: `http://10.0.0.1:${1_000 + i}`, modelIds }
  const model = { apiVersion, kind: 'ModelRef', metadata, spec }
  return `${stringify(model)}---\n${subscription(`own-${i}`, i)}`
}

function subscription(name: string, i: number, limit = 100_000): string {
  const owner = { groups: [{ name: `team-${i}` }] }
  const modelRefs = [0, 7].map((next) => ({
    namespace: 'llm',
    name: `m${(i + next) % models}`,
    tokenRateLimits: [
      { limit, window: '1m' },
      { limit: 10 * limit, window: '1h' },
    ],
  }))
  const spec = { owner, modelRefs }
  return stringify({ apiVersion, kind: 'Subscription', metadata: { name }, spec })
}

function subscriptionFile(changed?: number): string {
  return Array.from({ length: subscriptions }, (_, i) =>
    subscription(`s${i}`, i, i === changed ? 5 : undefined),
  ).join('---\n')
}

function policyFile(changed?: number): string {
  return Array.from({ length: policies }, (_, i) =>
    stringify({
      apiVersion,
      kind: 'AccessPolicy',
      metadata: { name: `p${i}` },
      spec: {
        modelRefs: [0, 1, 2, 3].map((next) => ({ namespace: 'llm', name: `m${4 * i + next}` })),
        subjects: { groups: [{ name: i === changed ? 'nobody' : `team-${i}` }] },
      },
    }),
  ).join('---\n')
}

export async function benchResources(): Promise<readonly Figure[]> {
  const root = mkdtempSync(join(tmpdir(), 'tollgate-bench-'))
  const folder = join(root, 'resources')
  mkdirSync(folder)
  const put = (name: string, text: string): void => {
    writeFileSync(join(root, 'fresh'), text)
    renameSync(join(root, 'fresh'), join(folder, name))
  }
  for (let i = 0; i < models; i += 1) put(`m${i}.yaml`, modelFile(i))
  put('subscriptions.yaml', subscriptionFile())
  put('policies.yaml', policyFile())

  const clusterFile = createClusterFile({
    directory: join(root, 'envoy'),
    readLoadedClusters: () => Promise.reject(new Error('no Envoy')),
    onLoaded() {},
    onSeen() {},
    onOverdue() {},
    onFault: console.error,
  })
  let published = 0
  /** Milliseconds until `act` is in force, and CPU milliseconds of that. */
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
  const figures: Figure[] = []
  try {
    let controller: { close(): void } | undefined
    const first = await time(async () => {
      controller = await startPipeline({
        source: createFolderSource(folder),
        async publish(snapshot) {
          await inSlices(clusterFile.planInSteps(snapshot))
          await clusterFile.write()
          published += 1
        },
        report() {},
        onFailure: console.error,
      })
    })
    figures.push({ name: 'first load of 12,000 resources in 2,002 files', value: show(first) })
    for (const [name, change] of [
      ['one ModelRef of 2,000 files', (i: number) => [`m${i}.yaml`, modelFile(i, ['other'])]],
      ['one Subscription of 7,500', (i: number) => ['subscriptions.yaml', subscriptionFile(i)]],
      ['one AccessPolicy of 500', (i: number) => ['policies.yaml', policyFile(i)]],
    ] as const) {
      const seen: (readonly number[])[] = []
      const blocks: number[] = []
      for (let i = 0; i < 2 * changes; i += 1) {
        const [file, text] = change(i * 23) as [string, string]
        // Watching the loop costs CPU, so it has its own turn.
        if (i < changes) seen.push(await time(() => put(file, text)))
        else blocks.push(await maxTurn(() => time(() => put(file, text))))
      }
      const middle = [0, 1].map((at) => median(seen.map((one) => one[at] as number)))
      figures.push(
        { name: `  a change of ${name}, median`, value: show(middle) },
        {
          name: '    most work in one turn of the event loop, median / worst',
          value: `${median(blocks).toFixed(0)} / ${Math.max(...blocks).toFixed(0)} ms CPU`,
        },
      )
    }
    controller?.close()
  } finally {
    clusterFile.close()
    rmSync(root, { recursive: true })
  }
  return figures
}

if (import.meta.main) {
  for (const { name, value } of await benchResources()) console.log(`${name.padEnd(52)}  ${value}`)
}
