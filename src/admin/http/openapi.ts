/** The OpenAPI 3.1 document, generated from the route schemas, and its page. */

import swagger from '@fastify/swagger'
import swaggerUi, { type FastifySwaggerUiOptions } from '@fastify/swagger-ui'
import type { FastifyInstance } from 'fastify'
import { nameSchemas } from './named-schemas.ts'

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

/** The bar selects between documents; there is only one. */
const theme = `.swagger-ui .topbar { display: none }
.back { display: block; font: 600 14px system-ui, sans-serif; margin: 0 auto; max-width: 1460px; padding: 16px 20px 0 }
@media (prefers-color-scheme: dark) { body { background: #1c2022 } .back { color: #a5b8ff } }`

/** The console has the same reference, with the credential of the user who is signed in. */
const backToConsole = `addEventListener('DOMContentLoaded', () => {
  const link = document.createElement('a')
  link.className = 'back'
  link.href = '/console/reference'
  link.textContent = '← Tollgate console'
  document.body.prepend(link)
})`

/**
 * Collects the routes registered after it, and serves their document at `/openapi.json` and
 * `/docs`, both without a credential.
 */
export function describeApi(app: FastifyInstance): void {
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
  app.register(async (scope) => {
    scope.addHook('onRequest', async (_request, reply) => {
      reply.headers({ 'x-content-type-options': 'nosniff', 'referrer-policy': 'no-referrer' })
    })
    scope.register(swaggerUi, page)
    scope.get('/openapi.json', { schema: { hide: true } }, () => app.swagger())
  })
}

/** The page, which loads everything from us and also works over plain HTTP on a private network. */
const page: FastifySwaggerUiOptions = {
  routePrefix: '/docs',
  staticCSP: true,
  transformStaticCSP: (policy) =>
    policy.replace(' validator.swagger.io', '').replace(' upgrade-insecure-requests;', ''),
  logLevel: 'warn',
  uiConfig: { docExpansion: 'list', defaultModelsExpandDepth: -1 },
  theme: {
    title: 'Tollgate API',
    css: [{ filename: 'theme.css', content: theme }],
    js: [{ filename: 'theme.js', content: backToConsole }],
  },
}
