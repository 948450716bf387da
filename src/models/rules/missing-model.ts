/** What is said of a model that a resource names and that is not there. */

import { nearestName } from '../../formats/nearest-name.ts'

/** The most missing models that another name is looked for: each is compared with all. */
const maxCompared = 5

/** What is known of models that are not there, by `<namespace>/<name>`; nothing is said of most. */
export type SaidOfMissing = ReadonlyMap<string, string>

/** Why the model is not there, as what a resource names. */
export function namesMissing(key: string, said?: SaidOfMissing): string {
  return `names the model ${key}, which ${said?.get(key) ?? 'does not exist'}`
}

/**
 * Of the missing models, whether their ModelRef is written and not in force, else which of the known ones was probably
 * meant. `isUnread`: whether the document of a `<kind>/<namespace>/<name>` is not in force.
 */
export function aboutMissing(
  missing: Iterable<string>,
  known: readonly string[],
  isUnread: (key: string) => boolean,
): SaidOfMissing {
  const said = new Map<string, string>()
  let left = maxCompared
  for (const key of new Set(missing)) {
    if (isUnread(`ModelRef/${key}`)) {
      said.set(key, 'is not in force')
      continue
    }
    left -= 1
    const near = left < 0 ? undefined : nearestModel(key, known)
    if (near !== undefined) said.set(key, `does not exist (did you mean ${near}?)`)
  }
  return said
}

/** One of the same namespace with a similar name, or of another one with the same. */
function nearestModel(key: string, known: readonly string[]): string | undefined {
  const [namespace, name = ''] = key.split('/')
  const beside = `${namespace}/`
  const names = known.flatMap((each) => (each.startsWith(beside) ? each.slice(beside.length) : []))
  const nearest = nearestName(name, names)
  if (nearest !== undefined) return `${beside}${nearest}`
  return known.find((each) => each.endsWith(`/${name}`))
}
