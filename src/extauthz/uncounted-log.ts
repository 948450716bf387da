/** Reports once for each path that its tokens could be counted and are not. */

import type { Decision } from '../decide/decision.ts'
import { meterable, type PathRules } from '../operations/operations.ts'

/** Called with the path and the value of METER_PATHS that would count it and those before it. */
type OnUncounted = (path: string, setting: string) => void

/**
 * Watches decisions. Coding agents use messages and responses, which are not counted by default: without this, a limit
 * would seem to have no effect.
 */
export function createUncountedLog(
  { metered }: PathRules,
  onUncounted: OnUncounted,
): (decision: Decision) => void {
  const names = Object.entries(meterable)
  const left = new Set<string>(Object.values(meterable))
  for (const path of metered) left.delete(path)
  return (decision) => {
    if (!decision.allowed || !decision.uncounted || left.size === 0) return
    const { model, upstreamPath } = decision
    const [path = ''] = upstreamPath.slice(model.basePath.length).split('?', 1)
    if (!left.delete(path)) return
    const setting = names.filter(([, each]) => !left.has(each)).map(([each]) => each)
    onUncounted(path, setting.join(','))
  }
}
