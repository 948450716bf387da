/** Puts the resources of a source together: of two with one key the first counts. */

import type { Resource } from '../../kinds/resources.ts'
import type { RefusedResource } from '../rules/refused-resources.ts'
import { type FileProblem, problemPrefix, type WrittenResource } from './documents.ts'
import type { Contents } from './resource-source.ts'
import { duplicateOutcome, resolveDuplicateTenant } from './unreadable-tenant.ts'

/** `sayEarlier`: that there is one already, as the rest of a sentence; `noLine`: the line of a missing resource. */
export function createResourceGatherer(
  sayEarlier: (earlier: WrittenResource) => string,
  noLine: number,
) {
  const found = new Map<string, WrittenResource>()
  return {
    /** Adds a resource. Returns a problem if an earlier one has its key. */
    add(fresh: WrittenResource): FileProblem | undefined {
      const { key, file, resource, lineOf } = fresh
      const earlier = found.get(key)
      if (earlier === undefined) {
        found.set(key, fresh)
        return undefined
      }
      const instead = resolveDuplicateTenant(earlier.resource, resource)
      if (instead !== undefined) found.set(key, { ...earlier, resource: instead })
      const message = `${key} ${sayEarlier(earlier)}, ${duplicateOutcome(instead)}`
      return { file, line: lineOf(['metadata', 'name']), severity: 'error', message }
    },
    end(problems: readonly FileProblem[], refused: readonly RefusedResource[]): Contents {
      const resources: Resource[] = []
      for (const { resource } of found.values()) resources.push(resource)
      return {
        resources,
        problems,
        refused,
        locate(key, path, message) {
          const { file = '', lineOf = () => noLine } = found.get(key) ?? {}
          const whole = `${problemPrefix(key)}${message}`
          return { file, line: lineOf(path), severity: 'warning', message: whole }
        },
      }
    },
  }
}
