/** The methods that a path supports, for the responses to all others: 405, and to OPTIONS. */

import type { FastifyInstance } from 'fastify'
import { getOrAdd } from '../../formats/lists.ts'

/** The methods of the route that a path matches: one without parameters before one with. Empty if it matches none. */
export type MethodsOf = (path: string) => readonly string[]

/** Records the routes as they are added to `app`. */
export function followMethods(app: FastifyInstance): MethodsOf {
  const routes = new Map<string, { readonly pattern: RegExp; readonly methods: Set<string> }>()
  app.addHook('onRoute', ({ url, method }) => {
    const make = () => ({ pattern: toPattern(url), methods: new Set(['OPTIONS']) })
    for (const one of [method].flat()) getOrAdd(routes, url, make).methods.add(one)
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
 * `/v1/api-keys/:id` → a segment for each parameter; `*` at the end matches any number of them,
 * unescaped.
 */
function toPattern(url: string): RegExp {
  const segments = url.split('/').map((segment) => {
    if (segment === '*') return '[\\w.:@~/-]+'
    return segment.startsWith(':') ? '[^/]+' : segment.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
  })
  return new RegExp(`^${segments.join('/')}$`)
}
