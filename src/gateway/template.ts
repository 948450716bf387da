/** envoy/bootstrap.yaml, in which `!script` names the parts of a filter's script: files of envoy/lua. */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse, type ScalarTag } from 'yaml'
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

/** The text of envoy/bootstrap.yaml. */
export function readTemplate(): string {
  return readFileSync(join(folder, 'bootstrap.yaml'), 'utf8')
}

/** The configuration in such a text, with its scripts, or in JSON, which is read thirty times as fast. */
export function parseTemplate(text: string): unknown {
  return text.startsWith('{') ? JSON.parse(text) : parse(text, { customTags: [script] })
}
