/** Says once for each path that its tokens could be counted and are not. */

import type { Decision } from '../core/decision/decide.ts'
import { meterable, type PathRules } from '../core/decision/operations.ts'

/** Called with the path and the value of METER_PATHS that would count it too. */
type OnUncounted = (path: string, wanted: string) => void

/**
 * Looks at decisions. Coding agents use messages and responses, which are not counted by default:
 * without this, a limit would seem to have no effect.
 */
export function createUncountedLog(
  { metered }: PathRules,
  onUncounted: OnUncounted,
): (decision: Decision) => void {
  const names = Object.entries(meterable)
  const left = new Map<string, string>()
  for (const [name, path] of names) if (!metered.has(path)) left.set(path, name)
  return (decision) => {
    if (!decision.allowed || !decision.uncounted || left.size === 0) return
    const { model, upstreamPath } = decision
    const [path = ''] = upstreamPath.slice(model.basePath.length).split('?', 1)
    const name = left.get(path)
    if (name === undefined) return
    left.delete(path)
    const counted = names.filter(([, each]) => metered.has(each)).map(([each]) => each)
    onUncounted(path, [...counted, name].join(','))
  }
}
