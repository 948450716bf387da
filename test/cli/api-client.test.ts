import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import { responseMarks } from '../../src/cli/api-client.ts'
import { packageRoot } from '../../src/runtime/package-root.ts'

/** No command asks for these. */
const unasked = [
  '/health',
  '/v1/admin/state',
  '/v1/api-keys/config',
  '/v1/model/{modelId}/subscriptions',
  '/v1/models/{id}',
  '/v1/subscriptions',
  '/v1/tiers/lookup',
]

interface Schema {
  readonly $ref?: string
  readonly type?: string
  readonly required?: readonly string[]
  readonly oneOf?: readonly Schema[]
  readonly anyOf?: readonly Schema[]
}

interface Operation {
  readonly responses?: Readonly<
    Record<string, { readonly content?: Readonly<Record<string, { readonly schema: Schema }>> }>
  >
}

interface OpenApi {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
}

const api: OpenApi = JSON.parse(readFileSync(join(packageRoot, 'docs', 'openapi.json'), 'utf8'))

function resolve(schema: Schema): Schema {
  const path = schema.$ref?.split('/').slice(1) ?? []
  if (path.length === 0) return schema
  return path.reduce((from, name) => (from as never)[name], api as unknown) as Schema
}

test('each response that a command asks for shows that it is of this API', async (t) => {
  const seen = new Set<string>()
  for (const [path, operations] of Object.entries(api.paths)) {
    for (const [method, { responses = {} }] of Object.entries(operations)) {
      for (const [status, { content = {} }] of Object.entries(responses)) {
        const json = content['application/json']
        if (json === undefined || !status.startsWith('2') || unasked.includes(path)) continue
        const schema = resolve(json.schema)
        for (const each of (schema.oneOf ?? schema.anyOf ?? [schema]).map(resolve)) {
          const has = responseMarks.some((mark) => each.required?.includes(mark))
          t.ok(has, `${method} ${path} ${status}: add a field to responseMarks`)
          seen.add(path)
        }
      }
    }
  }
  t.ok(seen.size >= 15, `${seen.size} paths`)
  for (const path of unasked) t.ok(path in api.paths, `${path} is in the API`)
})
