/** Which methods a path knows, for the answers to all the others: 405, and 204 to OPTIONS. */

import type { FastifyInstance } from 'fastify'

/**
 * The methods of the route that a path belongs to: one without parameters before one with. Empty
 * when it belongs to none.
 */
export type MethodsOf = (path: string) => readonly string[]

/** Follows the routes as they are added to `app`. */
export function followMethods(app: FastifyInstance): MethodsOf {
  const routes = new Map<string, { readonly pattern: RegExp; readonly methods: Set<string> }>()
  app.addHook('onRoute', ({ url, method }) => {
    const route = routes.get(url) ?? { pattern: toPattern(url), methods: new Set(['OPTIONS']) }
    for (const one of [method].flat()) route.methods.add(one)
    routes.set(url, route)
  })
  return (path) => {
    const exact = routes.get(path)
    if (exact !== undefined) return [...exact.methods].sort()
    for (const { pattern, methods } of routes.values()) {
      if (pattern.test(path)) return [...methods].sort()
    }
    return []
  }
}

/**
 * `/v1/api-keys/:id` → one segment for each parameter; `*` at the end stands for any number, spelled
 * plainly: what is escaped there is nobody's path.
 */
function toPattern(url: string): RegExp {
  const segments = url.split('/').map((segment) => {
    if (segment === '*') return '[\\w.:@~/-]+'
    return segment.startsWith(':') ? '[^/]+' : segment.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
  })
  return new RegExp(`^${segments.join('/')}$`)
}
