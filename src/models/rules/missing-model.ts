/** Messages about models that a resource names and that do not exist. */

import { nearestName } from '../../formats/nearest-name.ts'
import type { ResourceProblem, Snapshot } from './snapshot.ts'

/** Maximum number of missing models for which another name is searched: each is compared with all. */
const maxCompared = 5

/** Places of documents that are not in force, by `<kind>/<namespace>/<name>`. */
export type InvalidDocumentLocations = ReadonlyMap<string, string>

/** The message that a resource names a model, and why there is none. */
export function missingModelMessage(key: string, why = 'does not exist'): string {
  return `names the model ${key}, which ${why}`
}

/** The problems, with a hint for each missing model; a resource's problems may be older than its snapshot. */
export function addMissingHints(
  problems: readonly ResourceProblem[],
  said: Snapshot['saidOfMissing'],
  unread?: InvalidDocumentLocations,
): readonly ResourceProblem[] {
  return problems.map((problem) => {
    const { missing: key = '' } = problem
    const place = unread?.get(`ModelRef/${key}`)
    const see = place === undefined ? '' : `: see ${place}`
    if (key === '') return problem
    return { ...problem, message: `${missingModelMessage(key, said.get(key))}${see}` }
  })
}

/**
 * For missing models: whether their ModelRef is written but not in force, else which one was probably meant, unless
 * a document is illegible, which may be their ModelRef.
 */
export function missingModelHints(
  { models, problems }: Pick<Snapshot, 'models' | 'problems'>,
  unread: InvalidDocumentLocations,
  hasIllegible = false,
): Snapshot['saidOfMissing'] {
  const said = new Map<string, string>()
  let left = hasIllegible ? 0 : maxCompared
  for (const key of new Set(problems.flatMap(({ missing }) => missing ?? []))) {
    const isUnread = unread.has(`ModelRef/${key}`)
    if (isUnread) said.set(key, 'is not in force')
    const near = isUnread || left-- <= 0 ? undefined : nearestModel(key, [...models.keys()])
    if (near !== undefined) said.set(key, `does not exist (did you mean ${near}?)`)
  }
  return said
}

/** A model in the same namespace with a similar name, or in another namespace with the same name. */
function nearestModel(key: string, known: readonly string[]): string | undefined {
  const [namespace, name = ''] = key.split('/')
  const beside = `${namespace}/`
  const names = known.flatMap((each) => (each.startsWith(beside) ? each.slice(beside.length) : []))
  const nearest = nearestName(name, names)
  if (nearest !== undefined) return `${beside}${nearest}`
  return known.find((each) => each.endsWith(`/${name}`))
}
