/**
 * envoy/bootstrap.yaml, in which `!script` names the parts of a filter's script, files of envoy/lua, and `!joined` is a list of
 * which Envoy gets the removals of headers as one.
 */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type CollectionTag, isMap, isSeq, parse, type ScalarTag, type YAMLMap } from 'yaml'
import { packageRoot } from '../runtime/package-root.ts'
import { clientHeaders } from './tracing.ts'

const folder = join(packageRoot, 'envoy')

/**
 * Each part is a block of its own, because Lua allows a block 200 local variables. Parts share globals, which only
 * the scripts of one filter see.
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
/** Prefixes of our headers and Envoy's, and trace headers, which tracing.ts may keep: each has a removal of its own. */
const apart: readonly unknown[] = ['x-tollgate-', 'x-envoy-', ...clientHeaders]

/** Joins removals, because Envoy would search all headers again for each prefix, and look up each name. */
const joined: CollectionTag = {
  tag: '!joined',
  collection: 'seq',
  resolve(list) {
    if (!isSeq(list)) return list
    const items = list.items.filter((each) => isMap(each))
    const prefixOf = (each: YAMLMap) => each.getIn([...removed, 'prefix'])
    const nameOf = (each: YAMLMap) => each.get('remove')
    const isJoined = (text: unknown) => text !== undefined && !apart.includes(text)
    const [first, ...others] = items.filter((each) => isJoined(prefixOf(each) ?? nameOf(each)))
    if (first === undefined) return list
    const [prefixes, names] = [prefixOf, nameOf].map((textOf) =>
      items.map(textOf).filter(isJoined).join('|'),
    )
    first.delete('remove')
    first.setIn(removed, { safe_regex: { regex: `(?i)(${prefixes}).*|${names}` } })
    list.items = list.items.filter((each) => !others.some((other) => other === each))
    return list
  },
}

/** The text of envoy/bootstrap.yaml. */
export function readBootstrapTemplate(): string {
  return readFileSync(join(folder, 'bootstrap.yaml'), 'utf8')
}

/** The configuration in such a text, as Envoy gets it; aliases share one object. */
export function parseBootstrapTemplate(text: string): unknown {
  // Counting the aliases of our own text takes as long as parsing it.
  return parse(text, { customTags: [script, joined], maxAliasCount: -1 })
}
