import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Test, test } from 'tap'
import { connectApi, responseMarks } from '../../src/cli/api-client.ts'
import type { CommandIo } from '../../src/cli/terminal.ts'
import { packageRoot } from '../../src/runtime/package-root.ts'
import { runAt } from '../support/command.ts'
import { startScripted } from '../support/list-api.ts'

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

/** Lists keys; the gateway refuses the requests with these numbers, from 1, and has three pages. */
async function listRefused(t: Test, refused: readonly number[]) {
  let [asked, pages] = [0, 0]
  const { url } = await startScripted(t, (_request, response) => {
    asked += 1
    const isRefused = refused.includes(asked)
    response.writeHead(isRefused ? 429 : 200, {
      'content-type': 'application/json',
      ...(isRefused && { 'retry-after': '0' }),
    })
    const error = { code: 'too_many_requests', message: 'Too many requests.' }
    pages += isRefused ? 0 : 1
    const page = { data: [{ id: `${pages}` }], has_more: pages < 3 }
    response.end(JSON.stringify(isRefused ? { error } : page))
  })
  const env = { TOLLGATE_URL: url, TOLLGATE_TOKEN: 'x' }
  return { ...(await runAt({ env }, 'key', 'list', '--json')), asked }
}

test('a list continues when the limit of requests allows it', async (t) => {
  const waited = await listRefused(t, [2, 4, 5])
  t.match(waited, { status: 0, asked: 6, err: /^Too many requests: continuing in 0 s\.$/m })
  t.equal(JSON.parse(waited.out).data.length, 3)
  const first = await listRefused(t, [1])
  t.match(first, { status: 1, asked: 1, err: 'Too many requests.' }, 'a first request is refused')
  t.match(await listRefused(t, [2, 3, 4, 5]), { status: 1, asked: 5 }, 'it gives up')
})

test('other failures do not count as requests beyond the limit', async (t) => {
  const statuses = [200, 404, 404, 404, 404, 429, 200]
  const { url } = await startScripted(t, (_request, response) => {
    const status = statuses.shift() ?? 200
    response.writeHead(status, { 'content-type': 'application/json', 'retry-after': '0' })
    const error = { code: status === 429 ? 'too_many_requests' : 'not_found', message: 'No.' }
    response.end(JSON.stringify(status === 200 ? { data: [] } : { error }))
  })
  const said: string[] = []
  const io = {
    env: { TOLLGATE_URL: url, TOLLGATE_TOKEN: 'x' },
    err: (line: string) => said.push(line),
  }
  const ask = connectApi(io as unknown as CommandIo, { url: undefined, 'insecure-http': false })
  await ask('GET', '/v1/api-keys/1')
  for (let i = 0; i < 4; i += 1) await t.rejects(ask('GET', '/v1/api-keys/2'), { message: 'No.' })
  t.strictSame([await ask('GET', '/v1/api-keys/3'), statuses], [{ data: [] }, []])
  t.strictSame(said, ['Too many requests: continuing in 0 s.'])
})
