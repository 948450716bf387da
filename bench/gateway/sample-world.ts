/** The resources of a bench: one model, open to one group, with limits that only a burst reaches. */

import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const model = { namespace: 'llm', name: 'bench' }
const limits = [
  { limit: 1_000_000_000, window: '1h' },
  { limit: 1_000_000_000, window: '24h' },
]

/** Each answer has as many tokens as its request may have at most, and the limit has room for forty. */
export const bursts = ['count', 'reserve'].map((mode) => {
  return { mode, subscription: `burst-${mode}`, tokens: 300, limit: 12_000 }
})

export const modelPath = `/${model.namespace}/${model.name}`
export const modelName = model.name
/** The identity token that creates keys, and its line in a token file. */
export const token = 'bench-token'
export const tokenLine = `${token},bench,1,bench\n`

export function writeResources(folder: string, backendUrl: string): void {
  const apiVersion = 'tollgate.dev/v1alpha1'
  const documents = [
    {
      kind: 'ModelRef',
      metadata: model,
      spec: {
        modelRef: { kind: 'LLMInferenceService', name: model.name },
        backendUrl,
        modelIds: [model.name],
      },
    },
    {
      kind: 'AccessPolicy',
      metadata: { name: 'bench' },
      spec: { modelRefs: [model], subjects: { groups: [{ name: 'bench' }] } },
    },
    {
      kind: 'Subscription',
      metadata: { name: 'bench' },
      spec: {
        owner: { groups: [{ name: 'bench' }] },
        modelRefs: [{ ...model, tokenRateLimits: limits }],
      },
    },
    ...bursts.map(({ mode, subscription, limit }) => ({
      kind: 'Subscription',
      metadata: { name: subscription },
      spec: {
        owner: { groups: [{ name: 'bench' }] },
        modelRefs: [{ ...model, tokenRateLimits: [{ limit, window: '1h' }] }],
        admission: { mode },
      },
    })),
  ]
  mkdirSync(folder, { recursive: true })
  const text = documents.map((each) => `${JSON.stringify({ apiVersion, ...each })}\n`).join('---\n')
  writeFileSync(join(folder, 'bench.yaml'), text)
}
