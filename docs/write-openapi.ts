/**
 * `npm run openapi`: writes docs/openapi.json from the route schemas; a test checks that it is up
 * to date.
 */

import { writeFileSync } from 'node:fs'
import swagger from '@fastify/swagger'
import type { FastifyInstance } from 'fastify'
import { pino } from 'pino'
import { type AdminDeps, buildAdmin } from '../src/admin/server.ts'
import { nameSchemas } from './name-schemas.ts'

const description = `Make API keys, list models and see your subscriptions. Inference itself is at
the same address: any OpenAI client works with an API key and this base URL.

Every refusal is \`{"error":{"message","type","code"}}\`. Dates are RFC 3339, UTC, whole seconds.
Operations do not list the statuses of requests that do not reach them: 400 (not valid HTTP), 408 (too slow),
415 (gRPC), 417 (\`Expect\`), 426 (an upgrade), 431 (headers too large) and 508 (sent by the gateway to a model).`

const tags = [
  {
    name: 'API keys',
    description: 'Created with an identity token, shown once, stored as a hash.',
  },
  { name: 'Models', description: 'The models that the caller may use.' },
  { name: 'Subscriptions', description: 'They pay for models, within limits.' },
  { name: 'Usage', description: 'Tokens and cost so far, and the rest of each limit.' },
  { name: 'Administration', description: 'For administrators, with an identity token.' },
  { name: 'Service', description: 'Health of the service, and who the caller is.' },
] as const

interface Operation {
  readonly requestBody?: { required?: boolean; readonly content?: Record<string, MediaType> }
}

interface MediaType {
  readonly schema?: { readonly type?: string | readonly string[] }
}

/** A nullable body is optional, but the generator marks every body as required. */
function markOptionalBodies(paths: Record<string, Record<string, Operation>>): void {
  for (const operation of Object.values(paths).flatMap((path) => Object.values(path))) {
    const body = operation.requestBody
    const type = body?.content?.['application/json']?.schema?.type
    if (body !== undefined && Array.isArray(type) && type.includes('null')) body.required = false
  }
}

/** Collects the routes that are added after it. */
function collectRoutes(app: FastifyInstance): void {
  app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: { title: 'Tollgate', version: '1', description, license: { name: 'Apache-2.0' } },
      servers: [
        { url: '/', description: 'The gateway, or the API itself.' },
        { url: '/maas-api', description: 'The API at the gateway, under a prefix.' },
      ],
      tags: [...tags],
      components: {
        securitySchemes: {
          identityToken: {
            type: 'http',
            scheme: 'bearer',
            description: 'An identity token; accepted for everything except inference.',
          },
          apiKey: {
            type: 'http',
            scheme: 'bearer',
            bearerFormat: 'sk-…',
            description:
              'An API key; accepted for everything except creating keys. Also accepted in x-api-key.',
          },
        },
      },
      security: [{ identityToken: [] }, { apiKey: [] }],
    },
    transformObject(documents) {
      if (!('openapiObject' in documents)) throw new Error('the document is OpenAPI 3')
      const { openapiObject } = documents
      markOptionalBodies(openapiObject.paths as Record<string, Record<string, Operation>>)
      nameSchemas(openapiObject)
      return openapiObject
    },
  })
}

/** The document as it is committed. Calls no dependency: only schemas are read. */
export async function renderOpenapi(): Promise<string> {
  const deps = { log: pino({ level: 'silent' }) } as unknown as AdminDeps
  const app = buildAdmin(deps, collectRoutes)
  await app.ready()
  const document = app.swagger()
  await app.close()
  return `${JSON.stringify(document, null, 2)}\n`
}

if (import.meta.main) {
  writeFileSync(new URL('./openapi.json', import.meta.url), await renderOpenapi())
}
