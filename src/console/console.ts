/** `/console`: the page on which people see and create keys, as built by `npm run console`. */

import { randomBytes } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { extname, join } from 'node:path'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import type { FastifyInstance, FastifyReply } from 'fastify'
import { ServiceError } from '../formats/errors.ts'
import { packageRoot } from '../runtime/package-root.ts'
import { noncePlaceholder } from './nonce.ts'
import { type SignInDeps, signIn } from './sign-in.ts'

const compress = promisify(gzip)

/** The built page; an absolute path. */
export const consoleFolder = join(packageRoot, 'console', 'dist')

const types: Readonly<Record<string, string>> = {
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
}

/**
 * Adds the routes, which need no credential, unlike the page's calls to the API. Every path below `/console/` is the
 * page itself, which reads it. Throws if the page has not been built.
 */
export function serveConsole(app: FastifyInstance, deps: SignInDeps): void {
  signIn(app, deps)
  const page = readFileSync(join(consoleFolder, 'index.html'), 'utf8')
  const names = readdirSync(join(consoleFolder, 'assets'))
  const compressed = new Map<string, Promise<Buffer>>()

  /** Compressed once. The gateway removes accept-encoding, and every browser reads gzip. */
  function assetOf(name: string): Promise<Buffer> {
    const known = compressed.get(name)
    if (known !== undefined) return known
    const asset = compress(readFileSync(join(consoleFolder, 'assets', name)))
    compressed.set(name, asset)
    return asset
  }

  const schema = { hide: true }
  for (const path of ['/console', '/console/*']) {
    app.get(path, { schema }, async (request, reply) => {
      // A file of an earlier or later version of the page.
      if (request.url.startsWith('/console/assets/')) throw new ServiceError('not_found')
      const nonce = randomBytes(16).toString('base64')
      protect(reply)
        .header('content-security-policy', policyWith(nonce))
        .header('cross-origin-opener-policy', 'same-origin')
        .header('x-frame-options', 'DENY')
        .header('cache-control', 'no-store')
        .type('text/html; charset=utf-8')
      return page.replaceAll(noncePlaceholder, nonce)
    })
  }
  // A route for each, so that no other name is looked up. The names change with the content.
  for (const name of names) {
    app.get(`/console/assets/${name}`, { schema }, async (_request, reply) => {
      protect(reply)
        .header('cache-control', 'public, max-age=31536000, immutable')
        .header('content-encoding', 'gzip')
        .type(types[extname(name)] ?? 'application/octet-stream')
      return assetOf(name)
    })
  }
}

function protect(reply: FastifyReply): FastifyReply {
  return reply
    .header('x-content-type-options', 'nosniff')
    .header('cross-origin-resource-policy', 'same-origin')
    .header('referrer-policy', 'no-referrer')
}

/** The page loads and calls only this origin, and may not be framed. */
function policyWith(nonce: string): string {
  return [
    "default-src 'none'",
    "script-src 'self'",
    `style-src 'self' 'nonce-${nonce}'`,
    "img-src 'self' data:",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; ')
}
