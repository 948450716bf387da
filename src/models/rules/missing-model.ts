/** What is said of a model that a resource names and that is not there. */

import { nearestName } from '../../formats/nearest-name.ts'

/** The most missing models that another name is looked for: each is compared with all. */
const maxCompared = 5

/**
 * Says of each missing model (`<namespace>/<name>`) where the problem of its ModelRef is, else which of the known ones
 * was probably meant; undefined: neither is known. `unread`: places of documents that are not in force, by key.
 */
export function missingModels(
  known: readonly string[],
  unread: ReadonlyMap<string, string>,
): (key: string) => string | undefined {
  let left = maxCompared
  return (key) => {
    const place = unread.get(`ModelRef/${key}`)
    if (place !== undefined) return `names the model ${key}, which is not in force: see ${place}`
    left -= 1
    const near = left < 0 ? undefined : nearestModel(key, known)
    return near && `names the model ${key}, which does not exist (did you mean ${near}?)`
  }
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
