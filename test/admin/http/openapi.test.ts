import { readFileSync } from 'node:fs'
import { test } from 'tap'
import { renderOpenapi } from '../../../docs/write-openapi.ts'

interface OpenapiDocument {
  readonly openapi: string
  readonly paths: Record<string, Record<string, Operation>>
}
interface Operation {
  readonly operationId: string
  readonly summary: string
  readonly security?: readonly object[]
  readonly responses: Record<string, { readonly description: string }>
}

const read = (path: string): string =>
  readFileSync(new URL(`../../../${path}`, import.meta.url), 'utf8')

async function operations(): Promise<(Operation & { readonly row: string })[]> {
  const { paths } = JSON.parse(await renderOpenapi()) as OpenapiDocument
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      ...operation,
      row: `| \`${method.toUpperCase()} ${path}\` | ${operation.summary} |`,
    })),
  )
}

test('docs/openapi.json is up to date', async (t) => {
  t.equal(await renderOpenapi(), read('docs/openapi.json'), 'run: npm run openapi')
})

test('every operation describes its answers', async (t) => {
  for (const { operationId, responses, security } of await operations()) {
    t.ok(operationId)
    t.ok(
      Object.keys(responses).some((status) => status.startsWith('2')),
      `${operationId}: success`,
    )
    for (const [status, { description }] of Object.entries(responses)) {
      t.not(description, 'Default Response', `${operationId} ${status}`)
    }
    if (security?.length !== 0) t.ok(responses[401], `${operationId}: 401`)
  }
})

test('the guide lists every operation', async (t) => {
  const guide = read('docs/use.md')
  for (const { row } of await operations()) {
    t.ok(guide.includes(row), `a row of the table in docs/use.md: ${row}`)
  }
})
