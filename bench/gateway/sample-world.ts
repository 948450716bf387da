/** The resources of a bench: one model, open to one group, with limits that are never reached. */

import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const model = { namespace: 'llm', name: 'bench' }
const limits = [
  { limit: 1_000_000_000, window: '1h' },
  { limit: 1_000_000_000, window: '24h' },
]

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
  ]
  mkdirSync(folder, { recursive: true })
  const text = documents.map((each) => `${JSON.stringify({ apiVersion, ...each })}\n`).join('---\n')
  writeFileSync(join(folder, 'bench.yaml'), text)
}
