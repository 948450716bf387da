/**
 * envoy/bootstrap.yaml, in which `!script` names the parts of a filter's script, files of envoy/lua, and `!joined` is a list of
 * which Envoy gets the removals by a prefix as one.
 */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type CollectionTag, isMap, isSeq, parse, type ScalarTag } from 'yaml'
import { packageRoot } from '../runtime/package-root.ts'

const folder = join(packageRoot, 'envoy')

/**
 * Each part is a block of its own, because Lua allows a block 200 local variables; what a part offers to the
 * others is global, which only the scripts of one filter share.
 */
const script: ScalarTag = {
  tag: '!script',
  resolve: (parts) =>
    parts
      .split(' ')
      .map((part) => readFileSync(join(folder, 'lua', `${part}.lua`), 'utf8').trimEnd())
      .map((text) => `do\n${text}\nend`)
      .join('\n\n'),
}

const removed = ['remove_on_match', 'key_matcher']
/** How headers of ours and of Envoy's begin, which are removed by themselves. */
const ours: readonly unknown[] = [undefined, 'x-tollgate-', 'x-envoy-']

/** For each prefix by itself Envoy would go through all headers again. */
const joined: CollectionTag = {
  tag: '!joined',
  collection: 'seq',
  resolve(list) {
    const prefixOf = (each: unknown) => isMap(each) && each.getIn([...removed, 'prefix'])
    const isJoined = (each: unknown) => !ours.includes(prefixOf(each) || undefined)
    if (!isSeq(list)) return list
    const [first, ...others] = list.items.filter(isJoined)
    const regex = `(?i)(${[first, ...others].map(prefixOf).join('|')}).*`
    if (isMap(first)) first.setIn(removed, { safe_regex: { regex } })
    list.items = list.items.filter((each) => !others.includes(each))
    return list
  },
}

/** The text of envoy/bootstrap.yaml. */
export function readTemplate(): string {
  return readFileSync(join(folder, 'bootstrap.yaml'), 'utf8')
}

/** The configuration in such a text, as Envoy gets it; its aliases share what they name. */
export function parseTemplate(text: string): unknown {
  // To count the aliases of a text that is ours takes as long as to parse it.
  return parse(text, { customTags: [script, joined], maxAliasCount: -1 })
}
