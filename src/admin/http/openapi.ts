/** The OpenAPI document of the external API, and its page. */

import { join } from 'node:path'
import swagger from '@fastify/swagger'
import swaggerUi, { type FastifySwaggerUiOptions } from '@fastify/swagger-ui'
import type { FastifyInstance } from 'fastify'
import { packageRoot } from '../../runtime/package-root.ts'

/** As `npm run openapi` has written it from the schemas of the routes. */
const document = join(packageRoot, 'docs', 'openapi.json')

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

/** Serves the document at `/openapi.json` and `/docs`, both without a credential. */
export function serveDocument(app: FastifyInstance): void {
  const specification = { path: document, baseDir: packageRoot }
  app.register(swagger, { mode: 'static', specification })
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
