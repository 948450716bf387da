/**
 * `npm run envoy`: copies the scripts of lua/ into bootstrap.yaml, so that the file is complete. A filter has
 * one script, of which the parts are in several files. Each part is a block of its own, because Lua allows a block
 * 200 local variables; what a part offers to the others is global, which only the scripts of one filter share.
 */

import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const bootstrap = fileURLToPath(new URL('bootstrap.yaml', import.meta.url))

/** A comment that names the parts of a script, and the block below it for its text. */
const block =
  /^( *)# envoy\/(lua\/[a-z0-9-]+\.lua(?:, lua\/[a-z0-9-]+\.lua)*)\n +inline_string: \|\n(?:\1 {2}.*\n|\n)*/gm

/** The configuration with the current scripts. */
export function withScripts(text: string): string {
  return text.replace(block, (_, indent: string, files: string) => {
    const parts = files
      .split(', ')
      .map((file) => readFileSync(new URL(file, import.meta.url), 'utf8').trimEnd())
      .map((part) => `do\n${part}\nend`)
    const lines = parts.join('\n\n').split('\n')
    const script = lines.map((line) => (line === '' ? '' : `${indent}  ${line}`))
    return [`${indent}# envoy/${files}`, `${indent}inline_string: |`, ...script, '', ''].join('\n')
  })
}

if (import.meta.main) writeFileSync(bootstrap, withScripts(readFileSync(bootstrap, 'utf8')))
